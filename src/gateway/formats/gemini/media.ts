import { type InlineData } from "./domain.ts"
import { type ChatPart } from "../common-form/domain.ts"
import { type WrittenPart } from "./hub.ts"

const dataUrl = /^data:([^;,]+)[^,]*;base64,/

const translated = /^image\/|^application\/pdf$|^text\//

const inlineOf = (url: string): WrittenPart | undefined => {
  const mimeType = dataUrl.exec(url)?.[1]
  return mimeType === undefined || !translated.test(mimeType)
    ? undefined
    : { inlineData: { mimeType, data: url.slice(url.indexOf(",") + 1) } }
}

/** Translates an image or file of a chat message to a part; a string explains why that is impossible. */
export const toInlinePart = (part: ChatPart): WrittenPart | string => {
  if (part.type === "image_url" && part.image_url) {
    const { image_url: image } = part
    return (
      inlineOf(typeof image === "string" ? image : image.url) ??
      "An image is translated with its data only; send it as a data URL"
    )
  }
  if (part.type === "file" && part.file) {
    return (
      inlineOf(part.file.file_data ?? "") ??
      "A file is translated as an image, a PDF, or text with its data; send it as a data URL"
    )
  }
  return `A part of type ${part.type} is not translated`
}

/** Translates data to a part of a chat message; a string explains why that is impossible. */
export const toChatPart = ({ data, displayName, mimeType }: InlineData): WrittenPart | string => {
  if (typeof mimeType !== "string" || typeof data !== "string") return "Expected `mimeType` and `data`"
  // Google takes base64 of both alphabets.
  const base64 = data.replaceAll("-", "+").replaceAll("_", "/")
  if (mimeType.startsWith("image/")) {
    return { type: "image_url", image_url: { url: `data:${mimeType};base64,${base64}` } }
  }
  if (mimeType.startsWith("text/")) return { type: "text", text: Buffer.from(base64, "base64").toString("utf8") }
  return mimeType === "application/pdf"
    ? {
        type: "file",
        file: { filename: displayName ?? "document.pdf", file_data: `data:${mimeType};base64,${base64}` }
      }
    : `Data of type ${mimeType} is not translated`
}
