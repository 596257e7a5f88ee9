import type { QueuePaused, SeriesRange } from "stint/inspect";
import { useMemo } from "react";
import { EmptyState } from "../../components/empty-state.tsx";
import { Age } from "../../components/age.tsx";
import { GoTo } from "../../components/link.tsx";
import { Banner, Failed, Page, Section } from "../../components/page.tsx";
import { PauseButton } from "../../components/pause-button.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { RangeSwitch } from "../../components/range-switch.tsx";
import { StandingMark } from "../../components/standing-mark.tsx";
import { useZoom, ZoomNote, zoomSearch } from "../../components/zoom.tsx";
import type { Wire } from "../../api.ts";
import { useHealth, useKinds, useSeries } from "../../queries.ts";
import type { Screen } from "../../screen.ts";
import { standingWords } from "../../standing.ts";
import { oneOf, usePathPart, useUrl } from "../../url.ts";
import { QueueCharts } from "./charts.tsx";
import { trimEmpty } from "./trim-empty.ts";
import { KindRows } from "./kind-rows.tsx";
import { Now } from "./now.tsx";
import { Tenants } from "./tenants.tsx";
import "./queue.css";

/** Repeated here: importing the library's list would bundle the library into the UI. */
const ranges = ["1h", "6h", "24h", "7d", "30d"] as const satisfies readonly SeriesRange[];
const search = { range: oneOf<SeriesRange>(ranges, "1h"), ...zoomSearch };

export const screen: Screen = { path: "/queues/$queue", title: "Queue", search, component: Queue };

function Queue() {
  const queue = usePathPart("queue");
  const [{ range }, set] = useUrl(search);
  const [zoom, setZoom] = useZoom();
  const series = useSeries({ queue, range });
  const shown = useMemo(() => trimEmpty(series.data), [series.data]);
  const kinds = useKinds();
  const { data: health } = useHealth();
  const now = health?.queues.find((candidate) => candidate.queue === queue);
  const own = kinds.data?.filter((kind) => kind.queue === queue);

  if (health !== undefined && now === undefined && own?.length === 0) {
    return (
      <Page title={queue} above={<GoTo path="/queues">Queues</GoTo>}>
        <EmptyState title="This queue has no jobs and no kinds">
          Nothing was ever enqueued into it. Check the spelling. <GoTo path="/queues">See all queues</GoTo>
        </EmptyState>
      </Page>
    );
  }

  return (
    <Page
      title={queue}
      above={<GoTo path="/queues">Queues</GoTo>}
      note={
        now === undefined ? (
          " "
        ) : (
          <span className="queue-note tabular">
            <StandingMark standing={standingWords(now).word} />
            <span>{standingWords(now).detail}</span>
          </span>
        )
      }
      actions={
        <>
          <RangeSwitch
            ranges={ranges}
            value={range}
            set={(next) => set({ range: next, from: undefined, to: undefined })}
          />
          <PauseButton queue={queue} paused={now?.paused ?? null} />
        </>
      }
    >
      {now?.paused === undefined || now.paused === null ? null : <Paused paused={now.paused} />}
      <Now now={now} />
      <Section title="Over time" aside={<ZoomNote zoom={zoom} setZoom={setZoom} whole={shown.detail} />}>
        {series.error !== null && series.data === undefined ? (
          <Failed error={series.error} again={() => void series.refetch()} />
        ) : (
          <QueueCharts series={shown.series} targetMs={now?.targetMs} zoom={zoom} onZoom={setZoom} />
        )}
      </Section>
      <Tenants queue={queue} />
      <Section title="Kinds" aside="What is normal, over the last day">
        {kinds.error !== null && kinds.data === undefined ? (
          <Failed error={kinds.error} again={() => void kinds.refetch()} />
        ) : (
          <KindRows kinds={own} queue={queue} />
        )}
      </Section>
    </Page>
  );
}

function Paused({
  paused: { setFor, until, pausedAt, pausedBy, reason },
}: {
  readonly paused: Wire<QueuePaused>;
}) {
  return (
    <Banner tone="soon" title={`It is paused: ${setFor}`}>
      No job of it starts since <Age at={pausedAt} />, by <PlainText>{pausedBy}</PlainText>
      {until === null ? "" : ", ends "}
      {until === null ? null : <Age at={until} />}: <PlainText>{reason}</PlainText>
    </Banner>
  );
}
