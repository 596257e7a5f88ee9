/** Compression of responses. Pages of other sites get no responses, so compressed lengths leak nothing to them (BREACH). */
import { promisify } from "node:util";
import { constants, createGzip, gzip } from "node:zlib";

const gzipAll = promisify(gzip);

/** Smaller bodies are not worth compressing. */
const least = 1_024;
const compressible = /^(?:application\/json|text\/)/;

export async function compressed(request: Request, response: Response): Promise<Response> {
  const { headers, status, body } = response;
  const type = headers.get("content-type") ?? "";
  if (body === null || headers.has("content-encoding") || !compressible.test(type)) return response;
  headers.append("vary", "accept-encoding");
  if (!accepts(request, "gzip")) return response;
  if (type.startsWith("text/event-stream")) {
    headers.set("content-encoding", "gzip");
    return new Response(gzipped(body as ReadableStream<Uint8Array>), { status, headers });
  }
  const plain = new Uint8Array(await response.arrayBuffer());
  if (plain.byteLength < least) return new Response(plain, { status, headers });
  headers.set("content-encoding", "gzip");
  return new Response(new Uint8Array(await gzipAll(plain)), { status, headers });
}

/**
 * Flushes each chunk, so that no event waits in the compressor for the next one. A client may disconnect while a chunk is
 * compressed; its output is then discarded.
 */
function gzipped(source: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  const reader = source.getReader();
  const zip = createGzip({ flush: constants.Z_SYNC_FLUSH });
  let isOver = false;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      zip.on("data", (bytes: Buffer) => {
        if (!isOver) controller.enqueue(new Uint8Array(bytes));
      });
      zip.on("error", (error) => {
        if (!isOver) controller.error(error);
        isOver = true;
      });
      zip.on("end", () => {
        if (!isOver) controller.close();
        isOver = true;
      });
    },
    async pull() {
      const { done, value } = await reader.read();
      if (isOver) return;
      if (done) zip.end();
      else await new Promise<void>((resolve) => void zip.write(value, () => resolve()));
    },
    async cancel(reason) {
      isOver = true;
      zip.destroy();
      await reader.cancel(reason);
    },
  });
}

export function accepts(request: Request, encoding: "br" | "gzip"): boolean {
  const header = request.headers.get("accept-encoding") ?? "";
  return header.split(",").some((part) => {
    const [name = "", ...parameters] = part.split(";").map((text) => text.trim().toLowerCase());
    return name === encoding && !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter));
  });
}
