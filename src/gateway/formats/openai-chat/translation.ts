import { Result } from "effect"
import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { ChatRequest } from "../common-form/domain.ts"
import { withImagesBesideTools } from "../common-form/tool-images.ts"
import { toCompletionUsage } from "../common-form/usage.ts"
import { type TokenUsage } from "../domain.ts"
import { type CommonWriter, type Translation } from "../format.ts"
import { decoding } from "../request-faults.ts"
import { dataEvents, terminator } from "../written-events.ts"
import { chatChanges } from "./request.ts"
import {
  callsWithoutThoughts,
  noThoughts,
  requiresThoughts,
  sealedStatesIn,
  StateReader,
  StateWriter,
  withState,
  withStateGivenBack
} from "./turn-state.ts"

const decode = decoding(ChatRequest)

const saysNothing = (choice: unknown): boolean =>
  isJson(choice) && isJson(choice.delta) && Object.keys(choice.delta).length === 0 && !choice.finish_reason

/** Writes chunks with the usage at the end, if the caller asked for it. */
export class ChunkWriter implements CommonWriter {
  private last: Json = {}
  private readonly includesUsage: boolean
  private readonly states: Pick<StateWriter, "write">

  constructor(includesUsage: boolean, states: Pick<StateWriter, "write">) {
    this.includesUsage = includesUsage
    this.states = states
  }

  push(chunk: Json): string {
    this.last = chunk
    const written = this.states.write(chunk)
    // A search alone is nothing that a chat completion shows.
    if (written !== chunk && listIn(written.choices).every(saysNothing)) return ""
    return dataEvents([this.includesUsage ? { ...written, usage: null } : written])
  }

  end(usage: TokenUsage): string {
    const told = { ...this.last, choices: [], usage: toCompletionUsage(usage) }
    return dataEvents(this.includesUsage ? [told] : []) + terminator
  }
}

const isEmpty = (message: unknown): boolean =>
  isJson(message) && message.role === "assistant" && message.content === null && message.tool_calls === undefined

/** The common form is a chat completion, so that there is little to translate. */
export const chatTranslation: Translation = {
  requestToCommon: ({ body }) =>
    Result.map(decode(body), (chat) => {
      const given = listIn(body.messages)
      const messages = chat.messages.map((message, index) => {
        const states = message.role === "assistant" ? sealedStatesIn(given[index]) : []
        return states.length === 0 ? message : { ...message, turn_state: states }
      })
      return { ...chat, messages }
    }),
  requestFromCommon: (chat, target, limits) => {
    const requires = requiresThoughts(target)
    const messages = listIn(chat.messages).map((message) => {
      const given = isJson(message) ? withStateGivenBack(message) : message
      return requires && callsWithoutThoughts(given) ? Object.assign({}, given, noThoughts) : given
    })
    const members = { ...chat, ...chatChanges(chat, target, limits), reasoning_summary: null }
    return Result.succeed({
      ...Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null)),
      messages: withImagesBesideTools(messages.filter((message) => !isEmpty(message)))
    })
  },
  answerToCommon: withState,
  answerFromCommon: (completion, _, usage) => ({
    ...new StateWriter().write(completion),
    usage: toCompletionUsage(usage)
  }),
  streamToCommon: () => new StateReader(),
  streamFromCommon: (_, includesUsage) => new ChunkWriter(includesUsage, new StateWriter())
}
