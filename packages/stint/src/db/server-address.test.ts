import { expect, test } from "vitest";
import type { Connection } from "./connection.ts";
import { serverAddress } from "./server-address.ts";

test.each<[Connection, unknown]>([
  ["postgres://ada:secret@db.example:6000/app", { address: "db.example", port: 6000 }],
  ["postgresql://ada@db.example/app", { address: "db.example", port: 5432 }],
  ["postgres://ada@[::1]:6000/app", { address: "[::1]", port: 6000 }],
  ["postgres:///app?host=/var/run/postgresql", { address: "/var/run/postgresql", port: undefined }],
  ["/var/run/postgresql app", undefined],
  [
    { host: "db.example", port: 6000, password: "secret" },
    { address: "db.example", port: 6000 },
  ],
  [{ connectionString: "postgres://db.example/app" }, { address: "db.example", port: 5432 }],
  [{ database: "app" }, undefined],
])("%j", (connection, expected) => {
  expect(serverAddress(connection)).toEqual(expected);
});
