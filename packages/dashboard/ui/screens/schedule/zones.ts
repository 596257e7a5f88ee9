/** The zones that this browser knows, for suggestions. The server decides which exist. */
export const zones: readonly string[] = ["UTC", ...Intl.supportedValuesOf("timeZone")];

/** The zone of the viewer. */
export const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
