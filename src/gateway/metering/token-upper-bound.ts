import { isJson, listIn } from "../../kernel/parsed-json.ts"
import { type Dialect } from "../translation/domain.ts"
import { type Fault } from "../../kernel/problem.ts"

type Json = Readonly<Record<string, unknown>>

/** What a request can use at most. */
export interface TokenUpperBound {
  readonly inputTokens: number
  /** Of these, what images and documents are bounded by: nobody here can count them. */
  readonly mediaTokens: number
  /** Beside the output limit: what a prediction adds. */
  readonly extraOutputTokens: number
  /** How many answers the output limit holds for. */
  readonly choices: number
  /** The output limit that the caller asked for. */
  readonly askedOutputTokens: number | undefined
  /** Members whose cost nobody can tell beforehand. */
  readonly unbounded: ReadonlyArray<Fault>
}

/**
 * A token is at least one byte of text, so the bytes of a request bound its tokens; what a vendor adds by itself is bounded
 * by these, rounded up from what the vendors' guides say.
 */
const perRequest = 100
const perMessage = 16
const perTool = 64
/** Anthropic's own prompt for tools, and OpenAI's. */
const withTools = 1000
/** Schemas of tools that Anthropic defines itself, such as its text editor. */
const perVendorTool = 1000
/** OpenAI's ten thousand patches, and Anthropic's largest image of 4,784 tokens. */
const perImage = 12_000
/** One model counts an image by 2,833 tokens and 5,667 for each of eight tiles, so that it costs as much as with others. */
const dearImages = /gpt-4o-mini/
const perDearImage = 48_169

/** What an image is at most for any of these models, by their providers' names. */
export const imageTokensOf = (models: ReadonlyArray<string>): number =>
  models.some((model) => dearImages.test(model)) ? perDearImage : perImage
/** A page of a document is read as an image and as text. */
const perPage = 8_000
const maxPages = 600
/** A page takes so many bytes of a PDF at least. */
const bytesPerPage = 64

/** Results of tools hold no results; what is deeper is nothing that a vendor reads. */
const deepest = 8

/** What stands in a request of OpenAI's dialect in its own words, whoever speaks it. */
const texts = new Set(["text", "refusal", "thinking", "reasoning"])

const positive = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : undefined

const embedded = /^data:(?:image\/|application\/pdf)[^,]*;base64,/

class Walk {
  /** Bytes of the request that are no text. */
  payloadBytes = 0
  tokens = 0
  /** Of these, those of images and documents. */
  mediaTokens = 0
  readonly unbounded: Array<Fault> = []
  private readonly dialect: Dialect
  private readonly imageTokens: number

  constructor(dialect: Dialect, imageTokens: number) {
    this.dialect = dialect
    this.imageTokens = imageTokens
  }

  refuse(path: Fault["path"], message: string): void {
    this.unbounded.push({ path, message })
  }

  content(content: unknown, at: Fault["path"], depth = 0): void {
    if (depth > deepest) return this.refuse(at, "What is nested so deeply has no bound")
    for (const [index, part] of listIn(content).entries()) if (isJson(part)) this.part(part, [...at, index], depth)
  }

  private part(part: Json, at: Fault["path"], depth: number): void {
    switch (part.type) {
      case "image_url": {
        const url = isJson(part.image_url) ? part.image_url.url : undefined
        if (typeof url === "string" && embedded.test(url)) this.payloadBytes += url.length
        this.media(this.imageTokens)
        break
      }
      case "file": {
        const data = isJson(part.file) ? part.file.file_data : undefined
        this.document(typeof data === "string" && embedded.test(data) ? data : undefined, at)
        break
      }
      case "image":
        this.payloadBytes += base64Of(part.source)?.length ?? 0
        this.media(this.imageTokens)
        break
      case "document": {
        const { source } = part
        if (isJson(source) && source.type === "text") break
        if (isJson(source) && source.type === "content")
          this.content(source.content, [...at, "source", "content"], depth + 1)
        else this.document(base64Of(source), at)
        break
      }
      case "tool_result":
        this.content(part.content, [...at, "content"], depth + 1)
        break
      case "input_audio":
      case "container_upload":
        this.refuse(at, `A part of type ${part.type} has no bound`)
        break
      default:
        // A video or a sound by its address, in the words of whoever invented them.
        if (this.dialect === "openai" && !texts.has(String(part.type))) {
          this.refuse(at, `A part of type ${String(part.type)} has no bound`)
        }
    }
  }

