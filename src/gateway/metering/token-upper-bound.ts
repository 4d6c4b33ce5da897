import { isJson, listIn, textIn, type Json } from "../../kernel/json/parsed-json.ts"
import { type Dialect } from "../translation/domain.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import { isProviderTool, type ProviderTools, providerToolsOf, unboundedTools } from "./provider-tools.ts"

/** The maximum usage of a request. */
export interface TokenUpperBound {
  readonly inputTokens: number
  /** The part of them for images and documents, and what stands elsewhere, which the gateway cannot count. */
  readonly mediaTokens: number
  /** Whether they are what the model can read, because a part of the request stands elsewhere. */
  readonly isRemote?: boolean
  /** In addition to the output limit: the tokens of a prediction. */
  readonly extraOutputTokens: number
  /** The number of choices that the output limit applies to. */
  readonly choices: number
  /** The output limit that the caller set. */
  readonly askedOutputTokens: number | undefined
  /** The tools that the provider runs; the input tokens are those of the request alone. */
  readonly tools?: ProviderTools | undefined
  /** Members whose cost cannot be bounded in advance. */
  readonly unbounded: ReadonlyArray<Fault>
}

/**
 * A token takes at least one byte of text, so the bytes of a request bound its tokens. These constants bound what a vendor
 * adds, rounded up from the vendors' documentation.
 */
export const perRequest = 100
export const perMessage = 16
export const perTool = 64
/** The system prompts that Anthropic and OpenAI add for tools. */
export const withTools = 1000
/** The schema of a tool that Anthropic defines, such as its text editor. */
const perVendorTool = 1000
/** Covers OpenAI's ten thousand patches and Anthropic's largest image of 4,784 tokens. */
export const perImage = 12_000
/**
 * This model counts 2,833 tokens for an image and 5,667 for each of eight tiles, so that it costs as much as with others.
 */
const dearImages = /gpt-4o-mini/
const perDearImage = 48_169

/** The maximum tokens of an image for any of these models, by their providers' names. */
export const imageTokensOf = (models: ReadonlyArray<string>): number =>
  models.some((model) => dearImages.test(model)) ? perDearImage : perImage
/** A page of a document counts as an image and as text. */
const perPage = 8_000
const maxPages = 600
/** The minimum size of a PDF page in bytes. */
const bytesPerPage = 64

/** Results of tools contain no further results; vendors do not read deeper content. */
const deepest = 8

/** Part types in OpenAI's dialect that hold text, including those that other providers added. */
const texts = new Set(["text", "refusal", "thinking", "reasoning"])

export const positive = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : undefined

export const embedded = /^data:(?:image\/|application\/pdf)[^,]*;base64,/

class Walk {
  /** Bytes of the request that are not text. */
  payloadBytes = 0
  tokens = 0
  /** The part of them for images and documents. */
  mediaTokens = 0
  /** The first document that stands elsewhere. */
  remote: Fault["path"] | undefined
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
      // Only code in the container of the tool reads it.
      case "container_upload":
        break
      case "input_audio":
        this.refuse(at, `A part of type ${part.type} has no bound`)
        break
      default:
        // Types that some providers invented, such as a video or audio by its URL.
        if (this.dialect === "openai" && !texts.has(textIn(part.type))) {
          this.refuse(at, `A part of type ${textIn(part.type) || "unknown"} has no bound`)
        }
    }
  }

  private document(data: string | undefined, at: Fault["path"]): void {
    if (data === undefined) {
      this.remote ??= at
      return
    }
    this.payloadBytes += data.length
    this.media(documentTokens(data))
  }

  private media(tokens: number): void {
    this.tokens += tokens
    this.mediaTokens += tokens
  }
}

/** The data of an image or a PDF; anything else is text, and bounded by its bytes. */
export const base64Of = (source: unknown): string | undefined =>
  isJson(source) &&
  source.type === "base64" &&
  typeof source.data === "string" &&
  /^(?:image\/|application\/pdf$)/.test(textIn(source.media_type))
    ? source.data
    : undefined

const apis = { openai: "chat", anthropic: "messages" } as const

/** Tools that Anthropic defines and the caller runs. */
const runByCaller = /^(?:bash|text_editor|computer|memory|browser)_/

const tools = (dialect: Dialect, body: Json, walk: Walk): void => {
  const given = listIn(body.tools)
  const functions = listIn(body.functions)
  if (given.length + functions.length > 0) walk.tokens += withTools
  walk.tokens += perTool * functions.length
  for (const [index, tool] of given.entries()) {
    const type = isJson(tool) && typeof tool.type === "string" ? tool.type : "custom"
    if (type === "custom" || type === "function") walk.tokens += perTool
    else if (dialect === "anthropic" && runByCaller.test(type)) walk.tokens += perVendorTool
    else if (isProviderTool(tool, apis[dialect])) walk.tokens += perVendorTool
    else walk.refuse(["tools", index], "A tool that the provider runs has no bound")
  }
}

