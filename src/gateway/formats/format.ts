import { type Result } from "effect"
import { type Json } from "../../kernel/json/parsed-json.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import { type IdScope, type Renaming } from "../json/kept-ids.ts"
import {
  type Dialect,
  type Medium,
  type ModelKind,
  type Operation,
  type PromptCache,
  type ProviderApi,
  type TokenUsage,
  type UsageUnits
} from "./domain.ts"
import { type ErrorWriter } from "./error-writer.ts"
import { type DialectError, type ProviderError } from "./errors.ts"
import { type ServerEvent } from "./event-reader.ts"
import { type FormShape, type GivenForm } from "./forms/form.ts"
import { type MemberNames, type Omissions } from "./omissions.ts"
import { type TargetRates, type ToolTerms } from "./provider-tools.ts"
import { type ServedNames } from "./served-domain.ts"
import { type TokenUpperBound } from "./token-upper-bound.ts"
import { type ModelTraits } from "./traits-domain.ts"

/** The body of a request, and the bytes that it was parsed from. */
export interface GivenBody {
  readonly body: Json
  readonly bytes: Uint8Array
  /** The form that the body was read from, in a format whose requests are forms. */
  readonly form?: GivenForm
}

/** A request; the format decides whether its model and `streams` are members of the body or parts of the path. */
export interface GivenRequest extends GivenBody {
  readonly model: unknown
  readonly streams: boolean
}

/** What an edit needs to know of where a request goes. */
export interface FormatTarget {
  /** The provider's name of the model. */
  readonly model: string
  readonly provider: {
    readonly vendor: string | undefined
    /** The path of the cost that it reports, if that is charged. */
    readonly costPath?: ReadonlyArray<string> | undefined
  }
  readonly traits: ModelTraits
  readonly rates?: TargetRates | null
  /** Which marks requests get for a cache that needs them; the format's default if undefined. */
  readonly promptCache?: PromptCache | undefined
}

/** The limits that a call was admitted with. */
export interface SentLimits {
  /** The output limit in tokens to send where the caller set none; undefined if none is needed. */
  readonly limit: number | undefined
  /** The one to send in a format that requires a limit: the caller's, or what was reserved for. */
  readonly outputTokens: number
  /** The limit of uses to send for tools of the provider that have none. */
  readonly toolLimit: number | undefined
  /** Whether the request asks for the usual service where it asks for none, so that no dearer one is given. */
  readonly pinsService?: boolean
  /** Tells the session of the call in a vendor's prompt cache; undefined where its caller names none. */
  readonly cacheKey?: string | undefined
}

/** What a bound depends on besides the request. */
export interface BoundTerms extends ToolTerms {
  /** The bytes of the request, and those that it gains if a provider writes its numbers in full (`writtenBytes`). */
  readonly bodyBytes: number
  /** The most that an image costs, in tokens. */
  readonly imageTokens: number
  /** Null if unknown. */
  readonly contextTokens: number | null
  /** The model's; null if unknown. */
  readonly maxOutputTokens: number | null
}

/** Why the gateway serves a request nowhere, as its own format tells it. */
export interface Unserved {
  readonly message: string
  readonly code: string
  readonly param: string
  readonly details?: Json
}

/** Members of a translated answer besides its content: the model name that the caller used, and an id where there is none. */
export interface AnswerHead {
  readonly model: string
  readonly id: string
  readonly createdSeconds: number
  /** Whether the caller asked for the model's thoughts, in a format that has them only then. */
  readonly includesThoughts?: boolean
}

/** Reads a provider's stream as chunks of the common form. */
export interface CommonReader {
  push(value: Json, event: ServerEvent): ReadonlyArray<Json>
  /** The chunks of the end. */
  end(): ReadonlyArray<Json>
}

/** Writes chunks of the common form as a caller's stream. */
export interface CommonWriter {
  push(chunk: Json): string
  /** The rest of the stream, with the usage that is charged. */
  end(usage: TokenUsage): string
}

