const withWakesMs = 7_500;
const withoutWakesMs = 1_000;

/** How often an idle worker looks for work, unless `poll` says otherwise. Wakes make polling a safety net. */
export function defaultPollMs(receivesEveryWake: boolean): number {
  return receivesEveryWake ? withWakesMs : withoutWakesMs;
}
