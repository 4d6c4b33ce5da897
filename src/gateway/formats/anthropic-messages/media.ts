import { type MessageBlock, type Source } from "./domain.ts"
import { type ChatPart } from "../common-form/domain.ts"

type Part = Readonly<Record<string, unknown>>

const dataUrl = /^data:([^;,]+);base64,/

/** Translates an image or file of a chat message to Anthropic's block; a string explains why that is impossible. */
export const toContentBlock = (part: ChatPart): Part | string => {
  if (part.type === "image_url" && part.image_url) {
    const { image_url: image } = part
    return { type: "image", source: imageSource(typeof image === "string" ? image : image.url) }
  }
  if (part.type === "file" && part.file) {
    const { file_data: data, filename } = part.file
    const mediaType = dataUrl.exec(data ?? "")?.[1]
    if (mediaType === undefined || typeof data !== "string") return "A file is translated with its data only"
    if (mediaType !== "application/pdf") return `A file of type ${mediaType} is not translated`
    const source = { type: "base64", media_type: mediaType, data: afterComma(data) }
    return { type: "document", source, ...(typeof filename === "string" ? { title: filename } : {}) }
  }
  return `A part of type ${part.type} is not translated`
}

const imageSource = (url: string): Part => {
  const mediaType = dataUrl.exec(url)?.[1]
  return mediaType === undefined
    ? { type: "url", url }
    : { type: "base64", media_type: mediaType, data: afterComma(url) }
}

const afterComma = (url: string): string => url.slice(url.indexOf(",") + 1)

/** Translates an image or document to parts of a chat message; a string explains why that is impossible. */
export const toChatParts = (block: MessageBlock): ReadonlyArray<Part> | string => {
  const { source } = block
  if (!source || typeof source === "string") return `A block of type ${block.type} without a source is not translated`
  if (block.type === "image") {
    const url = source.type === "url" ? source.url : base64Url(source)
    return typeof url === "string"
      ? [{ type: "image_url", image_url: { url } }]
      : `An image of source ${source.type} is not translated`
  }
  if (source.type === "text" && typeof source.data === "string") return [{ type: "text", text: source.data }]
  const url = base64Url(source)
  return url === undefined
    ? `A document of source ${source.type} is not translated`
    : [{ type: "file", file: { filename: block.title ?? "document.pdf", file_data: url } }]
}

const base64Url = (source: Source): string | undefined =>
  source.type === "base64" && typeof source.data === "string"
    ? `data:${source.media_type ?? "application/octet-stream"};base64,${source.data}`
    : undefined