/** From and to the common form, a chat completion with members of our own (`common-form/README.md`). */
export interface Translation {
  /** What the format calls members of the common form, where that is another name. */
  readonly ownNames?: MemberNames
  /** What has no form is a fault, or it is named among the omissions. */
  requestToCommon(request: GivenRequest, omissions: Omissions): Result.Result<Json, ReadonlyArray<Fault>>
  requestFromCommon(
    chat: Json,
    target: FormatTarget,
    limits: SentLimits,
    omissions: Omissions
  ): Result.Result<Json, ReadonlyArray<Fault>>
  answerToCommon(answer: Json, head: AnswerHead): Json
  /** With the usage that is charged. */
  answerFromCommon(completion: Json, head: AnswerHead, usage: TokenUsage): Json
  streamToCommon(head: AnswerHead): CommonReader
  /** `includesUsage`: whether the caller asked for the usage. */
  streamFromCommon(head: AnswerHead, includesUsage: boolean): CommonWriter
}

/** What the reader of a stream tells as it reads. */
export interface StreamProgress {
  /** What the model wrote. */
  say(words: ReadonlyArray<string>): void
  /** Output of so many bytes that is no text. */
  hear(bytes: number): void
  /** A choice that has ended, with the provider's reason. */
  finish(reason: string, choice: number): void
  describe(of: { readonly id?: unknown; readonly model?: unknown }): void
  /** A report of the usage; `isUpToDate` unless it does not count the output so far. */
  report(usage: TokenUsage | undefined, isUpToDate: boolean): void
  /** The provider's own error. */
  failed(error: DialectError): void
  readonly hasFailed: boolean
  /** Whether an event had content, a usage or an error. */
  readonly holdsAnything: boolean
  /** The usage that was reported so far. */
  readonly usage: TokenUsage | undefined
}

/** How events become the bytes that a caller asked for. */
export interface Unframing {
  readonly contentType: string
  /** The bytes that an event has; undefined if it has none. */
  bytesIn(value: unknown): Uint8Array | undefined
  /** Whether an event is an error, which the bytes have no place for. */
  hasFailed(value: unknown): boolean
}

/** How a stream is passed on to a caller of its own format. */
export interface StreamTerms {
  readonly head: AnswerHead
  /** Whether the caller asked for the usage, which the gateway always asks for. */
  readonly includesUsage: boolean
  readonly rename?: Renaming | undefined
}

/** Reads the events of a provider's stream, and passes them on to a caller of the same format. */
export interface StreamReader {
  /** Whether events are rewritten for a caller of the same format, and not passed on as bytes. */
  readonly rewrites: boolean
  /** Choices that have begun and not ended. */
  readonly isOpen: boolean
  /** Whether something has to come before a terminator, which is held back until then. */
  readonly holdsTerminator: boolean
  /** Whether a terminator such as `[DONE]` ends a stream, or means nothing in it. */
  readonly endsByTerminator: boolean
  /** Whether an event is only a sign of life. */
  isKeepAlive?(value: unknown, event: ServerEvent): boolean
  /** Reads an event; answers with the text for a caller of the same format, where events are rewritten. */
  take(value: unknown, event: ServerEvent): string
  /** The text of a terminator that is passed on, where events are rewritten. */
  terminator(event: ServerEvent): string
  /** What a stream that has ended still lacks for its caller. `isHeldBack`: its terminator was not passed on. */
  closing(usage: TokenUsage, isDone: boolean, isHeldBack: boolean): string
  /** The event that ends a stream which broke off, where it is not that of `writeError`. */
  failure?(error: DialectError): string
}

/** Assembles a stream into the whole answer that was asked for. */
export interface Gathering {
  take(value: Json, event: ServerEvent): void
  /** Whether a terminator such as `[DONE]` ends the stream, or means nothing in it. */
  readonly endsByTerminator: boolean
  /** Whether the last event has arrived. */
  readonly done: boolean
  /** Whether the model reported its end. */
  readonly isFinished: boolean
  readonly failure: DialectError | undefined
  /** What there is of the answer. */
  whole(): Json
}

