import { useState } from "react";
import type { GroupsResponse } from "../../api.ts";
import { Age } from "../../components/age.tsx";
import { Button } from "../../components/button.tsx";
import { Section } from "../../components/page.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { number, plural } from "../../format.ts";
import { useRights } from "../../queries.ts";
import { actions, whyNot } from "../operations/actions.ts";

type Group = GroupsResponse["groups"][number];
/** A group whose jobs this role may list. */
export type KnownGroup = Group & { readonly fingerprint: string };

/** Groups shown at first; "Show more" adds the rest. */
const few = 6;

const hidden =
  "Hidden from your role: errors may contain redacted values. Replay jobs one by one, or ask for the right to see payloads.";

/** Dead jobs grouped by error, the most frequent first. Opening a group filters the list; its jobs are replayed together. */
export function Groups({
  response,
  open,
  onOpen,
  onReplay,
}: {
  response: GroupsResponse;
  open: { readonly kind: string | undefined; readonly fingerprint: string | undefined };
  onOpen: (group: KnownGroup | undefined) => void;
  onReplay: (group: KnownGroup) => void;
}) {
  const [all, setAll] = useState(false);
  const { operate } = useRights();
  const { groups, others, of } = response;
  const isOpen = ({ kind, fingerprint }: Group) => fingerprint === open.fingerprint && kind === open.kind;
  const shown = all ? groups : groups.filter((group, index) => index < few || isOpen(group));
  return (
    <Section
      title="Errors"
      aside={of.capped ? `of the newest ${number(of.count)}` : plural(groups.length, "group")}
    >
      <ul className="dead-groups">
        {shown.map((group) => (
          <li
            key={`${group.kind} ${group.fingerprint ?? group.example}`}
            className="dead-group"
            data-open={isOpen(group) || undefined}
          >
            {isKnown(group) ? (
              <button
                type="button"
                className="dead-group-head dead-group-open"
                aria-pressed={isOpen(group)}
                onClick={() => onOpen(isOpen(group) ? undefined : group)}
              >
                <Head group={group} />
              </button>
            ) : (
              <div className="dead-group-head">
                <Head group={group} />
              </div>
            )}
            <div className="dead-group-foot">
              <span className="second">
                {group.count > 1 ? (
                  <>
                    newest <Age at={group.newest} />, oldest <Age at={group.oldest} />
                  </>
                ) : (
                  <Age at={group.newest} />
                )}
              </span>
              <Button
                small
                because={whyNot(actions.replay, ["dead"], operate) ?? (isKnown(group) ? null : hidden)}
                aria-label={`Replay the ${plural(group.count, "job")} of this group`}
                onClick={() => (isKnown(group) ? onReplay(group) : undefined)}
              >
                Replay …
              </Button>
            </div>
          </li>
        ))}
      </ul>
      {groups.length > shown.length || others > 0 ? (
        <p className="muted">
          {groups.length > shown.length ? (
            <Button small look="quiet" onClick={() => setAll(true)}>
              Show {number(groups.length - shown.length)} more
            </Button>
          ) : null}
          {others > 0 ? ` ${plural(others, "job")} in further groups.` : null}
        </p>
      ) : null}
    </Section>
  );
}

function Head({ group }: { group: Group }) {
  return (
    <>
      <span className="dead-group-count">{number(group.count)}</span>
      <span className="dead-group-words">
        <PlainText className="dead-group-error">{group.error}</PlainText>
        <PlainText className="muted">{group.kind}</PlainText>
      </span>
    </>
  );
}

function isKnown(group: Group): group is KnownGroup {
  return group.fingerprint !== null;
}
