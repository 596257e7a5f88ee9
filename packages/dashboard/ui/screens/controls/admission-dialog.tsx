import { useState } from "react";
import { api, type ControlsResponse } from "../../api.ts";
import { ActionDialog } from "../../components/action-dialog.tsx";
import { Field } from "../../components/dialog.tsx";
import { SelectField } from "../../components/fields.tsx";
import { showToast } from "../../components/toast.tsx";
import { useHealth } from "../../queries.ts";

type Setting = ControlsResponse["settings"][number];
type Admission = NonNullable<Setting["admission"]>;

const policies = {
  reject: "reject the enqueue",
  defer: "accept it for later",
  shed: "cancel waiting jobs",
  warn: "accept and count it",
} as const;
const orders = { "lowest-priority": "of the lowest priority", oldest: "the oldest" } as const;
const modes = {
  sampled: "a sample of at most a second ago",
  strict: "exact: commits wait for each other",
} as const;

type Form = {
  readonly queue: string;
  readonly maxDepth: string;
  readonly maxAge: string;
  readonly tenantDepth: string;
  readonly tenantAge: string;
  readonly tenantPolicy: keyof typeof policies;
  readonly policy: keyof typeof policies;
  readonly mode: keyof typeof modes;
  readonly deferBy: string;
  readonly shed: keyof typeof orders;
  /** Kept as they are. */
  readonly maxDelay: Readonly<Record<string, number>> | undefined;
  readonly tenantKept: { readonly deferBy?: number; readonly shed?: keyof typeof orders };
};

const textOf = (value: number | undefined): string => (value === undefined ? "" : String(value));
const msText = (ms: number | undefined): string => (ms === undefined ? "" : `${ms}ms`);

function formOf(queue: string, admission: Admission | null | undefined): Form {
  return {
    queue,
    maxDepth: textOf(admission?.maxDepth),
    maxAge: msText(admission?.maxAgeMs),
    tenantDepth: textOf(admission?.tenant?.maxDepth),
    tenantAge: msText(admission?.tenant?.maxAgeMs),
    tenantPolicy: admission?.tenant?.policy ?? "reject",
    policy: admission?.policy ?? "reject",
    mode: admission?.strict === true ? "strict" : "sampled",
    deferBy: msText(admission?.deferByMs),
    shed: admission?.shed ?? "lowest-priority",
    maxDelay: admission?.maxDelayMs,
    tenantKept: keptOf(admission?.tenant),
  };
}

function keptOf({ deferByMs, shed }: Partial<NonNullable<Admission["tenant"]>> = {}): Form["tenantKept"] {
  return {
    ...(deferByMs === undefined ? {} : { deferBy: deferByMs }),
    ...(shed === undefined ? {} : { shed }),
  };
}

/** The settings for each tenant; undefined: none. */
function tenantOf({ tenantDepth, tenantAge, tenantPolicy, tenantKept }: Form): object | undefined {
  const depth = tenantDepth.trim();
  const age = tenantAge.trim();
  if (depth === "" && age === "") return undefined;
  const { deferBy, shed } = tenantKept;
  return {
    policy: tenantPolicy,
    ...(depth === "" ? {} : { maxDepth: Number(depth) }),
    ...(age === "" ? {} : { maxAge: age }),
    ...(tenantPolicy === "defer" && deferBy !== undefined ? { deferBy } : {}),
    ...(tenantPolicy === "shed" && shed !== undefined ? { shed } : {}),
  };
}