  private document(data: string | undefined, at: Fault["path"]): void {
    if (data === undefined) return this.refuse(at, "A document that stands elsewhere has no bound")
    this.payloadBytes += data.length
    this.media(perPage * Math.min(maxPages, Math.ceil((data.length * 3) / 4 / bytesPerPage)))
  }

  private media(tokens: number): void {
    this.tokens += tokens
    this.mediaTokens += tokens
  }
}

/** Data that is an image or a PDF: anything else is read as text, and bounded by its bytes. */
const base64Of = (source: unknown): string | undefined =>
  isJson(source) &&
  source.type === "base64" &&
  typeof source.data === "string" &&
  /^(?:image\/|application\/pdf$)/.test(String(source.media_type))
    ? source.data
    : undefined

/** Tools that Anthropic defines but the caller runs. */
const runByCaller = /^(?:bash|text_editor|computer|memory|browser)_/

const tools = (dialect: Dialect, body: Json, walk: Walk): void => {
  const given = listIn(body.tools)
  if (given.length > 0) walk.tokens += withTools
  for (const [index, tool] of given.entries()) {
    const type = isJson(tool) && typeof tool.type === "string" ? tool.type : "custom"
    if (type === "custom" || type === "function") walk.tokens += perTool
    else if (dialect === "anthropic" && runByCaller.test(type)) walk.tokens += perVendorTool
    else walk.refuse(["tools", index], "A tool that the provider runs has no bound")
  }
}

/** Members that make a request cost otherwise than by its tokens at the model's prices. */
const priced: Readonly<Record<Dialect, ReadonlyArray<readonly [member: string, free: ReadonlyArray<unknown>]>>> = {
  openai: [
    ["service_tier", ["auto", "default", "flex"]],
    ["web_search_options", []],
    ["audio", []],
    ["moderation", []],
    // xAI's search is sold by the source; OpenRouter goes to models of the caller's choice, and sells its plugins.
    ["search_parameters", []],
    ["models", []],
    ["plugins", []]
  ],
  anthropic: [
    ["speed", ["standard"]],
    ["inference_geo", ["global"]],
    ["mcp_servers", []],
    ["container", []],
    ["fallbacks", []]
  ]
}

const bytesOf = (value: unknown): number => (value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value) ?? ""))

/** What a chat request can use at most. `bodyBytes` is the size of the JSON that it came as. */
export const chatBound = (
  dialect: Dialect,
  body: Json,
  bodyBytes: number,
  imageTokens: number = perImage
): TokenUpperBound => {
  const walk = new Walk(dialect, imageTokens)
  const messages = listIn(body.messages)
  for (const [index, message] of messages.entries()) {
    if (isJson(message)) walk.content(message.content, ["messages", index, "content"])
  }
  tools(dialect, body, walk)
  for (const [member, free] of priced[dialect]) {
    const value = body[member]
    if (value !== undefined && value !== null && !free.includes(value)) {
      walk.refuse([member], "What this costs has no bound")
    }
  }
  const { context_management: managed } = body
  for (const [index, edit] of listIn(isJson(managed) ? managed.edits : undefined).entries()) {
    // Others leave something out of what the model reads; this one has a model read and shorten all of it.
    if (isJson(edit) && String(edit.type).startsWith("compact")) {
      walk.refuse(["context_management", "edits", index], "A compaction has no bound")
    }
  }
  if (listIn(body.modalities).some((modality) => modality !== "text")) walk.refuse(["modalities"], "Audio has no bound")
  return {
    mediaTokens: walk.mediaTokens,
    inputTokens: bodyBytes - walk.payloadBytes + walk.tokens + perRequest + perMessage * messages.length,
    extraOutputTokens: dialect === "openai" ? bytesOf(body.prediction ?? undefined) : 0,
    choices: dialect === "openai" ? (positive(body.n) ?? 1) : 1,
    askedOutputTokens:
      dialect === "openai" ? askedOfOpenAi(body) : body.max_tokens === 0 ? 0 : positive(body.max_tokens),
    unbounded: walk.unbounded
  }
}

const askedOfOpenAi = (body: Json): number | undefined => {
  const asked = [positive(body.max_completion_tokens), positive(body.max_tokens)].filter((limit) => limit !== undefined)
  // A provider may obey either, so the larger one counts.
  return asked.length === 0 ? undefined : Math.max(...asked)
}

/** What an embedding request can use at most; its output is no tokens. */
export const embeddingBound = (body: Json, bodyBytes: number): TokenUpperBound => ({
  mediaTokens: 0,
  inputTokens: bodyBytes + perRequest + (Array.isArray(body.input) ? body.input.length : 1),
  extraOutputTokens: 0,
  choices: 1,
  askedOutputTokens: undefined,
  unbounded: []
})
