export { createDashboard, type Dashboard } from "./dashboard.ts";
export type { AddressOf, DashboardOptions, Limits } from "./options.ts";
export type { AuditEvent, OnAudit } from "./payload-audit.ts";
export type { Access, Authorize, Role } from "./access.ts";
export { anyOf, basic, bearer, type BasicOptions, type Token } from "./authorize.ts";
export { serveDashboard, type Served, type ServeOptions } from "./serve.ts";
export type { DashboardClient } from "./route.ts";