/** The settings as the library takes them; null: without any limit, the declared value applies. */
function settingsOf(form: Form): object | null {
  const { maxDepth, maxAge, maxDelay, policy, mode, deferBy, shed } = form;
  const age = maxAge.trim();
  const tenant = tenantOf(form);
  if (maxDepth.trim() === "" && age === "" && tenant === undefined && maxDelay === undefined) return null;
  return {
    policy,
    ...(maxDepth.trim() === "" ? {} : { maxDepth: Number(maxDepth) }),
    ...(age === "" ? {} : { maxAge: age }),
    ...(maxDelay === undefined ? {} : { maxDelay }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(mode === "strict" ? { strict: true } : {}),
    ...(policy === "defer" && deferBy.trim() !== "" ? { deferBy: deferBy.trim() } : {}),
    ...(policy === "shed" ? { shed } : {}),
  };
}

/** Changes the admission settings of a queue or pattern, or sets them for one that has none. */
export function AdmissionDialog({
  setFor,
  setting,
  onClose,
}: {
  readonly setFor: string | undefined;
  readonly setting: Setting | undefined;
  readonly onClose: () => void;
}) {
  const [form, setForm] = useState(formOf(setFor ?? "", setting?.admission));
  const change = (next: Partial<Form>): void => setForm((before) => ({ ...before, ...next }));
  const { data: health } = useHealth();
  const queue = form.queue.trim();
  const admission = settingsOf(form);
  const sheds = form.policy === "shed" || (form.tenantPolicy === "shed" && tenantOf(form) !== undefined);
  const action = {
    title: setFor === undefined ? "Set admission" : `Admission of ${setFor}`,
    verb: "Set",
    means: sheds
      ? "Enqueues to a full queue, or of a full tenant, cancel waiting jobs of it, to make room."
      : "Decides about enqueues from now on. Jobs that exist stay.",
    danger: sheds,
    needsReason: true,
    confirms: true,
    incomplete: queue === "" ? "Name the queue." : null,
    fields: (
      <>
        {setFor === undefined ? (
          <Field
            label="Queue"
            value={form.queue}
            onChange={(next) => change({ queue: next })}
            placeholder="a name, or a pattern such as tenant-*"
            suggestions={health?.queues.map((one) => one.queue) ?? []}
            autoFocus
          />
        ) : null}
        <div className="field-row">
          <Field
            label="Max depth"
            value={form.maxDepth}
            onChange={(maxDepth) => change({ maxDepth })}
            placeholder="10000"
          />
          <Field
            label="Max age"
            value={form.maxAge}
            onChange={(maxAge) => change({ maxAge })}
            placeholder="10m"
          />
        </div>
        <div className="field-row">
          <SelectField
            label="When it is full"
            value={form.policy}
            options={policies}
            onChange={(policy) => change({ policy })}
          />
          <SelectField
            label="Decided by"
            value={form.mode}
            options={modes}
            onChange={(mode) => change({ mode })}
          />
        </div>
        {form.policy === "defer" ? (
          <Field
            label="Defer by (may stay empty)"
            hint="Empty: as long as the surplus takes to drain."
            value={form.deferBy}
            onChange={(deferBy) => change({ deferBy })}
            placeholder="1m"
          />
        ) : null}
        {form.policy === "shed" ? (
          <SelectField
            label="Jobs that go first"
            value={form.shed}
            options={orders}
            onChange={(shed) => change({ shed })}
          />
        ) : null}
        <div className="field-row">
          <Field
            label="Max depth per tenant"
            value={form.tenantDepth}
            onChange={(tenantDepth) => change({ tenantDepth })}
            placeholder="500"
          />
          <Field
            label="Max age per tenant"
            value={form.tenantAge}
            onChange={(tenantAge) => change({ tenantAge })}
            placeholder="10m"
          />
        </div>
        <SelectField
          label="When a tenant is full"
          value={form.tenantPolicy}
          options={policies}
          onChange={(tenantPolicy) => change({ tenantPolicy })}
        />
        {admission === null ? (
          <p className="field-hint">Without a depth or an age, the value that code declared applies.</p>
        ) : null}
      </>
    ),
    act: async (reason: string, confirm: string) => {
      await api.setQueue({ queue, admission, reason, confirm });
      showToast(`Admission of ${queue} is set.`);
    },
  };
  return <ActionDialog action={action} onClose={onClose} onDone={onClose} />;
}
