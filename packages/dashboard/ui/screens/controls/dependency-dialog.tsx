import { useState } from "react";
import { api, type ControlsResponse } from "../../api.ts";
import { ActionDialog } from "../../components/action-dialog.tsx";
import { Button } from "../../components/button.tsx";
import { Field } from "../../components/dialog.tsx";
import { SelectField } from "../../components/fields.tsx";
import { showToast } from "../../components/toast.tsx";
import { roundDuration } from "../../format.ts";

type Dependency = NonNullable<ControlsResponse["dependencies"]>[number];
type Settings = Dependency["settings"];

const periods = { minute: "minute", hour: "hour", day: "day", week: "week", month: "month" } as const;

type Form = {
  readonly max: string;
  readonly min: string;
  readonly limit: string;
  readonly per: string;
  readonly burst: string;
  readonly quota: string;
  readonly period: keyof typeof periods;
  readonly zone: string;
};

const textOf = (value: number | undefined): string => (value === undefined ? "" : String(value));

function formOf({ concurrency, rate, quota }: Settings): Form {
  return {
    max: textOf(concurrency?.max),
    min: textOf(concurrency?.min),
    limit: textOf(rate?.limit),
    per: rate === undefined ? "" : roundDuration(rate.perMs),
    burst: textOf(rate?.burst),
    quota: textOf(quota?.limit),
    period: quota?.per ?? "day",
    zone: quota?.zone ?? "",
  };
}

/** The parts that differ from the settings in force; null removes a part. Parts that are the same are left out: another person may change them. */
function changeOf(form: Form, settings: Settings): Readonly<Record<string, object | null>> {
  const before = formOf(settings);
  const differs = (...fields: (keyof Form)[]): boolean =>
    fields.some((field) => form[field].trim() !== before[field]);
  const optional = (name: string, text: string): object =>
    text.trim() === "" ? {} : { [name]: Number(text) };
  return {
    ...(differs("max", "min")
      ? {
          concurrency:
            form.max.trim() === ""
              ? null
              : {
                  max: Number(form.max),
                  ...optional("min", form.min),
                  ...(settings.concurrency === undefined ? {} : { recover: settings.concurrency.recoverMs }),
                },
        }
      : {}),
    ...(differs("limit", "per", "burst")
      ? {
          rate:
            form.limit.trim() === ""
              ? null
              : { limit: Number(form.limit), per: form.per.trim(), ...optional("burst", form.burst) },
        }
      : {}),
    ...(differs("quota", "period", "zone") && (form.quota.trim() !== "" || settings.quota !== undefined)
      ? {
          quota:
            form.quota.trim() === ""
              ? null
              : {
                  limit: Number(form.quota),
                  per: form.period,
                  ...(form.zone.trim() === "" ? {} : { zone: form.zone.trim() }),
                },
        }
      : {}),
  };
}

const numbers = {
  max: "Concurrency",
  min: "Lowest concurrency",
  limit: "Rate",
  burst: "Burst",
  quota: "Quota",
} as const;

function problemOf(form: Form): string | null {
  for (const [field, label] of Object.entries(numbers) as [keyof typeof numbers, string][])
    if (!/^\d*$/.test(form[field].trim())) return `${label} must be a whole number.`;
  return form.limit.trim() !== "" && form.per.trim() === "" ? "Say in which time the rate applies." : null;
}

/** Changes what a dependency allows. */
export function DependencyDialog({
  dependency: { name, settings, declared },
  onClose,
}: {
  readonly dependency: Dependency;
  readonly onClose: () => void;
}) {
  const [form, setForm] = useState(formOf(settings));
  // The settings change under an open dialog when another person changes them: compare with those that filled the form.
  const [filledFrom] = useState(settings);
  const isDeclared = declared !== null && JSON.stringify(formOf(declared)) === JSON.stringify(form);
  const change = changeOf(form, filledFrom);
  const field = (key: Exclude<keyof Form, "period">, label: string, placeholder = "") => (
    <Field
      label={label}
      value={form[key]}
      onChange={(value) => setForm((before) => ({ ...before, [key]: value }))}
      placeholder={placeholder}
      autoFocus={key === "max"}
    />
  );
  const action = {
    title: `Change ${name}`,
    verb: "Set",
    means:
      "It applies to jobs that start from now on, and ends a slow-down after rate limits. Running jobs continue.",
    needsReason: true,
    confirms: true,
    incomplete: problemOf(form) ?? (Object.keys(change).length === 0 ? "Change a value first." : null),
    fields: (
      <>
        <div className="field-row">
          {field("max", "Concurrency", "not limited")}
          {field("min", "Lowest after rate limits", "1")}
        </div>
        <div className="field-row">
          {field("limit", "Rate", "not limited")}
          {field("per", "in", "1m")}
          {field("burst", "Burst", "what one second adds")}
        </div>
        <div className="field-row">
          {field("quota", "Quota", "not limited")}
          <SelectField
            label="each"
            value={form.period}
            options={periods}
            onChange={(period) => setForm((before) => ({ ...before, period }))}
          />
          {field("zone", "Time zone", "UTC")}
        </div>
        <p className="field-hint">
          An empty concurrency, rate or quota does not limit.{" "}
          {declared === null ? null : (
            <Button small onClick={() => setForm(formOf(declared))}>
              Fill in the declared values
            </Button>
          )}
        </p>
      </>
    ),
    act: async (reason: string, confirm: string) => {
      await api.setDependency({ name, change: isDeclared ? null : change, reason, confirm });
      showToast(isDeclared ? `${name} has its declared values.` : `${name} is changed.`);
    },
  };
  return <ActionDialog action={action} onClose={onClose} onDone={onClose} />;
}
