import { isJson, type Json, listIn, parsedJson } from "../../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../../kernel/utf8.ts"
import { type Dialect, type ProviderApi } from "../../formats/domain.ts"
import { type ProviderModel, type WireFormat } from "../../formats/format.ts"
import { geminiEmbed } from "../../formats/gemini-embeddings/format.ts"
import { camelCasedRequest } from "../../formats/gemini/domain.ts"
import { count, member } from "../../formats/usage.ts"
import { edited, editsAt } from "../../json/json-edits.ts"
import { type Platform, type PlatformRequest } from "../platform.ts"
import { type ProviderAnswer } from "../provider.ts"

/** Where models of Vertex AI are used. */
export interface VertexPlace {
  readonly project: string
  /** `global`, a multi-region (`us`, `eu`), or a region. */
  readonly location: string
  readonly apiVersion: string
}

const hostForm = /^(?:aiplatform\.(us|eu)\.rep|([a-z]+(?:-[a-z]+)+\d+)-aiplatform)\.googleapis\.com$/

/** The location that a host of Vertex AI serves; undefined for any other host. */
export const vertexLocation = (baseUrl: string): string | undefined => {
  const host = URL.parse(baseUrl)?.hostname ?? ""
  if (host === "aiplatform.googleapis.com") return "global"
  const [, multiRegion, region] = hostForm.exec(host) ?? []
  return multiRegion ?? region
}

/** The base URL of a location. */
export const vertexBaseUrl = (location: string): string => {
  if (location === "global") return "https://aiplatform.googleapis.com"
  return location === "us" || location === "eu"
    ? `https://aiplatform.${location}.rep.googleapis.com`
    : `https://${location}-aiplatform.googleapis.com`
}

type Given = Parameters<Platform["request"]>[3]
type ToPlatform = (
  place: string,
  format: WireFormat,
  model: string,
  streams: boolean,
  request: Given
) => PlatformRequest | undefined

const utf8 = new TextEncoder()
const bytesOf = (body: Given["body"]): Uint8Array => (typeof body === "string" ? utf8.encode(body) : body)
const bodyOf = (body: Given["body"]): Json => {
  const value = parsedJson(typeof body === "string" ? body : utf8Text(body))
  return isJson(value) ? value : {}
}

/** A body without these members and with others, which come first; the rest stays byte for byte. It has more members than those. */
const replaced = (body: Given["body"], removed: ReadonlyArray<string>, added: Json): Uint8Array => {
  const bytes = bytesOf(body)
  const start = bytes.indexOf(0x7b) + 1
  const text = Object.keys(added).length === 0 ? "" : `${JSON.stringify(added).slice(1, -1)},`
  const cuts = editsAt(
    bytes,
    removed.map((name) => ({ path: [name], text: undefined }))
  )
  return edited(bytes, [{ start, end: start, text }, ...cuts])
}

/** `@` begins the version of a model's name, and stays as Google writes it. */
const segment = (text: string): string => encodeURIComponent(text).replaceAll("%40", "@")

/**
 * Where a model is: of the dialect's own publisher, or a tuned one's endpoint (`endpoints/…`), or another publisher's
 * (`publishers/…/models/…`). Undefined for a name that leads elsewhere.
 */
const modelPlace = (publisher: string, model: string): string | undefined => {
  const segments = model.replace(/^models\//, "").split("/")
  if (segments.some((one) => /^\.{0,2}$/.test(one))) return undefined
  const path = segments.map(segment).join("/")
  if (segments.length === 1) return `publishers/${publisher}/models/${path}`
  return /^(?:endpoints\/[^/]+|publishers\/[^/]+\/models\/[^/]+)$/.test(path) ? path : undefined
}

const countedMembers = ["contents", "systemInstruction", "system_instruction", "tools"].concat([
  "generationConfig",
  "generation_config"
])

/** A request for a count has the members of the counted one itself, and no others (`CountTokensRequest`). */
const countRequest = (body: Given["body"]): string => {
  const given = bodyOf(body)
  const { generateContentRequest: whole = given.generate_content_request } = given
  const counted = isJson(whole) ? whole : given
  return JSON.stringify(
    Object.fromEntries(countedMembers.flatMap((name) => (counted[name] === undefined ? [] : [[name, counted[name]]])))
  )
}

const toGemini: ToPlatform = (place, format, model, streams, { body, headers }) => {
  const at = modelPlace("google", model)
  if (at === undefined) return undefined
  if (format.api === "embeddings") {
    const request = embedRequest(bodyOf(body), model)
    return request && { headers, path: `${place}/${at}:${request.method}`, body: JSON.stringify(request.body) }
  }
  if (format.api !== "chat") return undefined
  const method = format.isCount ? "countTokens" : streams ? "streamGenerateContent?alt=sse" : "generateContent"
  return {
    headers,
    path: `${place}/${at}:${method}`,
    body: format.isCount ? countRequest(body) : replaced(body, ["model"], {})
  }
}

/** Models of vectors with Gemini's method, which takes one content; those before take texts by the general method. */
const embedsContent = /gemini(?!-embedding-001$)|maas/

const textOf = (content: unknown): string | undefined => {
  const parts = isJson(content) ? listIn(content.parts) : []
  const texts = parts.map((part) => (isJson(part) && typeof part.text === "string" ? part.text : undefined))
  return texts.length === 0 || texts.includes(undefined) ? undefined : texts.join("\n")
}

const withoutUndefined = (given: Json): Json =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))