/** How a provider counts the tokens of requests of a format, which is free. */
export interface Counting {
  /** The format of a request for a count. */
  readonly format: WireFormat
  /** The list that grows with a conversation. */
  readonly list: string
  /** The other members that are counted. */
  readonly members: ReadonlyArray<string>
  /** Members that add nothing to what the model reads. A request with any other member is not counted. */
  readonly idle: ReadonlyArray<string>
  /** A request in the names of these members; undefined where a count does not cover it. */
  read?(body: Json): Json | undefined
  /** A request for a count of the members that are counted. */
  request(counted: Json, model: string): Json
  /** The tokens that an answer tells; none if it tells none. */
  tokensIn(answer: Json): number
}

/** A wire format: all that the gateway knows about the requests and answers of an API. */
export interface WireFormat {
  /** The vendor's family of APIs, which a provider speaks. */
  readonly dialect: Dialect
  readonly operation: Operation
  readonly api: ProviderApi
  /** Whether providers of the dialect take it; every call in another one is translated. */
  readonly isSpoken?: boolean
  /** Where a provider takes a request for its model, below its base URL, which ends as the vendor's SDK has it. */
  pathOf(model: string, streams: boolean): string
  /** The path of the base URL that it is below, by the one that is configured; that one unless given. */
  baseOf?(base: string): string
  /** Where the gateway takes it, and what a caller needs for it; undefined where a service of its own serves it. */
  readonly route?: { readonly path: `/${string}`; readonly capability: "llm:complete" | "llm:embed" }
  readonly modelKind: ModelKind
  /** The model of a request without one, where the API has a usual one. */
  readonly usualModel?: string
  /** Whether a request is to be counted, and not answered. */
  readonly isCount: boolean
  /** The answer to a request for a count, where the gateway counts. */
  counted?(tokens: number): Json
  /** Whether tokens are estimated where no provider counts them. */
  readonly estimates?: boolean
  readonly hasOutput: boolean
  /**
   * Whether an answer costs what it would as a whole however much of it arrives, as where its provider makes it before it sends
   * it: without a usage it is charged as it was bounded, as tokens of a medium where it has one.
   */
  readonly chargesBound?: { readonly medium?: Medium }
  /** Whether answers are bytes of any kind, or events, and are passed on as they arrive whatever a request says. */
  readonly answersBytes?: boolean
  /** The output of a request without a limit, where the API has a usual one. */
  readonly usualOutputTokens?: number
  /** What ids of answers begin with. */
  readonly idPrefix: string
  /** A sign of life for callers, so that no proxy or client times out. */
  readonly keepAlive: string

  // Requests.

  /** What the forms have, where requests are forms and no JSON; `edit` writes what `body` has of one. */
  readonly form?: FormShape & {
    /** The fields that change for a target: to a text, or to nothing. */
    changes(body: Json, target: FormatTarget): Readonly<Record<string, string | null>>
  }
  /** The faults of the members that metering reads. */
  faults(body: Json): ReadonlyArray<Fault>
  unserved?(body: Json): Unserved | undefined
  /** The members that metering reads, in small letters: the same in other letters are faults, since some provider reads them. */
  readonly metered: ReadonlySet<string>
  /** The header that a member with betas belongs in; undefined where the API has none. */
  betaHeader?(member: string): string
  /** The most that it may cost, in tokens, of which each has at least one byte at any provider. */
  bound(body: Json, terms: BoundTerms): TokenUpperBound
  /** The same format for a target: edits of the bytes, everything else equal. */
  edit(request: GivenRequest, target: FormatTarget, limits: SentLimits): string | Uint8Array
  idScope(body: Json): IdScope
  /** What names the session of a request, in a format that has a member of its own for that. */
  sessionIn?(body: Json): unknown
  /** Whether a request asks for the model's thoughts, in a format that has them only then. */
  asksForThoughts?(body: Json): boolean
  /** Whether a request for a stream asks for the usage, in a format that has it only then. */
  asksForUsage?(body: Json): boolean
  /** As far as calls of the format are translated for other providers, and those of other formats for its providers. */
  readonly translation?: Partial<Translation>
  readonly counting?: Counting

  // Answers.

