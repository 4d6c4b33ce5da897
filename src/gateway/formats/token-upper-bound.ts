import { isUtf8 } from "node:buffer"
import { isJson, listIn, textIn, type Json } from "../../kernel/json/parsed-json.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import { media, type UsageUnits } from "./domain.ts"
import { type ProviderTools, type Unbounded } from "./provider-tools.ts"
import { type ServedNames, servedName, serviceMembers } from "./served-domain.ts"
import { type ModelTraits } from "./traits-domain.ts"

/**
 * What the model reads besides the bytes of a request. `stored`: what its provider keeps under an id or unpacks, which is
 * the same whenever it is read, so that a count of it holds. `fetched`: what is fetched from an address when the call runs,
 * which may then be another thing than was counted. `image`: what is fetched in the place of an image, and is one where the
 * provider takes nothing else there.
 */
export type Elsewhere = "stored" | "fetched" | "image"

/** The maximum usage of a request. */
export interface TokenUpperBound {
  /** Of one reading of what stands in the request. */
  readonly inputTokens: number
  /** The part of them for images and documents, which the gateway cannot count. */
  readonly mediaTokens: number
  /** Where a part of what the model reads stands, if not in the request: it may then read as much as its context holds. */
  readonly elsewhere?: Elsewhere | undefined
  /** Whether the texts of a request are read apart, each of which may be as long as the context. */
  readonly readsApart?: boolean
  /** How often the model reads the request: twice where it is compacted; once unless given. */
  readonly readings?: number
  /** In addition to the output limit: the tokens of a prediction. */
  readonly extraOutputTokens: number
  /** The number of choices that the output limit applies to. */
  readonly choices: number
  /** The output limit that the caller set. */
  readonly askedOutputTokens: number | undefined
  /** What the request asks for of its service; undefined if nothing. */
  readonly asksFor?: ServedNames | undefined
  /** Whether the request asks for text alone. */
  readonly writesText?: boolean | undefined
  /** The tools that the provider runs; the input tokens are those of the request alone. */
  readonly tools?: ProviderTools | undefined
  /** The most that is billed by other units than tokens; it is charged where the answer does not report them. */
  readonly units?: UsageUnits | undefined
  /** Members whose cost cannot be bounded in advance. */
  readonly unbounded: ReadonlyArray<Unbounded>
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

/** The maximum tokens of an image for any of these models. */
export const imageTokensOf = (models: ReadonlyArray<{ readonly traits: ModelTraits }>): number =>
  models.reduce((most, { traits: { imageTokens = 0 } }) => Math.max(most, imageTokens), perImage)
/** A page of a document counts as an image and as text. */
const perPage = 8_000
const maxPages = 600
/** The minimum size of a PDF page in bytes. */
const bytesPerPage = 64

export const positive = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : undefined

/** The kinds of images that vendors document; what another one unpacks to is not known. */
const imageKinds = "image/(?:png|jpe?g|gif|webp|bmp|heic|heif|avif)"
const imageType = new RegExp(`^${imageKinds}$`, "i")
/** How a PDF and a ZIP archive begin, which some servers take for what they are, whatever they are called. */
const packed = /^\s*(?:JVBERi|UEsDB)/
const embeddedImage = new RegExp(`^data:${imageKinds}(?:;[^,]*)?;base64,(?!\\s*(?:jvberi|uesdb))`, "i")
/** An image or a PDF that is part of a request: its bytes are not text. */
export const embedded = new RegExp(`^data:(?:${imageKinds}|application/pdf)(?:;[^,]*)?;base64,`, "i")
const data = /^data:/i
const webAddress = /^https?:/i
/** Addresses of what a provider stores, which some of them read where a text begins with one. */
const reference = /^\s*(?:file-?id|files?|ms|oss|gs|s3):\/\//i
const address = /^\s*(?:data:|[a-z][a-z0-9+.-]*:\/\/)/i
const namesAReference = /(?:_|^)(?:ids?|urls?|uri)$|(?:Id|Url|Uri)s?$/

const fileMembers: ReadonlySet<string> = new Set(
  "type id filename file_data file_id file_url detail citations cache_control prompt_cache_breakpoint".split(" ")
)

const readsOnlyImages = ({ traits }: { readonly traits: ModelTraits }): boolean => traits.takesOnlyImages === true

/** Where one of these models reads something else, if anywhere. */
export const elsewhereAt = (
  elsewhere: Elsewhere | undefined,
  models: ReadonlyArray<{ readonly traits: ModelTraits }>
): Elsewhere | undefined =>
  elsewhere === "image" ? (models.every(readsOnlyImages) ? undefined : "fetched") : elsewhere

/** A text file that is part of a request: its bytes bound its tokens, unless they are no text. */
const embeddedText = /^data:text\/[a-z0-9.+-]+[^,]*?(;base64)?,/
const isEmbeddedText = (data: string): boolean => {
  const found = embeddedText.exec(data)
  return found !== null && (found[1] === undefined || isUtf8(Buffer.from(data.slice(found[0].length), "base64")))
}

/** Members of a request whose cost is that of its bytes and of the answer, each with the values for which that holds. */
export type BoundMembers = ReadonlyMap<string, (value: unknown, body: Json) => boolean>

const anyValue = () => true

/** Members by their names, all values of which are bounded, and others by the values that are. */
export const boundMembers = (
  names: string,
  valued: Readonly<Record<string, ReadonlyArray<unknown> | ((value: unknown, body: Json) => boolean)>> = {}
): BoundMembers =>
  new Map([
    ...names.split(" ").map((name) => [name, anyValue] as const),
    ...Object.entries(valued).map(([name, free]) => {
      return [name, typeof free === "function" ? free : (value: unknown) => free.includes(value)] as const
    })
  ])

/** The budget of thoughts that is not within an output limit, because it is larger. */
export const thoughtsBeyond = (limit: number | undefined, ...budgets: ReadonlyArray<unknown>): number => {
  const budget = Math.max(...budgets.map((one) => positive(one) ?? 0))
  return budget > (limit ?? 0) ? budget : 0
}

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
  /** The first one that is no image. */
  private remoteText: Fault["path"] | undefined
  readonly unbounded: Array<Unbounded> = []
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
    if (elsewhere !== "image") this.remoteText ??= path
    this.elsewhere = this.elsewhere === undefined || this.elsewhere === elsewhere ? elsewhere : "fetched"
  }

  /** A text, which some providers take for the address of a file that they store. */
  text(text: unknown, path: Fault["path"]): void {
    if (typeof text === "string" && reference.test(text)) this.remotely(path, "fetched")
  }

  /** Members beside those that are known, and beside the one that a part has its content in, which may refer to something. */
  references(value: Json, known: ReadonlySet<string>, at: Fault["path"], content?: string): void {
    for (const name in value) {
      const member = value[name]
      if (known.has(name) || name === content || isEmpty(member)) continue
      const isReference =
        typeof member === "object" ||
        (name !== "id" && namesAReference.test(name)) ||
        (typeof member === "string" && address.test(member))
      if (isReference) this.refuse([...at, name], "What this refers to has no bound")
    }
  }

  /** An image by its data, its address or its id; what is none is read as some other document by some providers. */
  image(where: unknown, path: Fault["path"]): void {
    this.media(this.imageTokens)
    if (typeof where !== "string") return this.remotely(path, (where ?? null) === null ? "image" : "fetched")
    if (embeddedImage.test(where)) this.payloadBytes += where.length
    else if (data.test(where)) this.document(where, path)
    else this.remotely(path, webAddress.test(where) ? "image" : "fetched")
  }

  /** An image of OpenAI's: its address alone, or in an object with no more than the detail to read it in. */
  imageUrl(given: unknown, path: Fault["path"]): void {
    if (!isJson(given)) return this.image(given, path)
    this.image(given.url, path)
    for (const name in given) {
      // Some providers take the kind of the document here, whatever the address says.
      if (name !== "url" && name !== "detail" && !isEmpty(given[name])) this.remotely(path, "fetched")
    }
  }

  /** A document as data. What it is packed from may be much larger than its bytes, so only its provider can count it. */
  document(given: string, path: Fault["path"]): void {
    if (!data.test(given)) return this.remotely(path, "fetched")
    if (isEmbeddedText(given)) return
    if (embedded.test(given)) this.payloadBytes += given.length
    this.media(documentTokens(given))
    this.remotely(path, "stored")
  }

  /** A file of OpenAI's. */
  fileOf(file: Json, path: Fault["path"]): void {
    const { file_data: contents, file_id: id, file_url: url } = file
    if ((url ?? null) !== null) this.remotely(path, "fetched")
    if ((id ?? null) !== null || (contents ?? null) === null) this.remotely(path, "stored")
    // Some providers take the kind of the document here, whatever its data says.
    for (const name in file) if (!fileMembers.has(name) && !isEmpty(file[name])) this.remotely(path, "fetched")
    if (typeof contents === "string") this.document(contents, path)
    else if ((contents ?? null) !== null) this.remotely(path, "fetched")
  }

  /** A document of Anthropic's. */
  source(source: unknown, path: Fault["path"]): void {
    const data = base64Of(source)
    const type = isJson(source) ? source.type : undefined
    if (data !== undefined) {
      this.payloadBytes += data.length
      this.media(documentTokens(data))
      this.remotely(path, "stored")
    } else if (type !== "text" || !textType.test(textIn(isJson(source) ? source.media_type : undefined))) {
      this.remotely(path, type === "url" ? "fetched" : "stored")
    }
  }

  media(tokens: number): void {
    this.tokens += tokens
    this.mediaTokens += tokens
  }

  /** An image of Anthropic's; what is called a PDF is one to other providers. */
  imageOf(source: unknown, path: Fault["path"]): void {
    const { data: contents, media_type: kind, type, url } = isJson(source) ? source : {}
    const isImage = imageType.test(textIn(kind)) && !packed.test(textIn(contents))
    if (type === "base64" && !isImage) return this.source(source, path)
    this.media(this.imageTokens)
    if (type === "base64" && typeof contents === "string") this.payloadBytes += contents.length
    else if (type === "file" || (type === "url" && webAddress.test(textIn(url)))) this.remotely(path, "image")
    else this.remotely(path, "fetched")
  }

  /** What is in none of a format's members that are known to be bounded. */
  members(body: Json, known: BoundMembers): void {
    for (const name in body) {
      const isBounded = known.get(name)
      if (isBounded === anyValue) continue
      const value = body[name]
      if (isAbsent(value) || isBounded?.(value, body) === true) continue
      this.unbounded.push({
        path: [name],
        message:
          isBounded === undefined
            ? "What a provider reads, writes or runs for this member has no bound: leave it out, or have an operator list it in `requestMembers` of the provider"
            : "What this costs has no bound: leave it out, or have an operator list it in `requestMembers` of the provider",
        isBoundedAt: ({ provider }) => provider.requestMembers?.has(name) === true,
        ...servedBy(name, value)
      })
    }
  }

  /** A service that costs what its price says; one that is free costs no more than the usual one. */
  service(member: string, value: unknown, isFree: boolean): void {
    if (!isFree)
      this.unbounded.push({ path: [member], message: "What this costs has no bound", ...servedBy(member, value) })
  }

  /** What the model is to write besides text, which costs what its price says. */
  modalities(asked: unknown, path: Fault["path"]): void {
    for (const modality of listIn(asked)) {
      const name = textIn(modality).toLowerCase()
      if (name === "text") continue
      const medium = media.find((one) => one === name)
      this.unbounded.push({
        path,
        message: "Output that is no text has no bound without a price of its own",
        ...(medium === undefined ? {} : { pricedAs: `${medium}Output` as const })
      })
    }
  }

  /** What the model may read at most, if a part stands elsewhere. */
  requireContext(contextTokens: number | null, tools: ProviderTools | undefined): Elsewhere | undefined {
    const defined = tools?.tools.find(({ isDefinedElsewhere }) => isDefinedElsewhere)
    if (defined !== undefined) this.remotely(defined.path, "fetched")
    const open = this.remoteText ?? tools?.tools.find(({ maxResult }) => maxResult === undefined)?.path
    if (contextTokens !== null) return this.elsewhere
    const message = "What stands elsewhere has no bound where the model's `contextTokens` is not configured"
    if (open !== undefined) this.refuse(open, message)
    else if (this.remote !== undefined) {
      this.unbounded.push({ path: this.remote, message, isBoundedAt: readsOnlyImages })
    }
    return this.elsewhere
  }
}

