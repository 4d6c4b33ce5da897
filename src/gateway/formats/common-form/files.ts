import { isUtf8 } from "node:buffer"
import { type ChatPart } from "./domain.ts"

/** A file or an image that is part of a request. */
export interface EmbeddedFile {
  readonly mediaType: string
  readonly base64: string
}

const dataUrl = /^data:([^;,]+)[^,]*;base64,/i

/** What a data URL has; undefined for any other URL. */
export const embeddedIn = (url: string): EmbeddedFile | undefined => {
  const mediaType = dataUrl.exec(url)?.[1]
  return mediaType === undefined
    ? undefined
    : { mediaType: mediaType.toLowerCase(), base64: url.slice(url.indexOf(",") + 1) }
}

/** The data of an image or a file, or its address. */
export const contentsOf = ({ file, image_url: image }: ChatPart): string | undefined =>
  (typeof image === "string" ? image : image?.url) ?? file?.file_data ?? file?.file_url ?? undefined

const textTypes = /^text\/|^application\/(?:json|xml|x?-?yaml)$/

/** The text of a file; undefined if it is no text. */
export const textIn = ({ base64, mediaType }: EmbeddedFile): string | undefined => {
  if (!textTypes.test(mediaType)) return undefined
  const bytes = Buffer.from(base64, "base64")
  return isUtf8(bytes) ? bytes.toString("utf8") : undefined
}

/** A document as a part of a message with text alone, with what is known of it. */
export const titledText = (text: string, ...titles: ReadonlyArray<string | null | undefined>): string =>
  [titles.filter(Boolean).join("\n"), text].filter((part) => part !== "").join("\n\n")
