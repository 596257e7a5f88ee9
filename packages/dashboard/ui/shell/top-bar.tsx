import { Button } from "../components/button.tsx";
import { GoTo } from "../components/link.tsx";
import { clock } from "../format.ts";
import { modKey } from "../shortcuts.ts";
import { setPaused, useConnection, useSince, type Connection } from "../live.ts";
import { useMe } from "../queries.ts";
import { setTheme, themes, useTheme, type Theme } from "../theme.ts";

const connections: Record<Connection, { word: string; detail: string }> = {
  connecting: { word: "Connecting", detail: "Waiting for the first figures." },
  live: { word: "Live", detail: "The server sends the figures as they change." },
  polling: {
    word: "Polling",
    detail: "Live events are blocked. The page polls every 5 s.",
  },
  silent: {
    word: "Not responding",
    detail: "The server does not respond. The page retries every few seconds.",
  },
  away: { word: "No fresh figures", detail: "The server responds, but without fresh figures." },
  paused: { word: "Paused", detail: "Updates are paused until you resume." },
};

const icons: Record<Theme, string> = {
  system: "M2 3h12v8H2zM6 14h4M8 11v3",
  light:
    "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6ZM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  dark: "M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7Z",
};

export function TopBar({
  openPalette,
  openHelp,
}: {
  readonly openPalette: () => void;
  readonly openHelp: () => void;
}) {
  const { data: me } = useMe();
  const connection = useConnection();
  const since = useSince();
  const isStale = connection === "silent" || connection === "away";
  const paused = connection === "paused";
  return (
    <header className="top-bar">
      <GoTo path="/" className="top-name">
        Stint
      </GoTo>
      {me?.environment !== null && me?.environment !== undefined && (
        <span className={`environment ${me.environment.production ? "production" : ""}`}>
          {me.environment.production && (
            <svg viewBox="0 0 16 16" aria-hidden="true">
              <path d="M8 1.5 14 4v4c0 3.5-2.5 5.7-6 6.8C4.5 13.7 2 11.5 2 8V4l6-2.500Z" />
            </svg>
          )}
          <span>{me.environment.name}</span>
          {me.environment.production && <span className="spoken"> (production)</span>}
        </span>
      )}
      <button type="button" className="top-find" onClick={openPalette} aria-keyshortcuts="Control+K Meta+K">
        <svg viewBox="0 0 16 16" aria-hidden="true">
          <path d="M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM10.7 10.7 14 14" />
        </svg>
        <span>Go to…</span>
        <kbd>{modKey} K</kbd>
      </button>
      <div className="top-right">
        <span className={`connection ${connection}`} title={connections[connection].detail} role="status">
          <svg viewBox="0 0 10 10" aria-hidden="true">
            {connection === "live" ? (
              <circle cx="5" cy="5" r="4" />
            ) : isStale ? (
              <path d="M1.5 1.500l7 7M8.5 1.500l-7 7" />
            ) : connection === "paused" ? (
              <path d="M3 1v8M7 1v8" />
            ) : (
              <circle cx="5" cy="5" r="3.2" className="hollow" />
            )}
          </svg>
          {connections[connection].word}
          {isStale ? <span className="connection-since"> since {clock(since)}</span> : null}
        </span>
        <Button
          small
          className="top-pause"
          aria-pressed={paused}
          aria-label={paused ? "Resume updating" : "Pause updating"}
          aria-keyshortcuts="g p"
          onClick={() => setPaused(!paused)}
        >
          {paused ? "Resume" : "Pause"}
        </Button>
        {me !== undefined && <Role user={me.user} can={me.can} />}
        <ThemeSwitch />
        <Button small look="quiet" aria-label="Keys and help" className="top-help" onClick={openHelp}>
          ?
        </Button>
      </div>
    </header>
  );
}

function Role({
  user,
  can,
}: {
  readonly user: string | null;
  readonly can: { operate: boolean; admin: boolean };
}) {
  const role = can.admin ? "admin" : can.operate ? "operate" : "view only";
  return (
    <span className="role" title={`You may: ${role}`}>
      {user !== null && <span className="role-user">{user}</span>}
      <span className="role-word">{role}</span>
    </span>
  );
}

function ThemeSwitch() {
  const theme = useTheme();
  const next = themes[(themes.indexOf(theme) + 1) % themes.length] ?? "system";
  return (
    <Button
      small
      look="quiet"
      aria-label={`Theme: ${theme}. Change to ${next}`}
      title={`Theme: ${theme}`}
      onClick={() => setTheme(next)}
    >
      <svg viewBox="0 0 16 16" aria-hidden="true" className="theme-icon">
        <path d={icons[theme]} />
      </svg>
    </Button>
  );
}
