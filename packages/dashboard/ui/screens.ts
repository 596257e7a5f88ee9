/** Every screen, in the order of the navigation. A new one is a folder in `screens/` and a line here. */
import type { Screen } from "./screen.ts";
import { screen as capacity } from "./screens/capacity/index.tsx";
import { screen as controls } from "./screens/controls/index.tsx";
import { screen as dead } from "./screens/dead/index.tsx";
import { screen as flow } from "./screens/flow/index.tsx";
import { screen as flows } from "./screens/flows/index.tsx";
import { screen as health } from "./screens/health/index.tsx";
import { screen as job } from "./screens/job/index.tsx";
import { screen as jobs } from "./screens/jobs/index.tsx";
import { screen as operations } from "./screens/operations/index.tsx";
import { screen as queue } from "./screens/queue/index.tsx";
import { screen as queues } from "./screens/queues/index.tsx";
import { screen as schedule } from "./screens/schedule/index.tsx";
import { screen as schedules } from "./screens/schedules/index.tsx";
import { screen as slow } from "./screens/slow/index.tsx";
import { screen as workers } from "./screens/workers/index.tsx";

export const screens: readonly Screen[] = [
  health,
  jobs,
  job,
  queues,
  queue,
  schedules,
  schedule,
  flows,
  flow,
  controls,
  capacity,
  workers,
  slow,
  dead,
  operations,
];

/** The screens in the navigation, the palette and the shortcuts. */
export const navigation = screens.filter((screen) => screen.icon !== undefined);
