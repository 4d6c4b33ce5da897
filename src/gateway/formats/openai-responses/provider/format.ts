import { Result } from "effect"
import { type ChatRequest } from "../../common-form/domain.ts"
import { type Translation, type WireFormat } from "../../format.ts"
import { cacheKeyChange, serviceChanges } from "../../sent-changes.ts"
import { openAiResponses } from "../format.ts"
import { responseToCompletion } from "./answers.ts"
import { EventsToChunks } from "./events-to-chunks.ts"
import { chatToResponse } from "./requests.ts"

/** What calls in other formats are translated by, for models that have the Responses API alone. */
export const providerTranslation: Pick<Translation, "requestFromCommon" | "answerToCommon" | "streamToCommon"> = {
  requestFromCommon: (chat, target, limits, omissions) => {
    const { prompt_cache_key: key } = cacheKeyChange(chat, target, limits.cacheKey)
    return Result.map(
      chatToResponse(chat as ChatRequest, { model: target.model, limit: limits.limit }, omissions),
      (request) => ({
        ...request,
        ...serviceChanges(chat, target, limits),
        ...(typeof key === "string" ? { prompt_cache_key: key } : {})
      })
    )
  },
  answerToCommon: responseToCompletion,
  streamToCommon: (head) => new EventsToChunks(head)
}

/** The Responses API of models that have nothing else, which calls in other formats are translated to. */
export const responsesAlone: WireFormat = { ...openAiResponses, translation: providerTranslation }
