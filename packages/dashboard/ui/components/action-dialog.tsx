import { useState, type ReactNode } from "react";
import { explain, useChange, useMe } from "../queries.ts";
import { Button } from "./button.tsx";
import { Dialog, Field, TypedConfirmation } from "./dialog.tsx";
import { Banner } from "./page.tsx";

/** An action on one thing: what it means, why it is done, and what the server says. */
export type Action = {
  /** As "Pause nightly-audit". */
  readonly title: string;
  readonly verb: string;
  readonly means: ReactNode;
  readonly danger?: boolean;
  readonly needsReason?: boolean;
  /** Fields above the reason. */
  readonly fields?: ReactNode;
  /** Why the fields cannot be sent yet. */
  readonly incomplete?: string | null;
  /** In production the name of the environment must be typed. */
  readonly confirms?: boolean;
  readonly act: (reason: string, confirm: string) => Promise<unknown>;
};

export function ActionDialog({
  action,
  onClose,
  onDone,
}: {
  action: Action;
  onClose: () => void;
  onDone: () => void;
}) {
  const { data: me } = useMe();
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const run = useChange((why) => action.act(why, typed));
  const production =
    action.confirms === true && me?.environment?.production === true ? me.environment.name : undefined;
  const because =
    action.incomplete !== undefined && action.incomplete !== null
      ? action.incomplete
      : action.needsReason === true && reason.trim() === ""
        ? "Say why, for the people who will ask later."
        : production !== undefined && typed !== production
          ? `Type ${production} to continue.`
          : null;
  const start = (): void => {
    if (because === null && !run.isPending) run.mutate(reason.trim(), { onSuccess: onDone });
  };
  const refusal = run.error === null ? null : explain(run.error);
  return (
    <Dialog
      title={action.title}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button
            look={action.danger === true ? "danger" : "primary"}
            because={run.isPending ? "Waiting for the server." : because}
            onClick={start}
          >
            {action.verb}
          </Button>
        </>
      }
    >
      <p className="muted">{action.means}</p>
      <form
        className="dialog-form"
        onSubmit={(event) => {
          event.preventDefault();
          start();
        }}
      >
        {action.fields}
        <Field
          label={action.needsReason === true ? "Reason" : "Reason (may stay empty)"}
          hint="Recorded in the audit log under your name."
          value={reason}
          onChange={setReason}
          autoFocus={action.fields === undefined}
        />
        {production === undefined ? null : (
          <TypedConfirmation word={production} value={typed} onChange={setTyped} />
        )}
        <button type="submit" hidden />
      </form>
      {refusal === null ? null : (
        <Banner tone="soon" title={refusal.message}>
          {refusal.hint}
        </Banner>
      )}
    </Dialog>
  );
}
