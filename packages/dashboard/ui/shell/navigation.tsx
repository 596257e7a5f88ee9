import { Link, useRouterState } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { destination } from "../components/link.tsx";
import { short } from "../format.ts";
import { useHealth } from "../queries.ts";
import { navigation } from "../screens.ts";

/** Links to all screens, with the most important counts. */
export function Navigation() {
  const { data: health } = useHealth();
  const late = health?.queues.filter(({ breachInMs }) => breachInMs === 0).length ?? 0;
  const figures: Readonly<Record<string, { count: number; detail: string; tone?: string } | undefined>> = {
    "/": { count: late, detail: "past their target" },
    "/dead": { count: health?.total.dead ?? 0, detail: "dead" },
    "/slow": { count: health?.slow ?? 0, detail: "slow", tone: "soon" },
  };
  // On a phone the list is wider than the screen: scroll the current entry into view.
  const nav = useRef<HTMLElement>(null);
  const path = useRouterState({ select: (state) => state.location.pathname });
  useEffect(() => {
    const current = nav.current?.querySelector<HTMLElement>("[aria-current]");
    if (current) nav.current?.scrollTo({ left: current.offsetLeft - 60 });
  }, [path]);

  return (
    <nav className="navigation" aria-label="Screens" ref={nav}>
      <ul>
        {navigation.map(({ path, title, icon, key }) => {
          const figure = figures[path];
          return (
            <li key={path}>
              <Link
                {...destination({ path })}
                activeOptions={{ exact: path === "/", includeSearch: false }}
                activeProps={{ "aria-current": "page" }}
                aria-keyshortcuts={key === undefined ? undefined : `g ${key}`}
              >
                <svg viewBox="0 0 16 16" aria-hidden="true">
                  <path d={icon} />
                </svg>
                <span className="navigation-title">{title}</span>
                {figure !== undefined && figure.count > 0 && (
                  <span className={`navigation-figure tabular ${figure.tone ?? ""}`}>
                    {short(figure.count)}
                    <span className="spoken"> {figure.detail}</span>
                  </span>
                )}
              </Link>
            </li>
          );
        })}
      </ul>
    </nav>
  );
}
