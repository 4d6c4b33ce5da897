import { Result } from "effect"
import { type Json } from "../../../kernel/json/parsed-json.ts"
import { type ChatRequest, readChunk, readCompletion } from "../common-form/domain.ts"
import { typeOf } from "../event-reader.ts"
import { type Translation } from "../format.ts"
import { decoding } from "../request-faults.ts"
import { serviceChanges } from "../sent-changes.ts"
import { namedEvents } from "../streams/written-events.ts"
import { completionToMessage, messageToCompletion } from "./answers.ts"
import { chatToMessages } from "./chat-to-messages.ts"
import { ChunksToEvents } from "./chunks-to-events.ts"
import { MessagesRequest, readEvent, readMessage } from "./domain.ts"
import { EventsToChunks } from "./events-to-chunks.ts"
import { messagesToChat } from "./messages-to-chat.ts"
import { withCacheMarks } from "./prompt-cache/marks.ts"
import { withToolLimit } from "./tools.ts"
import { toMessageUsage } from "./usage.ts"

const decode = decoding(MessagesRequest)

export const messagesTranslation: Translation = {
  ownNames: {
    max_completion_tokens: "max_tokens",
    parallel_tool_calls: "tool_choice.disable_parallel_tool_use",
    reasoning_effort: "output_config.effort",
    response_format: "output_config.format",
    safety_identifier: "metadata.user_id",
    stop: "stop_sequences"
  },
  requestToCommon: ({ body }, omissions) => {
    omissions.unread(body, MessagesRequest)
    return Result.flatMap(decode(body), (request) => messagesToChat(request, omissions))
  },
  requestFromCommon: (chat, target, limits, omissions) => {
    const { model, traits } = target
    const { outputTokens, toolLimit } = limits
    return Result.map(
      chatToMessages(chat as ChatRequest, { model, traits, maxOutputTokens: outputTokens }, omissions),
      (request) => ({
        ...withCacheMarks(toolLimit === undefined ? request : withToolLimit(request, toolLimit), target, limits),
        ...serviceChanges({ ...request }, target, limits)
      })
    )
  },
  answerToCommon: (answer, head) => messageToCompletion(readMessage(answer) ?? {}, head),
  answerFromCommon: (completion, head, usage) => ({
    ...completionToMessage(readCompletion(completion) ?? {}, head),
    usage: toMessageUsage(usage)
  }),
  streamToCommon: (head) => {
    const chunks = new EventsToChunks(head)
    return {
      push: (value, event) => {
        const type = typeOf(event, value)
        const read = readEvent(typeof value.type === "string" ? value : { ...value, type })
        return read === undefined ? [] : chunks.push(read)
      },
      end: () => chunks.end()
    }
  },
  streamFromCommon: (head) => {
    const events = new ChunksToEvents(head)
    return {
      push: (chunk: Json) => {
        const read = readChunk(chunk)
        return read === undefined ? "" : namedEvents(events.push(read))
      },
      end: (usage) => namedEvents(events.end(usage))
    }
  }
}
