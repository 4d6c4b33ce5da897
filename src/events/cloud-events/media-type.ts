/** Whether data of a media type are JSON, as its subtype says (CloudEvents, JSON format §3.1); parameters and other names do not. */
export const isJsonType = (mediaType: string): boolean => /^[^;]*[/+]json[ \t]*(?:;|$)/i.test(mediaType)

/** Whether data of a media type are text, in the encoding of JSON. */
export const isTextType = (mediaType: string): boolean =>
  /^text\/|^[^;]*[/+]xml[ \t]*(?:;|$)/i.test(mediaType) && isUtf8Type(mediaType)

/** Whether a media type names no other encoding than UTF-8. */
export const isUtf8Type = (mediaType: string): boolean => {
  const charset = /;[ \t]*charset=["']?([^"';\s]*)/i.exec(mediaType)?.[1] ?? "utf-8"
  return /^(?:utf-?8|us-ascii)$/i.test(charset)
}