/** Members that add costs beyond the tokens at the model's prices. */
export const priced: Readonly<Record<Dialect, ReadonlyArray<readonly [member: string, free: ReadonlyArray<unknown>]>>> =
  {
    openai: [
      ["service_tier", ["auto", "default", "flex"]],
      ["audio", []],
      ["moderation", []],
      // xAI bills its search per source; OpenRouter routes to models of the caller's choice, and bills its plugins.
      ["search_parameters", []],
      ["models", []],
      ["plugins", []]
    ],
    anthropic: [
      ["speed", ["standard"]],
      ["inference_geo", ["global"]],
      ["fallbacks", []]
    ]
  }

const bytesOf = (value: unknown): number => (value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value) ?? ""))

/** The maximum tokens of a document that is part of a request. */
export const documentTokens = (data: string): number =>
  perPage * Math.min(maxPages, Math.ceil((data.length * 3) / 4 / bytesPerPage))

/**
 * The maximum usage of a chat request. `bodyBytes` is the size of its JSON. A document that stands elsewhere is as long as
 * what the model reads, if that is known.
 */
export const chatBound = (
  dialect: Dialect,
  body: Json,
  bodyBytes: number,
  imageTokens: number = perImage,
  contextTokens: number | null = null
): TokenUpperBound => {
  const walk = new Walk(dialect, imageTokens)
  const messages = listIn(body.messages)
  for (const [index, message] of messages.entries()) {
    // Text is bounded by its bytes.
    if (isJson(message) && typeof message.content !== "string") {
      walk.content(message.content, ["messages", index, "content"])
    }
  }
  tools(dialect, body, walk)
  for (const [member, free] of priced[dialect]) {
    const value = body[member]
    if (value !== undefined && value !== null && !free.includes(value)) {
      walk.refuse([member], "What this costs has no bound")
    }
  }
  const providerTools = providerToolsOf(body, apis[dialect])
  for (const fault of providerTools === undefined ? [] : unboundedTools(providerTools)) walk.unbounded.push(fault)
  const { context_management: managed } = body
  // Other edits shorten the model's input; compaction has a model read all of it and summarize it.
  const compacts = listIn(isJson(managed) ? managed.edits : undefined).some(
    (edit) => isJson(edit) && textIn(edit.type).startsWith("compact")
  )
  if (walk.remote !== undefined && contextTokens === null) {
    walk.refuse(
      walk.remote,
      "A document that stands elsewhere has no bound where the model's `contextTokens` is not known"
    )
  }
  if (listIn(body.modalities).some((modality) => modality !== "text")) walk.refuse(["modalities"], "Audio has no bound")
  const given = bodyBytes - walk.payloadBytes + walk.tokens + perRequest + perMessage * messages.length
  const read = walk.remote === undefined ? given : Math.max(given, contextTokens ?? 0)
  return {
    mediaTokens: walk.remote === undefined ? walk.mediaTokens : Math.max(walk.mediaTokens, contextTokens ?? 0),
    ...(walk.remote === undefined ? {} : { isRemote: true }),
    inputTokens: compacts ? 2 * read : read,
    extraOutputTokens: dialect === "openai" ? bytesOf(body.prediction ?? undefined) : 0,
    choices: dialect === "openai" ? (positive(body.n) ?? 1) : compacts ? 2 : 1,
    ...(providerTools === undefined ? {} : { tools: providerTools }),
    askedOutputTokens:
      dialect === "openai" ? askedOfOpenAi(body) : body.max_tokens === 0 ? 0 : positive(body.max_tokens),
    unbounded: walk.unbounded
  }
}

const askedOfOpenAi = (body: Json): number | undefined => {
  const asked = [positive(body.max_completion_tokens), positive(body.max_tokens)].filter((limit) => limit !== undefined)
  // A provider may apply either limit, so the larger one counts.
  return asked.length === 0 ? undefined : Math.max(...asked)
}

/** The maximum usage of an embedding request, which has no output tokens. */
export const embeddingBound = (body: Json, bodyBytes: number): TokenUpperBound => ({
  mediaTokens: 0,
  inputTokens: bodyBytes + perRequest + (Array.isArray(body.input) ? body.input.length : 1),
  extraOutputTokens: 0,
  choices: 1,
  askedOutputTokens: undefined,
  unbounded: []
})
