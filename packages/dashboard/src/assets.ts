/** The built UI as a module, so that it is found inside a bundle, too. */
import { brotliDecompressSync } from "node:zlib";
import { respond } from "./respond.ts";
import { accepts } from "./compress.ts";
import { noStore } from "./headers.ts";
import { Problem } from "./problem.ts";
import type * as Ui from "./ui.js";

type Module = Pick<typeof Ui, "files" | "index">;
type File = { readonly type: string; readonly brotli: Buffer; plain?: Buffer | undefined };

const notBuilt =
  '<!doctype html><html lang="en"><base href="__BASE__"><title>Stint</title><p>' +
  "The dashboard's UI is not built. " +
  "Run <code>npm run build</code>. The API under <code>api/</code> works.</p></html>";

export class Assets {
  readonly #load: () => Promise<Module>;
  #ui: { readonly files: ReadonlyMap<string, File>; readonly html: string } | undefined;

  constructor(load: () => Promise<Module> = async () => await import("./ui.js")) {
    this.#load = load;
  }

  /** `name` is a key in a map, not a file path: no path traversal is possible. */
  async file(name: string, request: Request): Promise<Response> {
    const file = (await this.#open())?.files.get(name);
    if (file === undefined) {
      // Responds 404, not with the page: a browser with an old page must notice that its files no longer exist.
      throw new Problem(404, "NOT_FOUND", "There is no such file.", { hint: "Load the page again." });
    }
    const brotli = accepts(request, "br");
    file.plain ??= brotli ? undefined : brotliDecompressSync(file.brotli);
    const body = brotli ? file.brotli : (file.plain ?? file.brotli);
    return respond(new Uint8Array(body), 200, {
      "content-type": file.type,
      // The name changes with the content. Private: a shared cache would serve it without authorization.
      "cache-control": "private, max-age=31536000, immutable",
      vary: "accept-encoding",
      ...(brotli ? { "content-encoding": "br" } : {}),
    });
  }

  /** The page, with the path of the mount in it. */
  async page(base: string): Promise<Response> {
    const html = (await this.#open())?.html ?? notBuilt;
    return respond(
      html.replaceAll("__BASE__", () => escapeHtml(base)),
      200,
      {
        ...noStore,
        "content-type": "text/html; charset=utf-8",
      },
    );
  }

  async #open() {
    if (this.#ui !== undefined) return this.#ui;
    const ui = await this.#load().catch((error: unknown) => {
      if ((error as { code?: unknown } | null)?.code === "ERR_MODULE_NOT_FOUND") return undefined;
      throw error;
    });
    if (ui === undefined) return undefined;
    const files = Object.entries(ui.files).map(
      ([name, { type, brotli }]) => [name, { type, brotli: Buffer.from(brotli, "base64") }] as const,
    );
    this.#ui = { files: new Map<string, File>(files), html: ui.index.html };
    return this.#ui;
  }
}

function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