/** Whether a list of modalities has text alone. */
export const asksForText = (modalities: unknown): boolean => {
  const asked = listIn(modalities)
  return asked.length > 0 && asked.every((modality) => textIn(modality).toLowerCase() === "text")
}

/** The service that a member of a request asks for, if it does. */
const servedBy = (member: string, value: unknown): Pick<Unbounded, "pricedAs"> => {
  const dimension = serviceMembers[member]
  const name = dimension === undefined ? undefined : servedName(dimension, value)
  return dimension === undefined || name === undefined ? {} : { pricedAs: { [dimension]: name } }
}

export const isEmpty = (value: unknown): boolean =>
  (value ?? "") === "" || (typeof value === "object" && Object.keys(value ?? {}).length === 0)
/** An object without members may ask for something as it usually is. */
const isAbsent = (value: unknown): boolean => (value ?? "") === "" || (Array.isArray(value) && value.length === 0)

/** The kinds of a document that is text; it need not be named. */
const textType = /^(?:text\/.*)?$/i
const isPdf = /^application\/pdf$/i

/** The data of an image or a PDF; anything else is text, and bounded by its bytes. */
export const base64Of = (source: unknown): string | undefined =>
  isJson(source) &&
  source.type === "base64" &&
  typeof source.data === "string" &&
  (imageType.test(textIn(source.media_type)) || isPdf.test(textIn(source.media_type)))
    ? source.data
    : undefined

