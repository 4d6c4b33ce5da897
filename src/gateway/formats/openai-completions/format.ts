import { type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { edited, mergePatch } from "../../json/json-edits.ts"
import { messagesTools } from "../anthropic-messages/tools.ts"
import { type BoundTerms, type WireFormat } from "../format.ts"
import { openAiChat } from "../openai-chat/format.ts"
import { openAiPriced } from "../openai-chat/priced-members.ts"
import { ChunkReader } from "../openai-chat/stream.ts"
import { Faults, isTexts, maxChoices } from "../request-faults.ts"
import { BoundWalk, perMessage, perRequest, positive, type TokenUpperBound } from "../token-upper-bound.ts"

/** The maximum usage of a text completion: each prompt has its choices. */
const bound = (body: Json, terms: BoundTerms): TokenUpperBound => {
  const prompts = listIn(body.prompt)
  const count = prompts.length === 0 || !isTexts(prompts) ? 1 : prompts.length
  const walk = new BoundWalk(terms.imageTokens)
  walk.members(body, openAiPriced)
  const { tools, unbounded } = messagesTools(body, terms, true)
  const elsewhere = walk.requireContext(null, tools)
  return {
    inputTokens: terms.bodyBytes + perRequest + perMessage * count,
    mediaTokens: 0,
    elsewhere,
    extraOutputTokens: 0,
    choices: count * Math.max(positive(body.n) ?? 1, positive(body.best_of) ?? 1),
    askedOutputTokens: body.max_tokens === 0 ? 0 : positive(body.max_tokens),
    tools,
    unbounded: [...walk.unbounded, ...unbounded]
  }
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
  edit: ({ body, bytes }, { model }, { limit }) =>
    edited(
      bytes,
      mergePatch(bytes, body, {
        ...(body.model === model ? {} : { model }),
        ...(limit === undefined ? {} : { max_tokens: limit }),
        ...(body.stream === true ? { stream_options: { include_usage: true } } : {})
      })
    ),
  reader: (progress, terms) => new ChunkReader(progress, terms, true)
}
