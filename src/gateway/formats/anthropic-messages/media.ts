import { Option, Schema } from "effect"
import { isJson, listIn } from "../../../kernel/json/parsed-json.ts"
import { type ChatPart } from "../common-form/domain.ts"
import { contentsOf, embeddedIn, textIn, titledText } from "../common-form/files.ts"
import { MessageBlock, type Source } from "./domain.ts"

type Part = Readonly<Record<string, unknown>>

const images = /^image\//

/** Translates an image or file of a chat message to Anthropic's block; a string explains why that is impossible. */
export const toContentBlock = (part: ChatPart): Part | string => {
  const isImage = part.type === "image_url"
  if (!isImage && part.type !== "file") return `A part of type ${part.type} is not translated`
  const given = contentsOf(part)
  const title = typeof part.file?.filename === "string" ? { title: part.file.filename } : {}
  if (given === undefined) return "A file is translated with its data or its address only"
  const embedded = embeddedIn(given)
  if (embedded === undefined) {
    const source = { type: "url", url: given }
    if (isImage) return { type: "image", source }
    return part.file?.file_url === given
      ? { type: "document", source, ...title }
      : "The data of a file is a data URL, such as data:application/pdf;base64,…"
  }
  const { base64: data, mediaType } = embedded
  const source = { type: "base64", media_type: mediaType, data }
  if (images.test(mediaType)) return { type: "image", source }
  if (mediaType === "application/pdf") return { type: "document", source, ...title }
  const text = textIn(embedded)
  return text === undefined
    ? `A file of type ${mediaType} is not translated`
    : { type: "document", source: { type: "text", media_type: "text/plain", data: text }, ...title }
}

/**
 * Translates an image, a document or what a search found to parts of a chat message; a string explains why that is
 * impossible.
 */
export const toChatParts = (block: MessageBlock): ReadonlyArray<Part> | string => {
  const { context, source, title } = block
  if (block.type === "search_result") {
    return [textPart(titledText(joinedTexts(block.content), title, typeof source === "string" ? source : ""))]
  }
  if (!source || typeof source === "string") return `A block of type ${block.type} without a source is not translated`
  if (block.type === "image") {
    const url = source.type === "url" ? source.url : base64Url(source)
    return typeof url === "string"
      ? [{ type: "image_url", image_url: { url } }]
      : `An image of source ${source.type} is not translated`
  }
  switch (source.type) {
    case "text":
      return [textPart(titledText(source.data ?? "", title, context))]
    case "url":
      return [{ type: "file", file: { ...(title ? { filename: title } : {}), file_url: source.url ?? "" } }]
    case "content":
      return contentParts(source.content, titledText("", title, context))
    default: {
      const url = base64Url(source)
      return url === undefined
        ? `A document of source ${source.type} is not translated`
        : [{ type: "file", file: { filename: title ?? "document.pdf", file_data: url } }]
    }
  }
}

const textPart = (text: string): Part => ({ type: "text", text })

const joinedTexts = (content: unknown): string =>
  typeof content === "string"
    ? content
    : listIn(content)
        .map((block) => (isJson(block) && typeof block.text === "string" ? block.text : ""))
        .join("\n")

/** A document whose contents are texts and images. */
const contentParts = (content: unknown, title: string): ReadonlyArray<Part> | string => {
  const head = title === "" ? [] : [textPart(title)]
  if (typeof content === "string") return [...head, textPart(content)]
  const parts: Array<Part> = [...head]
  for (const block of listIn(content)) {
    const read = decodeBlock(block)
    if (Option.isNone(read)) return "A document of another content than texts and images is not translated"
    const { text, type } = read.value
    const translated = type === "text" ? [textPart(text ?? "")] : toChatParts(read.value)
    if (typeof translated === "string") return translated
    for (const part of translated) parts.push(part)
  }
  return parts
}

const decodeBlock = Schema.decodeUnknownOption(MessageBlock)

const base64Url = (source: Source): string | undefined =>
  source.type === "base64" && typeof source.data === "string"
    ? `data:${source.media_type ?? "application/octet-stream"};base64,${source.data}`
    : undefined
