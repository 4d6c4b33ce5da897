import { Result } from "effect"
import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { type Fault } from "../../../kernel/problems/problem.ts"
import { hasMarks, withMarksInParts, withoutMarks } from "../common-form/cache-marks.ts"
import { argumentsText } from "../common-form/call-arguments.ts"
import { withCallResults } from "../common-form/call-results.ts"
import { type ChatMessage, type ChatPart, ChatRequest } from "../common-form/domain.ts"
import { embeddedIn, textIn, titledText } from "../common-form/files.ts"
import { withImagesBesideTools } from "../common-form/tool-images.ts"
import { turnsOf } from "../common-form/turn-order.ts"
import { toCompletionUsage } from "../common-form/usage.ts"
import { type TokenUsage } from "../domain.ts"
import { type CommonWriter, type FormatTarget, type Translation } from "../format.ts"
import { decoding } from "../request-faults.ts"
import { dataEvents, terminator } from "../streams/written-events.ts"
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
import { asModelTakes } from "./vendor-messages.ts"

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
    const last = { ...this.last, choices: [], usage: toCompletionUsage(usage) }
    return dataEvents(this.includesUsage ? [last] : []) + terminator
  }
}

const isEmpty = ({ content, role, tool_calls: calls }: ChatMessage): boolean =>
  role === "assistant" && content === null && calls === undefined

const callsFunctions = ({ tool_calls: calls }: ChatMessage): boolean => (calls ?? []).length > 0

/** Servers that pass marks of the prompt cache on to Claude; OpenAI refuses members that it does not know. */
const readsMarks = ({ model, provider: { vendor } }: FormatTarget): boolean =>
  /claude|anthropic/i.test(model) || /^(?:openrouter|litellm)/.test(vendor ?? "")

/** A message with texts alone as a text, which every vendor takes; what a user says stays in its parts. */
const withTexts = (message: Json): Json => {
  const { content, role } = message
  if (role === "user" || !Array.isArray(content)) return message
  const texts = content.map((part: unknown) => (isJson(part) && part.type === "text" ? String(part.text) : undefined))
  if (texts.includes(undefined)) return message
  const text = texts.join(role === "system" ? "\n\n" : "")
  return { ...message, content: text === "" && listIn(message.tool_calls).length > 0 ? null : text }
}

/** A message with parts and arguments that chat completions have. */
const withOwnParts = (message: ChatMessage, at: Fault["path"], faults: Array<Fault>): Json => {
  const { content, tool_calls: calls } = message
  return {
    ...message,
    ...(Array.isArray(content)
      ? { content: content.map((part, index) => ownPart(part, [...at, "content", index], faults)) }
      : {}),
    ...(calls
      ? {
          tool_calls: calls.map((call) =>
            Object.assign({}, call, {
              function: { ...call.function, arguments: argumentsText(call.function.arguments) }
            })
          )
        }
      : {})
  }
}

/** A part as chat completions have it: files are PDFs with their data. */
const ownPart = (part: ChatPart, at: Fault["path"], faults: Array<Fault>): Json => {
  const { file, type, ...rest } = part
  if (type !== "file" || !file) return part
  const embedded = embeddedIn(file.file_data ?? "")
  if (embedded?.mediaType.startsWith("image/") === true) {
    return { ...rest, type: "image_url", image_url: { url: file.file_data } }
  }
  const text = embedded && textIn(embedded)
  if (text !== undefined) return { ...rest, type: "text", text: titledText(text, file.filename) }
  if ((file.file_url ?? null) !== null) {
    faults.push({
      path: [...at, "file", "file_url"],
      message: "Chat completions take no address of a file; send its data"
    })
  }
  return part
}

/** The common form is a chat completion, so that there is little to translate. */
export const chatTranslation: Translation = {
  requestToCommon: ({ body }, omissions) => {
    omissions.unread(body, ChatRequest)
    return Result.map(decode(body), (chat) => {
      const given = listIn(body.messages)
      const messages = chat.messages.map((message, index) => {
        const states = message.role === "assistant" ? sealedStatesIn(given[index]) : []
        return states.length === 0 ? message : { ...message, turn_state: states }
      })
      return { ...chat, messages }
    })
  },
  requestFromCommon: (chat, target, limits, omissions) => {
    const faults: Array<Fault> = []
    const requires = requiresThoughts(target)
    const takesMarks = readsMarks(target)
    const given = listIn(chat.messages) as ReadonlyArray<ChatMessage>
    // The results of a turn's calls follow one message.
    const turns = turnsOf(given, (turn) => turn.slice(0, -1).some(callsFunctions)).filter(
      ({ message }) => !isEmpty(message)
    )
    const messages = withCallResults(turns).map(({ at, message }) => {
      const own = withStateGivenBack(withOwnParts(message, at, faults))
      const marked = takesMarks ? withMarksInParts(own) : withTexts(withoutMarks(own))
      const taken = asModelTakes(marked, target.traits)
      return requires && callsWithoutThoughts(taken) ? Object.assign({}, taken, noThoughts) : taken
    })
    if (faults.length > 0) return Result.fail(faults)
    const omits = !takesMarks && hasMarks(chat)
    if (omits) omissions.member("cache_control")
    const members = {
      ...chat,
      ...chatChanges(chat, target, limits),
      reasoning_summary: null,
      ...(omits
        ? { cache_control: null, tools: chat.tools && listIn(chat.tools).filter(isJson).map(withoutMarks) }
        : {})
    }
    return Result.succeed({
      ...Object.fromEntries(Object.entries(members).filter(([, value]) => (value ?? null) !== null)),
      messages: withImagesBesideTools(messages)
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
