import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { callOf, completionOf, messageOf } from "../common-form/answers.ts"
import { argumentsIn } from "../common-form/call-arguments.ts"
import { type Citation, citationsIn, citedTexts } from "../common-form/citations.ts"
import { type ChatCompletion, thoughtOf } from "../common-form/domain.ts"
import { usageOfCompletion } from "../common-form/usage.ts"
import { noUsage } from "../domain.ts"
import { type AnswerHead } from "../format.ts"
import { type AnsweredBlock, type AnsweredCitation, type Message } from "./domain.ts"
import { nativeReason, toFinishReason, toStopReason } from "./finish.ts"
import { TurnThoughts } from "./thinking.ts"
import { toMessageUsage, usageOfMessage } from "./usage.ts"

/** A search that the provider ran; undefined for other blocks. */
export const searchOf = ({
  input,
  name,
  type
}: Pick<AnsweredBlock, "input" | "name" | "type">): { readonly query: string } | undefined =>
  type === "server_tool_use" && name === "web_search"
    ? { query: isJson(input) && typeof input.query === "string" ? input.query : "" }
    : undefined

const isPage = /^https?:/

/** The pages that a part of a text is based on; places in documents have no common form. */
export const citationsOf = (
  given: ReadonlyArray<AnsweredCitation> | undefined,
  start: number,
  end: number
): ReadonlyArray<Citation> =>
  (given ?? []).flatMap(({ cited_text: cited = "", source, title = "", url = source ?? "" }) =>
    isPage.test(url) ? [{ url, title, start, end, cited }] : []
  )

/** A citation as Anthropic's clients read it. Anthropic takes none back without an index of its own. */
export const toCitation = ({ cited, title, url }: Citation): Json => ({
  type: "web_search_result_location",
  url,
  title: title === "" ? null : title,
  cited_text: cited,
  encrypted_index: ""
})

const textBlocks = (text: string, citations: ReadonlyArray<Citation>): ReadonlyArray<Json> =>
  citedTexts(text, citations).map(({ citations: own, text: part }) =>
    own.length === 0 ? { type: "text", text: part } : { type: "text", text: part, citations: own.map(toCitation) }
  )

/** Translates a message to a chat completion. */
export const messageToCompletion = (message: Message, head: AnswerHead): Json => {
  const blocks = message.content ?? []
  const calls = blocks.flatMap(({ id = "", input, name = "", type }) =>
    type === "tool_use" ? [callOf(id, name, input)] : []
  )
  const turn = new TurnThoughts()
  const texts = blocks.filter(({ type }) => type === "text")
  let length = 0
  const citations = texts.flatMap(({ citations: given, text = "" }) =>
    citationsOf(given, length, (length += text.length))
  )
  const said = messageOf({
    texts: texts.map(({ text = "" }) => text),
    citations,
    thoughts: blocks.flatMap(({ thinking = "", type }) => (type === "thinking" ? [thinking] : [])),
    calls,
    state: blocks.flatMap((block) => turn.add(block)),
    searches: blocks.flatMap((block) => searchOf(block) ?? [])
  })
  const finish_reason = toFinishReason(message.stop_reason, calls.length > 0)
  const choice = { index: 0, message: said, finish_reason, native_finish_reason: nativeReason(message.stop_reason) }
  const usage = message.usage === undefined ? noUsage : usageOfMessage(message.usage)
  return completionOf(head, message.id ?? head.id, [choice], usage)
}

/** Translates a chat completion to a message; arguments that are no object are a member of one. */
export const completionToMessage = (completion: ChatCompletion, head: AnswerHead): Json => {
  const [choice] = completion.choices ?? []
  const { annotations, content, refusal, tool_calls: calls = [], turn_state: signature = "" } = choice?.message ?? {}
  const thought = thoughtOf(choice?.message)
  const uses = calls.flatMap(({ function: called, id }, index) =>
    called?.name === undefined
      ? []
      : [
          {
            type: "tool_use",
            id: id || `${head.id}_${index}`,
            name: called.name,
            input: argumentsIn(called.arguments ?? "")
          }
        ]
  )
  const thinking = [{ type: "thinking", thinking: thought, signature }]
  const blocks: ReadonlyArray<Json> = [
    ...(thought ? thinking : []),
    ...(content ? textBlocks(content, citationsIn(annotations)) : []),
    ...(refusal ? [{ type: "text", text: refusal }] : []),
    // Clients that asked for no thoughts read the first block.
    ...(!thought && signature ? thinking : []),
    ...uses
  ]
  return {
    id: completion.id ?? head.id,
    type: "message",
    role: "assistant",
    model: head.model,
    content: blocks,
    stop_reason: refusal ? "refusal" : toStopReason(choice?.finish_reason, uses.length > 0),
    stop_sequence: null,
    usage: toMessageUsage(completion.usage === undefined ? noUsage : usageOfCompletion(completion.usage))
  }
}
