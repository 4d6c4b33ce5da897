import { Result, Schema } from "effect"
import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { list, members, object, type Reader } from "../../../kernel/json/readers.ts"
import { type Fault } from "../../../kernel/problems/problem.ts"
import { noUsage, type TokenUsage, type Untranslatable } from "../domain.ts"
import { camelCased, Content } from "../gemini/domain.ts"
import { modelNameOf } from "../gemini/paths.ts"
import { count, member } from "../usage.ts"

const optional = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

/** A request for one vector, in camel case; its kind of task has no counterpart elsewhere. */
export const EmbedRequest = Schema.Struct({
  content: Content,
  outputDimensionality: optional(Schema.Int)
})
export type EmbedRequest = typeof EmbedRequest.Type

/** A request for several vectors, in camel case. */
export const BatchEmbedRequest = Schema.Struct({
  requests: Schema.Array(EmbedRequest).pipe(Schema.check(Schema.isMinLength(1)))
})
export type BatchEmbedRequest = typeof BatchEmbedRequest.Type

/** Translates requests for vectors to one of OpenAI's; `path` is that of the list, if there is one. */
export const embedToCommon = (
  requests: ReadonlyArray<EmbedRequest>,
  target: { readonly model: string },
  path: Fault["path"] = []
): Result.Result<Json, Untranslatable> => {
  const faults: Array<Fault> = []
  const placeOf = (index: number) => (path.length === 0 ? [] : [...path, index])
  const dimensions = requests[0]?.outputDimensionality ?? undefined
  const input = requests.map(({ content, outputDimensionality }, index) => {
    if ((outputDimensionality ?? undefined) !== dimensions) {
      const message = "Expected the same for all requests of a batch"
      faults.push({ path: [...placeOf(index), "outputDimensionality"], message })
    }
    const parts = content.parts ?? []
    for (const [place, { text }] of parts.entries()) {
      if (typeof text === "string") continue
      faults.push({ path: [...placeOf(index), "content", "parts", place], message: "Only text is translated" })
    }
    return parts.map(({ text }) => text ?? "").join("\n")
  })
  return faults.length > 0
    ? Result.fail(faults)
    : Result.succeed({
        model: target.model,
        input,
        encoding_format: "float",
        ...(dimensions === undefined ? {} : { dimensions })
      })
}

const values: Reader<ReadonlyArray<number>> = (value) =>
  Array.isArray(value) && value.every((one) => typeof one === "number") ? value : undefined

const hubAnswer = members({ data: list(members({ embedding: values })), usage: object })

/** Translates OpenAI's vectors to those of one request, or of a batch. */
export const commonToEmbedAnswer = (answer: unknown, isBatch: boolean, usage: TokenUsage = noUsage): Json => {
  const vectors = (hubAnswer(answer)?.data ?? []).map(({ embedding }) => ({ values: embedding ?? [] }))
  const usageMetadata = { promptTokenCount: usage.inputTokens }
  return isBatch ? { embeddings: vectors, usageMetadata } : { embedding: vectors[0] ?? { values: [] }, usageMetadata }
}

/** OpenAI's request for vectors, limited to what is translated. */
export const CommonEmbedRequest = Schema.Struct({
  input: Schema.Union([Schema.String, Schema.Array(Schema.Unknown)]),
  dimensions: optional(Schema.Int)
})
export type CommonEmbedRequest = typeof CommonEmbedRequest.Type

/** Translates a request for vectors to a batch of Gemini's. */
export const commonToEmbed = (
  { dimensions, input }: CommonEmbedRequest,
  target: { readonly model: string }
): Result.Result<Json, Untranslatable> => {
  const texts = typeof input === "string" ? [input] : input
  const faults = texts.flatMap((text, index) =>
    typeof text === "string" ? [] : [{ path: ["input", index], message: "Only text is translated, and no tokens" }]
  )
  const model = `models/${modelNameOf(target.model)}`
  const dimensionality = typeof dimensions === "number" ? { outputDimensionality: dimensions } : {}
  const requests = texts.map((text) => Object.assign({ model, content: { parts: [{ text }] } }, dimensionality))
  return faults.length > 0 ? Result.fail(faults) : Result.succeed({ requests })
}

/** The tokens of vectors, where Google reports them; undefined otherwise. */
export const usageOfEmbedAnswer = (answer: unknown): TokenUsage | undefined => {
  const inputTokens = count(member(member(camelCased(answer), "usageMetadata"), "promptTokenCount"))
  return inputTokens === 0 ? undefined : { ...noUsage, inputTokens }
}

/** Translates Gemini's vectors, of one request or of a batch, to OpenAI's. */
export const embedAnswerToCommon = (given: unknown, model: string, usage: TokenUsage = noUsage): Json => {
  const answer = isJson(given) ? given : {}
  const vectors = isJson(answer.embedding) ? [answer.embedding] : listIn(answer.embeddings)
  return {
    object: "list",
    model,
    data: vectors.map((vector, index) => ({
      object: "embedding",
      index,
      embedding: values(member(vector, "values")) ?? []
    })),
    usage: { prompt_tokens: usage.inputTokens, total_tokens: usage.inputTokens }
  }
}
