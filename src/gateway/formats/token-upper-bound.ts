import { isUtf8 } from "node:buffer"
import { isJson, textIn, type Json } from "../../kernel/json/parsed-json.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import { type ProviderTools } from "./provider-tools.ts"

/**
 * What the model reads besides the bytes of a request. `stored`: what its provider keeps under an id or unpacks, which is
 * the same whenever it is read, so that a count of it holds. `fetched`: what is fetched from an address when the call runs,
 * which may then be another thing than was counted.
 */
export type Elsewhere = "stored" | "fetched"

/** The maximum usage of a request. */
export interface TokenUpperBound {
  /** Of one reading of what stands in the request. */
  readonly inputTokens: number
  /** The part of them for images and documents, which the gateway cannot count. */
  readonly mediaTokens: number
  /** Where a part of what the model reads stands, if not in the request: it may then read as much as its context holds. */
  readonly elsewhere?: Elsewhere | undefined
  /** How often the model reads the request: twice where it is compacted; once unless given. */
  readonly readings?: number
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
/** The schema of a tool that Anthropic defines, such as its text editor, and of a set of such tools. */
export const perVendorTool = 1000
export const perVendorToolset = 10_000
/** Covers OpenAI's ten thousand patches and Anthropic's largest image of 4,784 tokens. */
export const perImage = 12_000
/**
 * This model counts 2,833 tokens for an image and 5,667 for each of eight tiles, so that it costs as much as with others.
 */
const dearImages = /gpt-4o-mini/
const perDearImage = 48_169

/** The maximum tokens of an image for any of these models, by their names with the gateway and with their providers. */
export const imageTokensOf = (models: ReadonlyArray<string>): number =>
  models.some((model) => dearImages.test(model)) ? perDearImage : perImage
/** A page of a document counts as an image and as text. */
const perPage = 8_000
const maxPages = 600
/** The minimum size of a PDF page in bytes. */
const bytesPerPage = 64

export const positive = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : undefined

const embeddedImage = /^data:image\/[^,]*;base64,/
const embeddedPdf = /^data:application\/pdf[^,]*;base64,/
/** An image or a PDF that is part of a request: its bytes are not text. */
export const embedded = /^data:(?:image\/|application\/pdf)[^,]*;base64,/
/** A text file that is part of a request: its bytes bound its tokens, unless they are no text. */
const embeddedText = /^data:text\/[a-z0-9.+-]+[^,]*?(;base64)?,/
const isEmbeddedText = (data: string): boolean => {
  const found = embeddedText.exec(data)
  return found !== null && (found[1] === undefined || isUtf8(Buffer.from(data.slice(found[0].length), "base64")))
}

/** Members that add costs beyond the tokens at the model's prices, each with the values that add none. */
export type PricedMembers = ReadonlyArray<readonly [member: string, free: ReadonlyArray<unknown>]>

/** Gathers what a request has besides its text. */
export class BoundWalk {
  /** Bytes of the request that are not text. */
  payloadBytes = 0
  tokens = 0
  /** The part of them for images and documents. */
  mediaTokens = 0
  elsewhere: Elsewhere | undefined
  /** The first part that stands elsewhere. */
  private remote: Fault["path"] | undefined
  readonly unbounded: Array<Fault> = []
  private readonly imageTokens: number

  constructor(imageTokens: number) {
    this.imageTokens = imageTokens
  }

  refuse(path: Fault["path"], message: string): void {
    this.unbounded.push({ path, message })
  }

  refuseType(path: Fault["path"], part: Json): void {
    this.refuse(path, `A part of type ${textIn(part.type) || "unknown"} has no bound`)
  }

  /** A part that stands elsewhere. */
  remotely(path: Fault["path"], elsewhere: Elsewhere): void {
    this.remote ??= path
    if (this.elsewhere !== "fetched") this.elsewhere = elsewhere
  }

  /** An image by its address, its id, or its data; some providers take a PDF in its place. */
  image(address: unknown, path: Fault["path"]): void {
    if (typeof address === "string" && embeddedPdf.test(address)) return this.document(address, path)
    if (typeof address === "string" && embeddedImage.test(address)) this.payloadBytes += address.length
    this.media(this.imageTokens)
  }

