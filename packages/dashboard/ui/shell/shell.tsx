import { Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { destination } from "../components/link.tsx";
import { Banner } from "../components/page.tsx";
import { Toasts } from "../components/toast.tsx";
import { clock } from "../format.ts";
import { useShortcuts, type Shortcuts } from "../shortcuts.ts";
import { togglePaused, useConnection, useSince, useProblem } from "../live.ts";
import { navigation } from "../screens.ts";
import { Help } from "./help.tsx";
import { Navigation } from "./navigation.tsx";
import { Palette } from "./palette.tsx";
import { TopBar } from "./top-bar.tsx";
import "./shell.css";

/** The layout around every screen. */
export function Shell() {
  const [open, setOpen] = useState<"palette" | "help" | null>(null);
  const navigate = useNavigate();
  const connection = useConnection();
  const problem = useProblem();
  const since = useSince();
  const main = useRef<HTMLElement>(null);
  const path = useRouterState({ select: (state) => state.location.pathname });

  // Keyboard users continue at the top of the new screen, not at the link they followed.
  const lastPath = useRef(path);
  useEffect(() => {
    if (lastPath.current !== path) main.current?.focus({ preventScroll: true });
    lastPath.current = path;
  }, [path]);

  const keys: Record<string, Shortcuts[string]> = {
    "mod+k": () => setOpen("palette"),
    "?": () => setOpen("help"),
    "g p": () => togglePaused(),
  };
  for (const { key, path } of navigation) {
    if (key !== undefined) keys[`g ${key}`] = () => void navigate(destination({ path }));
  }
  useShortcuts(keys);

  return (
    <div className="shell">
      <a className="skip" href="#main" onClick={(event) => focusMain(event, main.current)}>
        Skip to the screen
      </a>
      <TopBar openPalette={() => setOpen("palette")} openHelp={() => setOpen("help")} />
      <Navigation />
      <main id="main" tabIndex={-1} ref={main}>
        {(connection === "away" || connection === "silent") && (
          <div className="shell-banner">
            <Banner
              tone="late"
              title={
                connection === "silent"
                  ? `The server does not respond (since ${clock(since)}).`
                  : `No fresh figures since ${clock(since)}.`
              }
            >
              {problem} The page shows older figures and retries every few seconds.
            </Banner>
          </div>
        )}
        <Outlet />
      </main>
      {open === "palette" && <Palette close={() => setOpen(null)} />}
      {open === "help" && <Help close={() => setOpen(null)} />}
      <Toasts />
    </div>
  );
}

/** With a `<base>`, a bare `#fragment` link would leave the page. */
function focusMain(event: { preventDefault(): void }, main: HTMLElement | null): void {
  event.preventDefault();
  main?.focus();
}
