import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { edited, mergePatch } from "../../json/json-edits.ts"
import { type BoundTerms, type WireFormat } from "../format.ts"
import { openAiChat } from "../openai-chat/format.ts"
import { unboundedModels } from "../provider-tools.ts"
import { Faults } from "../request-faults.ts"
import { askedIn } from "../served-domain.ts"
import { BoundWalk, perRequest, type TokenUpperBound } from "../token-upper-bound.ts"

const isImage = (part: unknown): boolean => isJson(part) && part.type === "image_url"
const isText = (part: unknown): boolean => typeof part === "string" || (isJson(part) && part.type === "text")

/** The maximum usage of a request, which has no output tokens. */
const bound = (body: Json, terms: BoundTerms): TokenUpperBound => {
  const inputs = listIn(body.input)
  const walk = new BoundWalk(terms.imageTokens)
  const other = inputs.findIndex((part) => !isText(part) && !isImage(part))
  if (other >= 0) walk.refuse(["input", other], "An input that is neither a text nor an image has no bound")
  return {
    mediaTokens: inputs.filter(isImage).length * terms.imageTokens,
    inputTokens: terms.bodyBytes + perRequest + Math.max(1, inputs.length),
    readsApart: inputs.length > 1,
    extraOutputTokens: 0,
    choices: 1,
    askedOutputTokens: undefined,
    asksFor: askedIn(body),
    unbounded: [...walk.unbounded, ...unboundedModels(terms.models)]
  }
}

const hasResults = (answer: unknown): boolean => isJson(answer) && listIn(answer.results).length > 0

/** OpenAI's moderations (API reference, "Moderations"), which report no usage. */
export const openAiModerations: WireFormat = {
  ...openAiChat,
  operation: "moderate",
  api: "moderations",
  pathOf: () => "/moderations",
  route: { path: "/v1/moderations", capability: "llm:embed" },
  modelKind: "moderation",
  usualModel: "omni-moderation-latest",
  hasOutput: false,
  faults: (body) => new Faults(body).texts("input", "text, or a list of texts and images", () => true, "inputs").found,
  bound,
  edit: ({ body, bytes }, { model }) => edited(bytes, mergePatch(bytes, body, body.model === model ? {} : { model })),
  translation: {},
  usageIn: () => undefined,
  hasContent: hasResults,
  holdsAnything: hasResults,
  tells: () => false,
  wordsIn: () => [],
  pass: (given) => given,
  streamed: () => undefined
}
