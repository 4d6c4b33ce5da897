import { Struct } from "effect"
import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { type Omissions } from "../omissions.ts"
import { type ChatMessage } from "./domain.ts"
import { partsOf } from "./turn-order.ts"

/** The most marks that Anthropic takes in a request. */
const maxMarks = 4

const lifetimes = new Set<unknown>(["5m", "1h"])

/** A mark of the prompt cache in Anthropic's form, which other vendors took over; undefined for anything else. */
export const markOf = (given: unknown): Json | undefined => {
  if (!isJson(given) || given.type !== "ephemeral") return undefined
  return { type: "ephemeral", ...(lifetimes.has(given.ttl) ? { ttl: given.ttl } : {}) }
}

/** The mark of a message as a whole: its own, or that of its last part with one. */
export const markOfMessage = ({ cache_control: own, content }: ChatMessage): Json | undefined =>
  markOf(own) ?? markOf(partsOf(content).findLast((part) => markOf(part.cache_control) !== undefined)?.cache_control)

/** Blocks, with the mark on the last one. */
export const withMark = (blocks: ReadonlyArray<Json>, mark: Json | undefined): ReadonlyArray<Json> =>
  mark === undefined
    ? blocks
    : blocks.map((block, index) =>
        index < blocks.length - 1 ? block : Object.assign({}, block, { cache_control: mark })
      )

const withoutMark = (block: Json): Json => Struct.omit(block, ["cache_control"])

/** A request to Anthropic with as many marks as it takes: the last ones, which cover the most. */
export const withinMarks = (request: Json, omissions: Omissions): Json => {
  const messages = listIn(request.messages).filter(isJson)
  const blocks = [request.tools, request.system, ...messages.map(({ content }) => content)].flatMap(listIn)
  const surplus = new Set(
    blocks.filter((block) => isJson(block) && block.cache_control !== undefined).slice(0, -maxMarks)
  )
  if (surplus.size === 0) return request
  omissions.member("cache_control")
  const kept = (list: unknown) =>
    listIn(list).map((block) => (isJson(block) && surplus.has(block) ? withoutMark(block) : block))
  return {
    ...request,
    messages: messages.map((message) => Object.assign({}, message, { content: kept(message.content) })),
    ...(request.system === undefined ? {} : { system: kept(request.system) }),
    ...(request.tools === undefined ? {} : { tools: kept(request.tools) })
  }
}

const hasMark = ({ cache_control: mark }: { readonly cache_control?: unknown }): boolean => mark !== undefined

/** Whether a chat completion has a mark anywhere. */
export const hasMarks = (chat: Json): boolean =>
  hasMark(chat) ||
  [...listIn(chat.messages), ...listIn(chat.tools)].some(
    (one) => isJson(one) && (hasMark(one) || listIn(one.content).some((part) => isJson(part) && hasMark(part)))
  )

/** A message of a chat completion, or a tool, without marks. */
export const withoutMarks = (message: Json): Json => {
  const rest = withoutMark(message)
  if (!Array.isArray(rest.content)) return rest
  return { ...rest, content: rest.content.map((part: unknown) => (isJson(part) ? withoutMark(part) : part)) }
}

/** A message with its marks where servers in front of Claude read them: in its parts. */
export const withMarksInParts = (message: Json): Json => {
  const { cache_control: given, ...rest } = message
  const mark = markOf(given)
  if (mark === undefined || (rest.content ?? "") === "") return rest
  return { ...rest, content: withMark(partsOf(rest.content as ChatMessage["content"]) as ReadonlyArray<Json>, mark) }
}
