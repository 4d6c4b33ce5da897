import { Result } from "effect"
import { type Json } from "../../../kernel/json/parsed-json.ts"
import { ChatRequest } from "../common-form/domain.ts"
import { toCompletionUsage } from "../common-form/usage.ts"
import { type TokenUsage } from "../domain.ts"
import { type CommonWriter, type Translation } from "../format.ts"
import { decoding } from "../request-faults.ts"
import { dataEvents, terminator } from "../written-events.ts"
import { limitMember, withoutState } from "./request.ts"

const decode = decoding(ChatRequest)

/** Writes chunks with the usage at the end, if the caller asked for it. */
class ChunkWriter implements CommonWriter {
  private last: Json = {}
  private readonly includesUsage: boolean

  constructor(includesUsage: boolean) {
    this.includesUsage = includesUsage
  }

  push(chunk: Json): string {
    this.last = chunk
    return dataEvents([this.includesUsage ? { ...chunk, usage: null } : chunk])
  }

  end(usage: TokenUsage): string {
    const told = { ...this.last, choices: [], usage: toCompletionUsage(usage) }
    return dataEvents(this.includesUsage ? [told] : []) + terminator
  }
}

/** The common form is a chat completion, so that there is little to translate. */
export const chatTranslation: Translation = {
  requestToCommon: ({ body }) => decode(body),
  requestFromCommon: (chat, target) => {
    const request = withoutState({ ...chat, model: target.model })
    if (limitMember(target) === "max_completion_tokens") return Result.succeed(request)
    const { max_completion_tokens: limit, ...rest } = request
    return Result.succeed(limit === undefined ? rest : { ...rest, max_tokens: limit })
  },
  answerToCommon: (answer) => answer,
  answerFromCommon: (completion, _, usage) => ({ ...completion, usage: toCompletionUsage(usage) }),
  streamToCommon: () => ({ push: (value) => [value], end: () => [] }),
  streamFromCommon: (_, includesUsage) => new ChunkWriter(includesUsage)
}
