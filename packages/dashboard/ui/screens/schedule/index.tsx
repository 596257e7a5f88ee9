import { useNavigate } from "@tanstack/react-router";
import { useId, useState } from "react";
import { ApiError, type ScheduleResponse } from "../../api.ts";
import { Age } from "../../components/age.tsx";
import { Audit } from "../../components/audit.tsx";
import { Button } from "../../components/button.tsx";
import { EmptyState } from "../../components/empty-state.tsx";
import { JsonView } from "../../components/json-view.tsx";
import { destination, GoTo } from "../../components/link.tsx";
import { Banner, Failed, Page, Section, Skeleton } from "../../components/page.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { RangeSwitch } from "../../components/range-switch.tsx";
import { SlotLegend, SlotTimeline } from "../../components/slot-timeline.tsx";
import { useNextSlots, useSchedule } from "../../queries.ts";
import type { Screen } from "../../screen.ts";
import { oneOf, text, useUrl } from "../../url.ts";
import { ScheduleActions } from "../schedules/schedule-actions.tsx";
import { rangeMs, ranges, ruleText, ScheduleMark, type Range } from "../schedules/schedule-words.tsx";
import { ScheduleFacts } from "./facts.tsx";
import { NextSlots } from "./next-slots.tsx";
import { SlotRows } from "./slot-rows.tsx";
import { ownZone, zones } from "./zones.ts";
import "../schedules/schedules.css";

const search = { name: text, zone: text, range: oneOf<Range>(ranges, "24h") };

function Schedule() {
  const [{ name = "" }] = useUrl(search);
  const { data, error, refetch } = useSchedule(name);
  const above = <GoTo path="/schedules">Schedules</GoTo>;
  if (data !== undefined) return <Shown key={name} response={data} stale={error} />;
  if (error instanceof ApiError && (error.status === 404 || error.status === 400)) {
    return (
      <Page title="No such schedule" above={above}>
        <EmptyState title="There is no schedule with this name">
          <span className="mono break">
            <PlainText>{name}</PlainText>
          </span>
          <br />
          It was removed, or its name is misspelt.
        </EmptyState>
      </Page>
    );
  }
  return (
    <Page title="Schedule" above={above}>
      {error === null ? <Skeleton lines={8} /> : <Failed error={error} again={() => void refetch()} />}
    </Page>
  );
}

function Shown({ response, stale }: { response: ScheduleResponse; stale: Error | null }) {
  const { schedule, slots, coming, audit, hidden = false, cut = false } = response;
  const [{ range }, setUrl] = useUrl(search);
  const navigate = useNavigate();
  return (
    <Page
      title={schedule.name}
      above={<GoTo path="/schedules">Schedules</GoTo>}
      note={
        <span className="job-note">
          <ScheduleMark state={schedule.state} />
          <span className="mono">{ruleText(schedule)}</span>
          <span>{schedule.zone}</span>
          {schedule.nextSlot === null ? null : (
            <span>
              next <Age at={schedule.nextSlot} />
            </span>
          )}
        </span>
      }
      actions={
        <ScheduleActions
          schedule={schedule}
          onRemoved={async () => await navigate(destination({ path: "/schedules" }))}
        />
      }
    >
      {stale === null ? null : <Failed error={stale} />}
      {schedule.error === null ? null : (
        <Banner
          tone="late"
          title={
            schedule.state === "broken" ? "Its slots cannot be computed" : "Its last slot could not fire"
          }
        >
          <PlainText>{schedule.error}</PlainText>
        </Banner>
      )}
      {schedule.pausedAt === null ? null : (
        <Banner tone="soon" title="It is paused">
          No slot fires since <Age at={schedule.pausedAt} />, by <PlainText>{schedule.updatedBy}</PlainText>.
        </Banner>
      )}
      <Section
        title="Timeline"
        aside={<RangeSwitch ranges={ranges} value={range} set={(to) => setUrl({ range: to })} />}
      >
        <div className="card card-padded">
          <SlotTimeline
            latest={slots}
            coming={schedule.state === "paused" ? [] : coming}
            rangeMs={rangeMs[range]}
            axis
          />
          <SlotLegend />
        </div>
      </Section>
      <div className="job-columns">
        <div className="job-values">
          <Section title="Facts">
            <ScheduleFacts schedule={schedule} />
          </Section>
          <Next name={schedule.name} zone={schedule.zone} paused={schedule.state === "paused"} />
          <Section title="Payload" aside={cut ? "Preview: too large to show whole." : undefined}>
            <div className="card card-padded">
              {hidden ? (
                <p className="muted">Hidden: your role may not see payloads.</p>
              ) : (
                <JsonView value={schedule.payload} label="the payload" />
              )}
            </div>
          </Section>
        </div>
        <div className="job-values">
          <SlotRows name={schedule.name} slots={slots} />
          <Audit entries={audit} none="No user has changed this schedule." />
        </div>
      </div>
    </Page>
  );
}

/** The next ten slots on the clocks of any zone. */
function Next({ name, zone, paused }: { name: string; zone: string; paused: boolean }) {
  const [url, setUrl] = useUrl(search);
  const id = useId();
  const shown = url.zone ?? zone;
  const [draft, setDraft] = useState(shown);
  const next = useNextSlots({ name, in: shown });
  const choose = (to: string): void => {
    setDraft(to);
    setUrl({ zone: to === zone ? undefined : to }, { replace: true });
  };
  return (
    <Section title="Next ten slots" aside={paused ? "It is paused: none of them fires" : undefined}>
      <form
        className="zone-choice"
        onSubmit={(event) => {
          event.preventDefault();
          choose(draft.trim());
        }}
      >
        <label htmlFor={id}>Zone</label>
        <input
          id={id}
          type="text"
          list={`${id}-list`}
          autoComplete="off"
          spellCheck={false}
          maxLength={64}
          value={draft}
          onChange={(event) => setDraft(event.currentTarget.value)}
          onBlur={() => choose(draft.trim())}
        />
        <datalist id={`${id}-list`}>
          {zones.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
        {[...new Set([zone, "UTC", ownZone])].map((one) => (
          <Button key={one} small look="quiet" aria-pressed={one === shown} onClick={() => choose(one)}>
            {one}
          </Button>
        ))}
      </form>
      <div className="card">
        <NextSlots label="Next ten slots" slots={next.isError ? undefined : next.data} error={next.error} />
      </div>
    </Section>
  );
}

export const screen: Screen = { path: "/schedules/show", title: "Schedule", search, component: Schedule };
