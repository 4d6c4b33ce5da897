import { Schema } from "effect"
import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { anything, list, members, object, place, type Reader, text } from "../../../kernel/json/readers.ts"
import { type Fault } from "../../../kernel/problems/problem.ts"

/** Members that hold names of the caller's own, which are no names of Gemini's. */
const opaque: ReadonlySet<string> = new Set(
  ["args", "response", "parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema"].concat([
    "labels",
    "partMetadata"
  ])
)

/** Lists that Google also takes as their one element. */
const lists: ReadonlySet<string> = new Set(["contents", "parts", "tools", "functionDeclarations", "requests"])

/** Nothing that Gemini defines is nested so deeply. */
const deepest = 32

const camelCase = (name: string): string =>
  name.includes("_") ? name.replaceAll(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()) : name

/**
 * A request or an answer with all names in camel case, since Google takes each in snake case as well, and with one element
 * as a list. A member that is given under both names is a fault: a provider may read the other one.
 */
export const camelCased = (value: unknown, faults: Array<Fault> = [], at: Fault["path"] = []): unknown => {
  if (at.length > deepest) return value
  if (Array.isArray(value)) {
    const read = value.map((one, index) => camelCased(one, faults, [...at, index]))
    return read.some((one, index) => one !== value[index]) ? read : value
  }
  if (!isJson(value)) return value
  const read: Record<string, unknown> = {}
  let isSame = true
  for (const [given, member] of Object.entries(value)) {
    const name = camelCase(given)
    const path = [...at, name]
    if (Object.hasOwn(read, name)) faults.push({ path, message: "Given in camel case and in snake case" })
    const inner = opaque.has(name) ? member : camelCased(member, faults, path)
    const whole = lists.has(name) && isJson(inner) ? [inner] : inner
    isSame &&= name === given && whole === member
    // An own member, even if its name is that of an object's prototype.
    Object.defineProperty(read, name, { value: whole, enumerable: true, writable: true, configurable: true })
  }
  return isSame ? value : read
}

const optional = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))
const anyObject = Schema.Record(Schema.String, Schema.Unknown)

/** A whole number; Google takes it as text, too. */
const Whole = Schema.Union([Schema.Int, Schema.String.pipe(Schema.check(Schema.isPattern(/^-?\d{1,10}$/)))])

export const InlineData = Schema.Struct({
  mimeType: optional(Schema.String),
  data: optional(Schema.String),
  displayName: optional(Schema.String)
})
export type InlineData = typeof InlineData.Type

const FunctionResponse = Schema.Struct({
  id: optional(Schema.String),
  name: optional(Schema.String),
  response: optional(anyObject),
  parts: optional(
    Schema.Array(Schema.Struct({ inlineData: optional(InlineData), fileData: Schema.optionalKey(Schema.Unknown) }))
  )
})

/** A part of a content. Of the kinds that are not translated only the presence is read. */
export const Part = Schema.Struct({
  text: optional(Schema.String),
  thought: optional(Schema.Boolean),
  thoughtSignature: optional(Schema.String),
  inlineData: optional(InlineData),
  fileData: Schema.optionalKey(Schema.Unknown),
  functionCall: optional(
    Schema.Struct({ id: optional(Schema.String), name: Schema.String, args: optional(anyObject) })
  ),
  functionResponse: optional(FunctionResponse),
  executableCode: Schema.optionalKey(Schema.Unknown),
  codeExecutionResult: Schema.optionalKey(Schema.Unknown),
  toolCall: Schema.optionalKey(Schema.Unknown),
  toolResponse: Schema.optionalKey(Schema.Unknown),
  videoMetadata: Schema.optionalKey(Schema.Unknown),
  mediaResolution: Schema.optionalKey(Schema.Unknown)
})
export type Part = typeof Part.Type

export const Content = Schema.Struct({ role: optional(Schema.String), parts: optional(Schema.Array(Part)) })
export type Content = typeof Content.Type

