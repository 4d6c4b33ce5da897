/** The text of UTF-8 bytes, which `Buffer.from(bytes)` would copy first. */
export const utf8Text = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("utf8")
