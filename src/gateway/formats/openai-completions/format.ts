import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { edited, mergePatch } from "../../json/json-edits.ts"
import { messagesTools } from "../anthropic-messages/tools.ts"
import { type BoundTerms, type WireFormat } from "../format.ts"
import { completionMembers } from "../openai-chat/bounded-members.ts"
import { openAiChat } from "../openai-chat/format.ts"
import { ChunkReader } from "../openai-chat/stream.ts"
import { type Unbounded } from "../provider-tools.ts"
import { Faults, isTexts, maxChoices } from "../request-faults.ts"
import { cacheKeyChange, serviceChanges } from "../sent-changes.ts"
import { askedIn } from "../served-domain.ts"
import { BoundWalk, perMessage, perRequest, positive, type TokenUpperBound } from "../token-upper-bound.ts"

/** The maximum usage of a text completion: each prompt has its choices. */
const bound = (body: Json, terms: BoundTerms): TokenUpperBound => {
  const prompts = listIn(body.prompt)
  const count = prompts.length === 0 || !isTexts(prompts) ? 1 : prompts.length
  const walk = new BoundWalk(terms.imageTokens)
  walk.members(body, completionMembers)
  const other = prompts.findIndex((one) => !(Array.isArray(one) ? one.every(isTokenOrText) : isTokenOrText(one)))
  if (other >= 0) walk.refuse(["prompt", other], "A prompt that is no text has no bound")
  if (isJson(body.prompt)) walk.refuse(["prompt"], "A prompt that is no text has no bound")
  for (const prompt of [body.prompt, ...prompts]) walk.text(prompt, ["prompt"])
  if (body.max_tokens === 0) walk.unbounded.push(withoutOutput)
  const choices = count * Math.max(positive(body.n) ?? 1, positive(body.best_of) ?? 1)
  const { tools, unbounded } = messagesTools(body, terms, true)
  const elsewhere = walk.requireContext(terms.contextTokens, tools)
  const inputTokens = terms.bodyBytes + perRequest + perMessage * count
  return {
    inputTokens,
    mediaTokens: 0,
    elsewhere,
    // Some servers count a repeated prompt as output.
    extraOutputTokens: body.echo === true ? choices * inputTokens : 0,
    choices,
    askedOutputTokens: body.max_tokens === 0 ? 0 : positive(body.max_tokens),
    tools,
    asksFor: askedIn(body),
    unbounded: [...walk.unbounded, ...unbounded]
  }
}

const isTokenOrText = (value: unknown): boolean => typeof value === "string" || typeof value === "number"

/** OpenAI answers with nothing then; other servers take zero for no limit. */
const withoutOutput: Unbounded = {
  path: ["max_tokens"],
  message: "An output limit of zero, which some servers take for none, has no bound: ask for one token",
  isBoundedAt: ({ provider }) => provider.vendor === "openai"
}

/** OpenAI's text completions (API reference, "Completions", legacy). */
export const openAiCompletions: WireFormat = {
  ...openAiChat,
  operation: "completions",
  api: "completions",
  pathOf: () => "/completions",
  route: { path: "/v1/completions", capability: "llm:complete" },
  // What the API writes unless it is asked for more or fewer.
  usualOutputTokens: 16,
  faults: (body) =>
    new Faults(body)
      .texts("prompt", "text, or a list of texts", isTexts, "texts")
      .limit("max_tokens", 0)
      .limit("n", 1, maxChoices)
      .limit("best_of", 1, maxChoices)
      .switch("stream").found,
  bound,
  edit: ({ body, bytes }, target, limits) => {
    const { model } = target
    const { cacheKey, limit } = limits
    return edited(
      bytes,
      mergePatch(bytes, body, {
        ...serviceChanges(body, target, limits, false),
        ...(body.model === model ? {} : { model }),
        ...cacheKeyChange(body, target, cacheKey, false),
        ...(limit === undefined ? {} : { max_tokens: limit }),
        ...(body.stream === true ? { stream_options: { include_usage: true } } : {})
      })
    )
  },
  reader: (progress, terms) => new ChunkReader(progress, terms, true)
}