const FunctionDeclaration = Schema.Struct({
  name: Schema.String,
  description: optional(Schema.String),
  parameters: optional(anyObject),
  parametersJsonSchema: optional(anyObject)
})

/** A set of tools: functions, beside members that each name a tool of Google's. */
export const Tool = Schema.StructWithRest(
  Schema.Struct({ functionDeclarations: optional(Schema.Array(FunctionDeclaration)) }),
  [anyObject]
)

export const ThinkingConfig = Schema.Struct({
  includeThoughts: optional(Schema.Boolean),
  thinkingBudget: optional(Whole),
  thinkingLevel: optional(Schema.String)
})
export type ThinkingConfig = typeof ThinkingConfig.Type

export const GenerationConfig = Schema.Struct({
  temperature: optional(Schema.Finite),
  topP: optional(Schema.Finite),
  maxOutputTokens: optional(Whole),
  candidateCount: optional(Whole),
  stopSequences: optional(Schema.Array(Schema.String)),
  seed: optional(Whole),
  presencePenalty: optional(Schema.Finite),
  frequencyPenalty: optional(Schema.Finite),
  responseMimeType: optional(Schema.String),
  responseSchema: optional(anyObject),
  responseJsonSchema: optional(anyObject),
  responseModalities: optional(Schema.Array(Schema.String)),
  responseLogprobs: optional(Schema.Boolean),
  responseFormat: Schema.optionalKey(Schema.Unknown),
  routingConfig: Schema.optionalKey(Schema.Unknown),
  modelSelectionConfig: Schema.optionalKey(Schema.Unknown),
  thinkingConfig: optional(ThinkingConfig)
})
export type GenerationConfig = typeof GenerationConfig.Type

/** A request to generate content, in camel case, limited to the members that translation reads; others are ignored. */
export const GenerateRequest = Schema.Struct({
  contents: Schema.Array(Content).pipe(Schema.check(Schema.isMinLength(1))),
  systemInstruction: optional(Schema.Union([Content, Schema.String])),
  tools: optional(Schema.Array(Tool)),
  toolConfig: optional(
    Schema.Struct({
      functionCallingConfig: optional(
        Schema.Struct({ mode: optional(Schema.String), allowedFunctionNames: optional(Schema.Array(Schema.String)) })
      )
    })
  ),
  generationConfig: optional(GenerationConfig),
  cachedContent: optional(Schema.String)
})
export type GenerateRequest = typeof GenerateRequest.Type

const isTrue: Reader<true> = (value) => (value === true ? true : undefined)

const answeredPart = members({
  text,
  thought: isTrue,
  thoughtSignature: text,
  functionCall: members({ id: text, name: text, args: object }),
  inlineData: object,
  fileData: object,
  executableCode: object,
  codeExecutionResult: object,
  toolCall: object
})
export type AnsweredPart = NonNullable<ReturnType<typeof answeredPart>>

const answerMembers = members({
  responseId: text,
  modelVersion: text,
  candidates: list(
    members({
      index: place,
      content: members({ parts: list(answeredPart) }),
      finishReason: text,
      groundingMetadata: members({ webSearchQueries: list(text) })
    })
  ),
  promptFeedback: members({ blockReason: text }),
  usageMetadata: object,
  error: anything
})

/** An answer, or an element of a streamed one. It is read member by member: what translation does not know fails none. */
export const readAnswer: typeof answerMembers = (value) => answerMembers(camelCased(value))
export type Answer = NonNullable<ReturnType<typeof readAnswer>>
export type GeminiCandidate = NonNullable<Answer["candidates"]>[number]

/** The parts of a candidate. */
export const partsOf = (candidate: GeminiCandidate): ReadonlyArray<AnsweredPart> => candidate.content?.parts ?? []

/** A request's members in camel case, and what is given twice. */
export const camelCasedRequest = (body: Json): { readonly body: Json; readonly faults: ReadonlyArray<Fault> } => {
  const faults: Array<Fault> = []
  const read = camelCased(body, faults)
  return { body: isJson(read) ? read : body, faults }
}
