/** Finds the route of an API request and runs it. */
import type { Visitor } from "./access.ts";
import { json } from "./respond.ts";
import { readBody } from "./request-guard.ts";
import { badRequest, Problem } from "./problem.ts";
import type { Route, Tools } from "./route.ts";
import { routes } from "./routes/index.ts";

type Found = { readonly route: Route; readonly params: Record<string, string> };

/** `path` is the path below `api/`. */
export async function handleApi(
  request: Request,
  path: string,
  { tools, visitor, bodyBytes }: { tools: Tools; visitor: Visitor; bodyBytes: number },
): Promise<Response> {
  const { route, params } = find(request.method, path);
  if (!visitor.can[route.right]) {
    throw new Problem(403, "NOT_ALLOWED", `This needs the role ${route.right}.`, {
      hint: "Ask the operator of this installation for it.",
    });
  }
  const query = new URL(request.url).searchParams;
  for (const key of query.keys()) {
    if (!(route.query ?? []).includes(key)) throw badRequest(takes("parameters", route.query));
    if (query.getAll(key).length > 1) throw badRequest(`${key} must be given once.`);
  }
  const body = route.method === "POST" ? await readBody(request, bodyBytes) : {};
  if (Object.keys(body).some((key) => !(route.body ?? []).includes(key)))
    throw badRequest(`The body ${takes("keys", route.body)}`);
  const result = await route.respond(tools, { params, query, body }, visitor);
  return result instanceof Response ? result : json(result, route.status);
}

function takes(what: string, names: readonly string[] = []): string {
  return names.length === 0
    ? `takes no ${what}.`
    : `takes the ${what} ${names.join(", ")}, and nothing else.`;
}

function find(method: string, path: string): Found {
  const matches = routes.flatMap((route) => {
    const params = match(route.path, path);
    return params === undefined ? [] : [{ route, params }];
  });
  const found = matches.find(({ route }) => route.method === method);
  if (found !== undefined) return found;
  if (matches.length === 0) throw new Problem(404, "NOT_FOUND", "There is no such address in the API.");
  const allow = [...new Set(matches.map(({ route }) => route.method))].join(", ");
  throw new Problem(405, "METHOD_NOT_ALLOWED", `This takes ${allow} only.`, { headers: { allow } });
}

function match(pattern: string, path: string): Record<string, string> | undefined {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return undefined;
  const params: Record<string, string> = {};
  for (const [index, segment] of wanted.entries()) {
    const value = given[index] ?? "";
    if (segment.startsWith(":")) params[segment.slice(1)] = value;
    else if (segment !== value) return undefined;
  }
  return params;
}
