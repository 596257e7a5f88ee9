/** Execute without a limit of rows, then Sync. */
const executeAndSync = Buffer.from([0x45, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0x53, 0, 0, 0, 4]);

/**
 * Bind, Execute and Sync for a prepared statement, as one message. Parameters and results are text. The driver writes the three one by one, and
 * for each parameter its format: for a statement of one job that takes twice as long.
 */
export function bindMessage(statement: string, values: readonly (string | null)[]): Buffer {
  const count = values.length;
  const lengths: number[] = [];
  // The portal and the end of the name, one byte each; three counts of two bytes.
  let length = 4 + 1 + Buffer.byteLength(statement) + 1 + 6;
  for (let index = 0; index < count; index++) {
    const value = values[index] ?? null;
    const bytes = value === null ? -1 : Buffer.byteLength(value);
    lengths.push(bytes);
    length += 4 + (bytes < 0 ? 0 : bytes);
  }

  const message = Buffer.allocUnsafe(1 + length + executeAndSync.length);
  message[0] = 0x42;
  let at = message.writeInt32BE(length, 1);
  message[at++] = 0;
  at += message.write(statement, at);
  message[at++] = 0;
  // No formats: all parameters are text.
  at = message.writeInt16BE(0, at);
  at = message.writeUInt16BE(count, at);
  for (let index = 0; index < count; index++) {
    const value = values[index] ?? null;
    at = message.writeInt32BE(lengths[index] as number, at);
    if (value !== null) at += message.write(value, at);
  }
  // No formats: all results are text.
  at = message.writeInt16BE(0, at);
  executeAndSync.copy(message, at);
  return message;
}
