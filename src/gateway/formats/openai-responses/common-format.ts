import { Result } from "effect"
import { ChatRequest } from "../common-form/domain.ts"
import { toCompletionUsage } from "../common-form/usage.ts"
import { type WireFormat } from "../format.ts"
import { openAiChat } from "../openai-chat/format.ts"
import { ChunkWriter, chatTranslation } from "../openai-chat/translation.ts"
import { decoding } from "../request-faults.ts"

const decode = decoding(ChatRequest)

/** The common form itself, in which the Responses API asks models that have no such API. No provider speaks it. */
export const commonFormat: WireFormat = {
  ...openAiChat,
  isSpoken: false,
  translation: {
    ...chatTranslation,
    ownNames: {
      max_completion_tokens: "max_output_tokens",
      reasoning_effort: "reasoning.effort",
      reasoning_summary: "reasoning.summary",
      response_format: "text.format",
      verbosity: "text.verbosity"
    },
    requestToCommon: ({ body }) => Result.map(decode(body), () => body),
    answerFromCommon: (completion, _, usage) => ({ ...completion, usage: toCompletionUsage(usage) }),
    streamFromCommon: (_, includesUsage) => new ChunkWriter(includesUsage, { write: (chunk) => chunk })
  }
}
