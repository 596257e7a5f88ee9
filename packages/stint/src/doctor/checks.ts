import type { Check } from "./check.ts";
import { clock } from "./checks/clock.ts";
import { connections } from "./checks/connections.ts";
import { controls } from "./checks/controls.ts";
import { drift } from "./checks/drift.ts";
import { flows } from "./checks/flows.ts";
import { foreignBacklogs } from "./checks/foreign-backlogs.ts";
import { history } from "./checks/history.ts";
import { horizon } from "./checks/horizon.ts";
import { indexes } from "./checks/indexes.ts";
import { kinds } from "./checks/kinds.ts";
import { lease } from "./checks/lease.ts";
import { limits } from "./checks/limits.ts";
import { locks } from "./checks/locks.ts";
import { numbers } from "./checks/numbers.ts";
import { pooler } from "./checks/pooler.ts";
import { queues } from "./checks/queues.ts";
import { schema } from "./checks/schema.ts";
import { server } from "./checks/server.ts";
import { settings } from "./checks/settings.ts";
import { stalls } from "./checks/stalls.ts";
import { tallies } from "./checks/tallies.ts";
import { vacuum } from "./checks/vacuum.ts";
import { wakes } from "./checks/wakes.ts";
import { workers } from "./checks/workers.ts";

/** All checks, in the order in which a person would look. A new check is one file and one line here. */
export const checks: readonly Check[] = [
  server,
  settings,
  clock,
  pooler,
  wakes,
  connections,
  schema,
  drift,
  indexes,
  horizon,
  locks,
  vacuum,
  history,
  numbers,
  tallies,
  workers,
  kinds,
  queues,
  foreignBacklogs,
  controls,
  lease,
  stalls,
  flows,
  limits,
];