  /** Whether a whole answer may have more values than are looked through: vectors have millions. */
  readonly isVast?: boolean
  usageIn(value: unknown): TokenUsage | undefined
  /** What an answer or an event reports in other units than tokens, where the API has some; undefined if nothing. */
  unitsIn?(value: unknown, request: Json): UsageUnits | undefined
  /** What an answer or an event names of how it was served; undefined if nothing. */
  servedIn(value: unknown, headers: Readonly<Record<string, string>>): ServedNames | undefined
  /** Whether a whole answer has content: a text, a call, an image, or vectors. */
  hasContent(answer: unknown): boolean
  /** Whether it holds anything: content, or a usage with the reason why the model said nothing. */
  holdsAnything(answer: unknown): boolean
  /** Whether an event tells anything: content in any form, a usage, or an error. */
  tells(value: unknown): boolean
  /** The error in an answer, or in an event that ends a stream, that was sent with a successful status. */
  failureIn?(value: unknown): Json | undefined
  /** Whether an event ends its stream, where the API has one that does; `[DONE]` is read apart. */
  isLast?(value: unknown, event: ServerEvent): boolean
  /** What the model wrote in a whole answer; undefined if it cannot be found. */
  wordsIn(answer: Json): ReadonlyArray<unknown> | undefined
  /** Writes what a provider's answers have that clients of the format do not read; undefined where they pass as they are. */
  rewriting?(target: FormatTarget): Renaming | undefined
  /** The media type of a whole answer, where it is no JSON. */
  mediaType?(request: Json): string | undefined
  /** A whole answer for a caller of the same format. */
  pass(given: Uint8Array, answer: Json, request: Json, rename: Renaming | undefined): Uint8Array
  reader(progress: StreamProgress, terms: StreamTerms): StreamReader
  /** How events become bytes, where a request asks for bytes. */
  unframed?(request: Json): Unframing | undefined
  gathering(): Gathering
  /** The stream of a whole answer; `usage` where the caller asked for it. Undefined if it cannot be read. */
  streamed(answer: string, usage: TokenUsage | undefined): string | undefined
}

/** A model as lists show it. */
export interface ShownModel {
  readonly id: string
  readonly kind: ModelKind
  readonly contextTokens: number | null
  readonly maxOutputTokens: number | null
  readonly targets: ReadonlyArray<{ readonly provider: { readonly id: string } }>
}

/** A model as its provider lists it. */
export interface ProviderModel {
  readonly id: string
  readonly ownedBy: string | null
  readonly createdAt: Date | null
}

/** A request of a client, as far as it tells whose client it is. */
export interface ClientRequest {
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly url: string
}

/** The formats of a vendor: how its providers are called, and what its clients expect besides the answers of calls. */
export interface VendorDialect {
  readonly dialect: Dialect
  /** What calls in formats of other dialects are translated to. */
  readonly chat: WireFormat
  /** What they are translated to for models that have no `chat`, in the order of preference. */
  readonly otherChats?: ReadonlyArray<WireFormat>
  readonly embeddings?: WireFormat
  /** Whether what is written into a prompt cache costs more than other input, where no price says what it costs. */
  readonly cacheWritesCostMore?: boolean
  /** Tools of the provider that another format can ask for in a translation. */
  readonly translatesTools: boolean
  /** The APIs that its providers may have, and those that they have unless the configuration says otherwise. */
  readonly apis: ReadonlySet<ProviderApi>
  readonly usualApis: ReadonlySet<ProviderApi>
  /** Where stored responses are, if its providers store any. */
  readonly storedPath?: string
  readonly modelsPath: string
  /** The models of a provider, as its list has them; undefined if it is none. */
  modelsIn(list: unknown): ReadonlyArray<ProviderModel> | undefined
  readonly headers: Readonly<Record<string, string>>
  authorize(apiKey: string): Readonly<Record<string, string>>
  /** Reads an error of a provider where more is in it than OpenAI's and Anthropic's have. */
  readError?(status: number, body: unknown): ProviderError

  // Clients.

  readonly errors: ErrorWriter
  /** Whether a request on a path that several vendors have is of one of its clients. */
  isClient(request: ClientRequest): boolean
  /** The page of models that a URL asks for, or what is wrong with that. */
  models(models: ReadonlyArray<ShownModel>, url: string): Result.Result<object, Fault>
  model(model: ShownModel): object
}