/** How much longer a number may be written than with an exponent: 100000000000000000000.0 for 1e20. */
const perExponent = 19
const [lowerE, upperE, zero, nine] = [0x65, 0x45, 0x30, 0x39]

/**
 * The bytes of a request, and those that numbers in it may gain where they are rewritten: by a translation, in arguments
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

/** What Go and Jinja write as six bytes in JSON: `<` as `\u003c`. */
const escapable = ["<", ">", "&", "'"]
const perEscape = 5
/** Bytes that `\uXXXX` adds for each UTF-8 byte beyond the UTF-16 units. */
const perContinuation = 4

const countOf = (text: string, character: string): number => {
  let count = 0
  for (let at = text.indexOf(character); at >= 0; at = text.indexOf(character, at + 1)) count++
  return count
}

/** The bytes that tools and their arguments may gain where a provider writes their JSON again. */
export const escapedBytes = (value: unknown): number => {
  const json = (value ?? null) === null ? "" : JSON.stringify(value)
  const escapes = escapable.reduce((sum, character) => sum + countOf(json, character), 0)
  return perEscape * escapes + perContinuation * (Buffer.byteLength(json) - json.length)
}

/** The maximum tokens of a document that is part of a request. */
export const documentTokens = (data: string): number =>
  perPage * Math.min(maxPages, Math.ceil((data.length * 3) / 4 / bytesPerPage))

/** An id that a translation gives to a call, and to its result. */
export const perRestoredId = 32
/** A result that a translation adds for a call that has none, but for the id of the call. */
export const perRestoredResult = 64 + perMessage

/** The results that a translation may add for calls without one, with the ids of these. */
export const restoredResults = (calls: ReadonlyArray<unknown>, answered: ReadonlyArray<unknown>): number => {
  if (calls.length === 0) return 0
  const results = new Map<unknown, number>()
  for (const id of answered) results.set(id, (results.get(id) ?? 0) + 1)
  let bytes = 0
  for (const id of calls) {
    const left = results.get(id) ?? 0
    if (left > 0) results.set(id, left - 1)
    else bytes += perRestoredResult + perRestoredId + Buffer.byteLength(textIn(id))
  }
  return bytes
}