  /** A document as data. What it is packed from may be much larger than its bytes, so only its provider can count it. */
  document(data: string, path: Fault["path"]): void {
    if (isEmbeddedText(data)) return
    if (embedded.test(data)) this.payloadBytes += data.length
    this.media(documentTokens(data))
    this.remotely(path, "stored")
  }

  /** A document of Anthropic's. */
  source(source: unknown, path: Fault["path"]): void {
    const data = base64Of(source)
    const type = isJson(source) ? source.type : undefined
    if (data !== undefined) {
      this.payloadBytes += data.length
      this.media(documentTokens(data))
      this.remotely(path, "stored")
    } else if (type !== "text") this.remotely(path, type === "file" || type === "base64" ? "stored" : "fetched")
  }

  media(tokens: number): void {
    this.tokens += tokens
    this.mediaTokens += tokens
  }

  /** An image of Anthropic's; what is called a PDF is one to other providers. */
  imageOf(source: unknown, path: Fault["path"]): void {
    if (isJson(source) && source.media_type === "application/pdf") return this.source(source, path)
    this.payloadBytes += base64Of(source)?.length ?? 0
    this.media(this.imageTokens)
  }

  /** Members that cost something of their own, or that are known to have a provider search or call others. */
  members(body: Json, priced: PricedMembers): void {
    for (const [member, free] of priced) {
      const value = body[member]
      if (value !== undefined && value !== null && !free.includes(value)) {
        this.refuse([member], "What this costs has no bound")
      }
    }
    for (const member in body) {
      if (!readsElsewhere.test(member) || boundMembers.has(member) || isIdle(body[member])) continue
      this.refuse([member], "A member that may have the provider read or run something has no bound")
    }
  }

  /** What the model may read at most, if a part stands elsewhere. */
  requireContext(contextTokens: number | null, tools: ProviderTools | undefined): Elsewhere | undefined {
    const defined = tools?.tools.find(({ isDefinedElsewhere }) => isDefinedElsewhere)
    if (defined !== undefined) this.remotely(defined.path, "fetched")
    const open = this.remote ?? tools?.tools.find(({ maxResult }) => maxResult === undefined)?.path
    if (open !== undefined && contextTokens === null) {
      this.refuse(open, "What stands elsewhere has no bound where the model's `contextTokens` is not configured")
    }
    return this.elsewhere
  }
}

/** Names of members with which providers are asked to search, fetch or call something, beside those that are known. */
const readsElsewhere =
  /search|plugin|connector|data_?source|retriev|knowledge|brows|crawl|mcp|skill|extra_body|assistant|agent/i
const boundMembers: ReadonlySet<string> = new Set(["web_search_options", "mcp_servers", "search_parameters", "plugins"])
const idle: ReadonlySet<unknown> = new Set([false, "none", "off"])
export const isEmpty = (value: unknown): boolean =>
  (value ?? "") === "" || (typeof value === "object" && Object.keys(value ?? {}).length === 0)
const isIdle = (value: unknown): boolean => idle.has(value) || isEmpty(value)

/** The data of an image or a PDF; anything else is text, and bounded by its bytes. */
export const base64Of = (source: unknown): string | undefined =>
  isJson(source) &&
  source.type === "base64" &&
  typeof source.data === "string" &&
  /^(?:image\/|application\/pdf$)/.test(textIn(source.media_type))
    ? source.data
    : undefined

/** How much longer a number may be written than with an exponent: 100000000000000000000.0 for 1e20. */
const perExponent = 19
const [lowerE, upperE, zero, nine] = [0x65, 0x45, 0x30, 0x39]

/**
 * The bytes of a request, and those that numbers in it may gain where they are written anew: by a translation, in arguments
 * as well, or by a provider.
 */
export const writtenBytes = (json: Uint8Array): number => {
  let exponents = 0
  for (let at = 1; at < json.length; at++) {
    const byte = json[at]
    if (byte !== lowerE && byte !== upperE) continue
    const before = json[at - 1] ?? 0
    if ((before >= zero && before <= nine) || before === 0x2e) exponents++
  }
  return json.length + perExponent * exponents
}

/** The maximum tokens of a document that is part of a request. */
export const documentTokens = (data: string): number =>
  perPage * Math.min(maxPages, Math.ceil((data.length * 3) / 4 / bytesPerPage))
