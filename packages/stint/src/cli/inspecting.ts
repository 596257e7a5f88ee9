import type { Inspector } from "../inspect/types.ts";
import type { Context } from "./context.ts";

/** Run work with the inspector of this installation. The inspector is closed afterwards, also on an error. */
export async function inspecting<T>(
  context: Context,
  work: (inspector: Inspector) => Promise<T>,
): Promise<T> {
  const inspector = (await context.client()).inspector();
  try {
    return await work(inspector);
  } finally {
    await inspector.close();
  }
}
