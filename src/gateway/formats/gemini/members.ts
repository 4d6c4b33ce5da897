import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { lookupTable } from "../../../kernel/lookup-table.ts"
import { type ChatPart } from "../common-form/domain.ts"
import { type ModelTraits } from "../traits-domain.ts"
import { type InlineData, type ThinkingConfig } from "./domain.ts"
import { type WrittenPart } from "./turn-parts.ts"

/** Members that Gemini's schemas write as text where JSON Schema has a number. */
const numbers: ReadonlySet<string> = new Set(
  ["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"].concat(["minimum", "maximum"])
)

/** Members that are named in snake case, too, by what they are called in JSON Schema. */
const names = lookupTable<string>({
  any_of: "anyOf",
  min_items: "minItems",
  max_items: "maxItems",
  min_length: "minLength",
  max_length: "maxLength",
  min_properties: "minProperties",
  max_properties: "maxProperties"
})

/** Members of Google's own, and those that are written in another form. */
const leftOut: ReadonlySet<string> = new Set(
  ["type", "nullable", "example", "propertyOrdering", "property_ordering"].concat(["properties", "items", "anyOf"])
)

const numberIn = (value: unknown): unknown =>
  typeof value === "string" && /^-?\d+(?:\.\d+)?$/.test(value) ? Number(value) : value

const schemaIn = (value: unknown): unknown => (isJson(value) ? toJsonSchema(value) : value)

/**
 * Translates a schema of Gemini's, which is OpenAPI 3.0 with types in capitals, to JSON Schema. Names of the caller's own,
 * those of properties, are kept.
 */
export const toJsonSchema = (schema: Json): Json => {
  const given = Object.fromEntries(Object.entries(schema).map(([name, value]) => [names[name] ?? name, value]))
  const { anyOf, example, items, nullable, properties, type } = given
  const rest = Object.entries(given)
    .filter(([name]) => !leftOut.has(name))
    .map(([name, value]) => [name, numbers.has(name) ? numberIn(value) : value])
  const named = typeof type === "string" && type !== "TYPE_UNSPECIFIED" ? type.toLowerCase() : undefined
  const isNullable = nullable === true
  const options = Array.isArray(anyOf) ? anyOf.map(schemaIn) : undefined
  const values = isNullable && Array.isArray(given.enum) ? { enum: [...given.enum, null] } : {}
  return {
    ...(named === undefined ? {} : { type: isNullable && named !== "null" ? [named, "null"] : named }),
    ...Object.fromEntries(rest),
    ...values,
    ...(example === undefined ? {} : { examples: [example] }),
    ...(items === undefined ? {} : { items: schemaIn(items) }),
    ...(options === undefined
      ? {}
      : { anyOf: isNullable && named === undefined ? [...options, { type: "null" }] : options }),
    ...(isJson(properties)
      ? { properties: Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, schemaIn(one)])) }
      : {})
  }
}

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
  if (part.type === "input_audio") {
    const { data, format } = isJson(part.input_audio) ? part.input_audio : {}
    return typeof data === "string" && typeof format === "string"
      ? { inlineData: { mimeType: `audio/${format}`, data } }
      : "Expected `data` and `format` of the audio"
  }
  return `A part of type ${part.type} is not translated`
}

/** What chat completions call a format of audio. */
const audioFormats = lookupTable<string>({ mpeg: "mp3", "x-wav": "wav", wave: "wav" })

/** Translates data to a part of a chat message; a string explains why that is impossible. */
export const toChatPart = ({ data, displayName, mimeType }: InlineData): WrittenPart | string => {
  if (typeof mimeType !== "string" || typeof data !== "string") return "Expected `mimeType` and `data`"
  // Google takes base64 of both alphabets.
  const base64 = data.replaceAll("-", "+").replaceAll("_", "/")
  if (mimeType.startsWith("image/")) {
    return { type: "image_url", image_url: { url: `data:${mimeType};base64,${base64}` } }
  }
  if (mimeType.startsWith("audio/")) {
    const name = mimeType.slice("audio/".length)
    return { type: "input_audio", input_audio: { data: base64, format: audioFormats[name] ?? name } }
  }
  if (mimeType.startsWith("text/")) return { type: "text", text: Buffer.from(base64, "base64").toString("utf8") }
  return mimeType === "application/pdf"
    ? {
        type: "file",
        file: { filename: displayName ?? "document.pdf", file_data: `data:${mimeType};base64,${base64}` }
      }
    : `Data of type ${mimeType} is not translated`
}

/** The budgets that Google's own OpenAI endpoint gives to the efforts. */
const budgets = lookupTable<number>({
  none: 0,
  minimal: 1024,
  low: 1024,
  medium: 8192,
  high: 24_576,
  xhigh: 24_576,
  max: 24_576
})

const levels = lookupTable<string>({
  none: "minimal",
  minimal: "minimal",
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "high",
  max: "high"
})

/** The thinking parameters for an effort, for one of Google's models; undefined if it takes none. */
export const thinkingOf = (effort: string | null | undefined, traits: ModelTraits): Json | undefined => {
  const level = levels[effort ?? ""]
  const budget = budgets[effort ?? ""]
  if (level === undefined || budget === undefined) return undefined
  const includeThoughts = effort !== "none"
  const { minThinkingTokens = 0, thinking, thinkingBy } = traits
  if (thinking === "none") return undefined
  if (thinkingBy === "level") {
    return { thinkingLevel: thinking === "always" && level === "minimal" ? "low" : level, includeThoughts }
  }
  if (thinkingBy !== "budget") return undefined
  const least = budget > 0 || thinking === "always" ? minThinkingTokens : 0
  return { thinkingBudget: Math.max(least, budget), includeThoughts }
}

/** The effort that a caller asked for; undefined where the model decides. */
export const effortOf = (config: ThinkingConfig | null | undefined): string | undefined => {
  const level = levels[config?.thinkingLevel?.toLowerCase() ?? ""]
  if (level !== undefined) return level
  const budget = config?.thinkingBudget ?? -1
  const tokens = Number(budget)
  if (tokens < 0) return undefined
  if (tokens === 0) return "none"
  return tokens <= 1024 ? "low" : tokens <= 8192 ? "medium" : "high"
}
