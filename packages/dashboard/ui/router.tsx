import { createRootRoute, createRoute, createRouter, type AnyRouter } from "@tanstack/react-router";
import { base } from "./api.ts";
import { EmptyState } from "./components/empty-state.tsx";
import { GoTo } from "./components/link.tsx";
import { Failed, Page } from "./components/page.tsx";
import { screens } from "./screens.ts";
import { Shell } from "./shell/shell.tsx";
import { parseSearch, printSearch } from "./url.ts";

export function createAppRouter(): AnyRouter {
  const root = createRootRoute({ component: Shell, notFoundComponent: NotFound });
  const routes = screens.map(({ path, component }) =>
    createRoute({ getParentRoute: () => root, path, component }),
  );
  return createRouter({
    routeTree: root.addChildren(routes),
    basepath: base.pathname,
    parseSearch,
    stringifySearch: printSearch,
    defaultErrorComponent: ({ error, reset }) => (
      <Page title="This screen failed">
        <Failed error={error} again={reset} />
      </Page>
    ),
    scrollRestoration: true,
  });
}

function NotFound() {
  return (
    <Page title="Not found">
      <EmptyState title="There is no such screen">
        The address may be from another version. <GoTo path="/">Open Health</GoTo>
      </EmptyState>
    </Page>
  );
}
