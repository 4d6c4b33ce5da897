import { isJson, listIn, textIn, type Json } from "../../../kernel/json/parsed-json.ts"
import { type Fault } from "../../../kernel/problems/problem.ts"
import { messagesTools } from "../anthropic-messages/tools.ts"
import { maxMessages } from "../domain.ts"
import { type ToolTerms } from "../provider-tools.ts"
import { askedIn } from "../served-domain.ts"
import {
  asksForText,
  BoundWalk,
  escapedBytes,
  perImage,
  perMessage,
  perRequest,
  perRestoredId,
  perRestoredResult,
  perTool,
  positive,
  type TokenUpperBound,
  withTools
} from "../token-upper-bound.ts"
import { camelCasedRequest } from "./domain.ts"

type Path = Fault["path"]

const names = (...list: ReadonlyArray<string>): ReadonlySet<string> => new Set(list)

/** Members whose cost is that of the request's bytes and of the answer; any other one may have Google read or run something. */
const requestMembers = names(
  "contents",
  "systemInstruction",
  "tools",
  "toolConfig",
  "safetySettings",
  "generationConfig",
  "labels",
  "model",
  "serviceTier",
  "store"
)

const partMembers = names(
  "text",
  "thought",
  "thoughtSignature",
  "functionCall",
  "functionResponse",
  "inlineData",
  "fileData",
  "executableCode",
  "codeExecutionResult",
  "mediaResolution",
  "videoMetadata",
  "partMetadata"
)

const configMembers = names(
  "temperature",
  "topP",
  "topK",
  "maxOutputTokens",
  "candidateCount",
  "stopSequences",
  "seed",
  "presencePenalty",
  "frequencyPenalty",
  "responseMimeType",
  "responseSchema",
  "responseJsonSchema",
  "responseFormat",
  "responseModalities",
  "responseLogprobs",
  "logprobs",
  "mediaResolution",
  "thinkingConfig",
  "enableEnhancedCivicAnswers",
  "audioTimestamp"
)

/** Tiers that cost no more than the model's prices. */
const freeTiers: ReadonlySet<unknown> = new Set(["", "unspecified", "standard", "flex"])

/** Types whose tokens cost what a text's do. */
const boundType = /^image\/|^application\/pdf$|^text\//

const isAbsent = (value: unknown): boolean =>
  (value ?? "") === "" || (typeof value === "object" && Object.keys(value ?? {}).length === 0)

/** A whole number, which Google takes as text, too. */
const whole = (value: unknown): number | undefined =>
  positive(typeof value === "string" && /^\d{1,10}$/.test(value) ? Number(value) : value)

class ContentWalk extends BoundWalk {
  /** What is beside the members that are known. */
  others(body: Json, known: ReadonlySet<string>, at: Path): void {
    for (const name in body) {
      if (known.has(name) || isAbsent(body[name])) continue
      this.refuse([...at, name], "A member that may have the provider read or run something has no bound")
    }
  }

  content(content: unknown, at: Path): void {
    for (const [index, part] of listIn(isJson(content) ? content.parts : undefined).entries()) {
      if (isJson(part)) this.part(part, [...at, "parts", index])
    }
  }

  private part(part: Json, at: Path): void {
    this.others(part, partMembers, at)
    if (isJson(part.inlineData)) this.inline(part.inlineData, [...at, "inlineData"])
    if (isJson(part.fileData)) this.file(part.fileData, [...at, "fileData"])
    const { functionCall: call, functionResponse: result } = part
    // Calls and results get ids, calls without a result get one, and arguments may be written again, where another API is asked.
    if (isJson(call)) this.tokens += Buffer.byteLength(textIn(call.id)) + perRestoredResult + escapedBytes(call.args)
    if (isJson(result)) this.tokens += perRestoredId + escapedBytes(result.response)
    for (const [index, inner] of listIn(isJson(result) ? result.parts : undefined).entries()) {
      const place = [...at, "functionResponse", "parts", index]
      if (isJson(inner) && isJson(inner.inlineData)) this.inline(inner.inlineData, [...place, "inlineData"])
      if (isJson(inner) && isJson(inner.fileData)) this.file(inner.fileData, [...place, "fileData"])
    }
  }

  private inline({ data, mimeType }: Json, at: Path): void {
    const type = textIn(mimeType).toLowerCase()
    if (!boundType.test(type)) return this.refuse(at, "Only images, PDFs and texts have a bound")
    if (type.startsWith("text/")) return this.document(`data:${type};base64,${textIn(data)}`, at)
    this.imageOf({ type: "base64", media_type: type, data: textIn(data) }, at)
  }

  private file({ mimeType }: Json, at: Path): void {
    if (!boundType.test(textIn(mimeType).toLowerCase())) {
      return this.refuse(at, "Only images, PDFs and texts have a bound; name the file's mimeType")
    }
    // Google fetches addresses of the web, too.
    this.remotely(at, "fetched")
  }

  /** Functions run at the caller. How often Google runs a tool of its own has no limit. */
  tools(tools: ReadonlyArray<unknown>): number {
    let functions = 0
    for (const [index, tool] of tools.entries()) {
      if (!isJson(tool)) continue
      functions += listIn(tool.functionDeclarations).length
      this.tokens += escapedBytes(tool.functionDeclarations)
      for (const name in tool) {
        // A tool is asked for by an empty object.
        if (name === "functionDeclarations" || (tool[name] ?? null) === null) continue
        this.refuse(["tools", index, name], "A tool that Google runs, as often as its model decides, has no bound")
      }
    }
    return functions === 0 ? 0 : withTools + perTool * functions
  }

