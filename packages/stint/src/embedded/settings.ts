import { InvalidOptionError } from "../errors.ts";

// Connecting to this server, and to no other, depends on these settings.
const reserved = new Set(["listen_addresses", "port", "unix_socket_directories", "data_directory"]);

const defaults = { timezone: "UTC", log_timezone: "UTC" };

/** Settings as `name=value`: Stint's first, so that the caller's override them. */
export function checkSettings(settings: Record<string, string>): string[] {
  for (const name of Object.keys(settings)) {
    if (!/^[a-z_][a-z0-9_.]*$/i.test(name)) {
      throw new InvalidOptionError(`settings.${name}`, "is not the name of a Postgres setting.");
    }
    if (reserved.has(name.toLowerCase())) {
      throw new InvalidOptionError(`settings.${name}`, "is set by Stint. Use the options port and dataDir.");
    }
  }
  return Object.entries({ ...defaults, ...settings }).map(([name, value]) => `${name}=${value}`);
}
