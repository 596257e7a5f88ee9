import { useNavigate } from "@tanstack/react-router";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api } from "../../api.ts";
import { Button } from "../../components/button.tsx";
import { Dialog, Field } from "../../components/dialog.tsx";
import { AreaField, SelectField } from "../../components/fields.tsx";
import { destination } from "../../components/link.tsx";
import { Banner } from "../../components/page.tsx";
import { showToast } from "../../components/toast.tsx";
import { explain, useKinds, useNextSlots } from "../../queries.ts";
import { NextSlots } from "../schedule/next-slots.tsx";
import { zones } from "../schedule/zones.ts";
import { scheduleScreen } from "./schedule-words.tsx";

const catchUps = {
  last: "run the newest of them",
  all: "run each of them",
  none: "run none of them",
} as const;
const overlaps = {
  allow: "run beside it",
  skip: "skip the slot",
  queue: "wait for it",
} as const;

const empty = {
  name: "",
  kind: "",
  payload: "{}",
  rule: "cron" as "cron" | "every",
  cron: "",
  every: "",
  zone: "UTC",
  catchUp: "last" as keyof typeof catchUps,
  overlap: "allow" as keyof typeof overlaps,
  jitter: "",
  reason: "",
};

/** Typing asks the server once it pauses, not with every letter. */
const pauseMs = 400;

function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  const text = JSON.stringify(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(JSON.parse(text) as T), pauseMs);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

export function AddSchedule({ onClose }: { onClose: () => void }) {
  const [form, setForm] = useState(empty);
  const change = (next: Partial<typeof empty>): void => setForm((before) => ({ ...before, ...next }));
  const kinds = useKinds();
  const client = useQueryClient();
  const navigate = useNavigate();
  const rule = form.rule === "cron" ? { cron: form.cron.trim() } : { every: form.every.trim() };
  const isComplete = Object.values(rule).every((value) => value !== "");
  const preview = useNextSlots(useSettled(isComplete ? { ...rule, zone: form.zone.trim() } : null));
  const problem = jsonProblem(form.payload);
  const add = useMutation({
    mutationFn: () => {
      const { name, kind, zone, catchUp, overlap, jitter, reason } = form;
      const payload: unknown = JSON.parse(form.payload);
      return api.addSchedule({ name, kind, zone, catchUp, overlap, jitter, reason, payload, ...rule });
    },
    onSuccess: async ({ name }) => {
      await client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== "me" });
      showToast("Schedule added.");
      onClose();
      void navigate(destination(scheduleScreen(name)));
    },
  });
  const because = add.isPending
    ? "Waiting for the server."
    : form.name.trim() === "" || form.kind.trim() === "" || !isComplete
      ? "Give a name, a kind and a rule."
      : problem;
  const refusal = add.error === null ? null : explain(add.error);
  const start = (): void => {
    if (because === null) add.mutate();
  };
  return (
    <Dialog
      title="Add a schedule"
      wide
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button look="primary" because={because} onClick={start}>
            Add
          </Button>
        </>
      }
    >
      <form
        className="dialog-form"
        onSubmit={(event) => {
          event.preventDefault();
          start();
        }}
      >
        <div className="field-row">
          <Field
            label="Name"
            value={form.name}
            onChange={(name) => change({ name })}
            placeholder="reminder:42"
            autoFocus
          />
          <Field
            label="Kind"
            value={form.kind}
            onChange={(kind) => change({ kind })}
            suggestions={[...new Set(kinds.data?.map(({ kind }) => kind))]}
          />
        </div>
        <AreaField
          label="Payload (JSON)"
          value={form.payload}
          problem={problem}
          onChange={(payload) => change({ payload })}
        />
        <div className="field-row">
          <SelectField
            label="Rule"
            value={form.rule}
            options={{ cron: "cron pattern", every: "interval" }}
            onChange={(next) => change({ rule: next })}
          />
          {form.rule === "cron" ? (
            <Field
              label="Pattern"
              value={form.cron}
              onChange={(cron) => change({ cron })}
              placeholder="30 2 * * *"
            />
          ) : (
            <Field
              label="Every"
              value={form.every}
              onChange={(every) => change({ every })}
              placeholder="15m"
            />
          )}
          <Field label="Zone" value={form.zone} onChange={(zone) => change({ zone })} suggestions={zones} />
        </div>
        <NextSlots
          label="Next ten slots"
          slots={isComplete && !preview.isError ? preview.data : undefined}
          error={isComplete ? preview.error : null}
        />
        <div className="field-row">
          <SelectField
            label="Slots missed while no worker ran"
            value={form.catchUp}
            options={catchUps}
            onChange={(catchUp) => change({ catchUp })}
          />
          <SelectField
            label="While the job before has not ended"
            value={form.overlap}
            options={overlaps}
            onChange={(overlap) => change({ overlap })}
          />
          <Field
            label="Jitter (may stay empty)"
            value={form.jitter}
            onChange={(jitter) => change({ jitter })}
            placeholder="30s"
          />
        </div>
        <Field
          label="Reason (may stay empty)"
          hint="Recorded in the audit log under your name."
          value={form.reason}
          onChange={(reason) => change({ reason })}
        />
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

function jsonProblem(text: string): string | null {
  try {
    JSON.parse(text);
    return null;
  } catch {
    return "The payload is not valid JSON.";
  }
}
