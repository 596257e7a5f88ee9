import { stint } from "../../../lib/stint.ts";
import { sendReceipt } from "../../../lib/jobs.ts";

/** POST /api/payments { "paymentId": "p1" } */
export async function POST(request: Request): Promise<Response> {
  const { paymentId } = (await request.json()) as { paymentId: string };
  const { id } = await stint().enqueue(sendReceipt, { paymentId });
  return Response.json({ job: id }, { status: 202 });
}

/** GET /api/payments?job=… */
export async function GET(request: Request): Promise<Response> {
  const job = await stint().get(new URL(request.url).searchParams.get("job") ?? "");
  return job === undefined
    ? Response.json({ error: "no such job" }, { status: 404 })
    : Response.json({ state: job.state });
}

// Stint uses node:net and worker threads, which the edge runtime does not have.
export const runtime = "nodejs";
