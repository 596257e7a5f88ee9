// Loaded with --require into the processes of lab:pickup: records what their sockets write and read, and writes it to a file at SIGTERM.
const { writeFileSync } = require("node:fs");
const { Socket } = require("node:net");
const { tmpdir } = require("node:os");
const path = require("node:path");

const seen = [];
const numbers = new WeakMap();

function record(socket, direction, bytes) {
  if (!numbers.has(socket)) numbers.set(socket, seen.length);
  const atMs = Number(process.hrtime.bigint()) / 1e6;
  // Enough for the name of a statement and for the time in the payload.
  seen.push({ atMs, direction, socket: numbers.get(socket), text: bytes.toString("latin1", 0, 1_500) });
}

// oxlint-disable-next-line typescript/unbound-method -- Each is called with its socket below.
const { _write, _writev, push } = Socket.prototype;
Socket.prototype._write = function (chunk, encoding, done) {
  record(this, "sent", Buffer.from(chunk));
  return _write.call(this, chunk, encoding, done);
};
Socket.prototype._writev = function (chunks, done) {
  record(this, "sent", Buffer.concat(chunks.map(({ chunk }) => Buffer.from(chunk))));
  return _writev.call(this, chunks, done);
};
Socket.prototype.push = function (chunk, encoding) {
  if (chunk !== null) record(this, "received", chunk);
  return push.call(this, chunk, encoding);
};

process.on("SIGTERM", () => {
  writeFileSync(path.join(tmpdir(), `stint-pickup-${process.pid}.json`), JSON.stringify(seen));
  process.exit();
});