  config(config: Json): void {
    const at = ["generationConfig"]
    this.others(config, configMembers, at)
    this.modalities(config.responseModalities, [...at, "responseModalities"])
  }
}

/**
 * The maximum usage of a request to generate content, or to count it. `bodyBytes` is the size of its JSON. Thoughts count
 * to the output limit, unless they have a larger budget of their own.
 */
export const generateBound = (
  given: Json,
  bodyBytes: number,
  imageTokens: number = perImage,
  contextTokens: number | null = null,
  terms: ToolTerms = { models: [], mcpServers: [] }
): TokenUpperBound => {
  const { body } = camelCasedRequest(given)
  const walk = new ContentWalk(imageTokens)
  const contents = listIn(body.contents)
  for (const [index, content] of contents.entries()) walk.content(content, ["contents", index])
  walk.content(body.systemInstruction, ["systemInstruction"])
  walk.others(body, requestMembers, [])
  walk.service("serviceTier", body.serviceTier, freeTiers.has(textIn(body.serviceTier).toLowerCase()))
  const config = isJson(body.generationConfig) ? body.generationConfig : {}
  walk.config(config)
  const tools = walk.tools(listIn(body.tools))
  // Other providers have models that search by themselves.
  const { tools: searches, unbounded } = messagesTools({}, terms)
  for (const fault of unbounded) walk.unbounded.push(fault)
  const elsewhere = walk.requireContext(contextTokens, searches)
  const asked = whole(config.maxOutputTokens)
  const budget = isJson(config.thinkingConfig) ? (whole(config.thinkingConfig.thinkingBudget) ?? 0) : 0
  return {
    inputTokens: bodyBytes - walk.payloadBytes + walk.tokens + tools + perRequest + perMessage * contents.length,
    mediaTokens: walk.mediaTokens,
    elsewhere,
    extraOutputTokens: 0,
    choices: whole(config.candidateCount) ?? 1,
    tools: searches,
    askedOutputTokens: asked !== undefined && budget > asked ? asked + budget : asked,
    asksFor: askedIn(body),
    writesText: asksForText(config.responseModalities),
    unbounded: walk.unbounded
  }
}

/** The maximum usage of a request for embeddings, one or several, which has no output tokens. */
export const embedBound = (given: Json, bodyBytes: number): TokenUpperBound => {
  const { body } = camelCasedRequest(given)
  const walk = new ContentWalk(perImage)
  const requests = Array.isArray(body.requests) ? body.requests : [body]
  for (const [index, request] of requests.entries()) {
    const content = isJson(request) ? request.content : undefined
    const at = Array.isArray(body.requests) ? ["requests", index, "content"] : ["content"]
    for (const [place, part] of listIn(isJson(content) ? content.parts : undefined).entries()) {
      if (!isJson(part) || typeof part.text !== "string" || Object.keys(part).length > 1) {
        walk.refuse([...at, "parts", place], "An input that is no text has no bound")
      }
    }
  }
  return {
    mediaTokens: 0,
    inputTokens: bodyBytes + perRequest + requests.length,
    readsApart: requests.length > 1,
    extraOutputTokens: 0,
    choices: 1,
    askedOutputTokens: undefined,
    unbounded: walk.unbounded
  }
}

const maxOutputTokens = 2_147_483_647
const maxCandidates = 8

/**
 * The faults of a request to generate content, limited to the members that metering reads. What is stored with Google
 * costs by the hour outside of any call, so that none of it is used.
 */
export const generateFaults = (given: Json): ReadonlyArray<Fault> => {
  const { body, faults: twice } = camelCasedRequest(given)
  const faults = [...twice]
  const expect = (path: Path, isGood: boolean, expected: string) => {
    if (!isGood) faults.push({ path, message: `Expected ${expected}` })
  }
  const { cachedContent, contents, generationConfig: config, tools } = body
  expect(["contents"], Array.isArray(contents) && contents.length > 0, "a list of contents")
  expect(["contents"], listIn(contents).length <= maxMessages, `at most ${maxMessages} contents`)
  for (const [index, content] of listIn(contents).slice(0, maxMessages).entries()) {
    if (!isJson(content) || !Array.isArray(content.parts)) {
      faults.push({ path: ["contents", index], message: "Expected a content with parts" })
    }
  }
  expect(["tools"], (tools ?? null) === null || Array.isArray(tools), "a list of tools")
  expect(["generationConfig"], (config ?? null) === null || isJson(config), "an object")
  const limits = isJson(config) ? config : {}
  const expectWhole = (name: string, most: number) => {
    const value = limits[name] ?? null
    const isGood = value === null || (whole(value) ?? Infinity) <= most
    expect(["generationConfig", name], isGood, `a whole number from 1 to ${most}`)
  }
  expectWhole("maxOutputTokens", maxOutputTokens)
  expectWhole("candidateCount", maxCandidates)
  if (!isAbsent(cachedContent)) {
    faults.push({ path: ["cachedContent"], message: "Cached contents are not kept here; send all contents" })
  }
  return faults
}