/** A request for vectors, of one or several contents; undefined for what the model's method has no form for. */
const embedRequest = (given: Json, model: string): { readonly method: string; readonly body: Json } | undefined => {
  const requests = (Array.isArray(given.requests) ? listIn(given.requests) : [given])
    .map((one) => camelCasedRequest(isJson(one) ? one : {}).body)
    .map(({ content, outputDimensionality, taskType, title }) => ({ content, outputDimensionality, taskType, title }))
  const [first = { content: undefined, outputDimensionality: undefined, taskType: undefined, title: undefined }] =
    requests
  const { content, ...config } = first
  if (embedsContent.test(model)) {
    return requests.length === 1
      ? { method: "embedContent", body: { content, embedContentConfig: withoutUndefined(config) } }
      : undefined
  }
  const { outputDimensionality } = config
  const instances = requests.map(({ content, taskType, title }) =>
    withoutUndefined({ content: textOf(content), task_type: taskType, title })
  )
  const isServed = requests.every(
    (one, index) => one.outputDimensionality === outputDimensionality && instances[index]?.content !== undefined
  )
  return isServed
    ? { method: "predict", body: { instances, parameters: withoutUndefined({ outputDimensionality }) } }
    : undefined
}

/** Vectors as Gemini's API answers them, with the tokens that were read. */
const embedAnswer = (given: Json, format: WireFormat): Json => {
  const { embedding, predictions, usageMetadata } = given
  const vectors =
    predictions === undefined
      ? [embedding]
      : listIn(predictions).map((one) => (isJson(one) && isJson(one.embeddings) ? one.embeddings : {}))
  const read = vectors.reduce((sum: number, one) => sum + count(member(member(one, "statistics"), "token_count")), 0)
  const values = vectors.map((one) => ({ values: isJson(one) ? one.values : [] }))
  return {
    ...(format === geminiEmbed ? { embedding: values[0] } : { embeddings: values }),
    usageMetadata: predictions === undefined ? usageMetadata : { promptTokenCount: read }
  }
}

/**
 * The first version of Anthropic's API has a name of its own at Google (Anthropic, "Claude on Vertex AI"); later ones keep
 * theirs, as Anthropic's SDK sends them.
 */
const firstVersion = "2023-06-01"
const firstVersionHere = "vertex-2023-10-16"
const countModel = "count-tokens"

const toAnthropic: ToPlatform = (place, format, model, streams, { body, headers }) => {
  const { "anthropic-version": asked = firstVersion, ...others } = headers
  const at = modelPlace("anthropic", format.isCount ? countModel : model)
  if (at === undefined) return undefined
  const version = { anthropic_version: asked === firstVersion ? firstVersionHere : asked }
  return {
    headers: others,
    path: `${place}/${at}:${streams ? "streamRawPredict" : "rawPredict"}`,
    body: replaced(body, ["anthropic_version", ...(format.isCount ? [] : ["model"])], version)
  }
}

const toOpenAi: ToPlatform = (place, format, model, _, { body, headers }) =>
  format.api === "chat"
    ? {
        headers,
        path: `${place}/endpoints/openapi/chat/completions`,
        body: replaced(body, ["model"], { model: model.includes("/") ? model : `google/${model}` })
      }
    : undefined

interface Spoken {
  /** Whose models it lists. */
  readonly publisher: string
  readonly apis: ReadonlySet<ProviderApi>
  readonly to: ToPlatform
}

const dialects: Readonly<Record<Dialect, Spoken>> = {
  gemini: { publisher: "google", apis: new Set(["chat", "embeddings"]), to: toGemini },
  anthropic: { publisher: "anthropic", apis: new Set(["chat"]), to: toAnthropic },
  openai: { publisher: "google", apis: new Set(["chat"]), to: toOpenAi }
}

/** An answer as the vendor gives it: vectors in its form, and Google's own errors, which may be in an array. */
const vendorAnswer = (answer: ProviderAnswer, format: WireFormat): ProviderAnswer => {
  if (!(answer.body instanceof Uint8Array)) return answer
  if (answer.status < 400) {
    const value = format.api === "embeddings" ? parsedJson(utf8Text(answer.body)) : undefined
    return isJson(value) ? { ...answer, body: utf8.encode(JSON.stringify(embedAnswer(value, format))) } : answer
  }
  const [first, ...more] = listIn(parsedJson(utf8Text(answer.body)))
  return first === undefined || more.length > 0 ? answer : { ...answer, body: utf8.encode(JSON.stringify(first)) }
}

/** The models of a publisher (Vertex AI, "publishers.models.list"). */
const publisherModels = (list: unknown): ReadonlyArray<ProviderModel> | undefined => {
  if (!isJson(list)) return undefined
  return listIn(list.publisherModels ?? []).flatMap((one) => {
    const [, publisher = "", id] = /^publishers\/([^/]+)\/models\/(.+)$/.exec(isJson(one) ? `${one.name}` : "") ?? []
    return id === undefined ? [] : [{ id, ownedBy: publisher, createdAt: null }]
  })
}

/**
 * Vertex AI (Google Cloud, "Vertex AI API", "Anthropic's Claude models", "Using OpenAI libraries with Vertex AI"): models
 * are parts of the paths below a project and a location.
 */
export const vertexPlatform = (dialect: Dialect, { apiVersion, location, project }: VertexPlace): Platform => {
  const { apis, publisher, to } = dialects[dialect]
  const place = `/${apiVersion}/projects/${encodeURIComponent(project)}/locations/${location}`
  return {
    request: (format, model, streams, request) => to(place, format, model, streams, request),
    apis,
    answer: vendorAnswer,
    headers: {},
    modelsPath: `/v1beta1/publishers/${publisher}/models?pageSize=1000`,
    modelsIn: publisherModels
  }
}
