import type { Inspector } from "../inspect/types.ts";
import type { Context } from "./context.ts";

/** Ask the inspector of this invocation's installation, and close it whatever comes of it. */
export async function inspecting<T>(context: Context, ask: (inspector: Inspector) => Promise<T>): Promise<T> {
  const inspector = (await context.client()).inspector();
  try {
    return await ask(inspector);
  } finally {
    await inspector.close();
  }
}
