import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { type AnsweredBlock, type Message } from "./domain.ts"
import { argumentsIn } from "../common-form/call-arguments.ts"
import { noUsage } from "../domain.ts"
import { type AnswerHead } from "../format.ts"
import { TurnThoughts } from "./thinking.ts"
import { toFinishReason, toStopReason } from "./finish.ts"
import { type ChatCompletion, thoughtOf } from "../common-form/domain.ts"
import { callOf, completionOf, messageOf } from "../common-form/answers.ts"
import { usageOfCompletion } from "../common-form/usage.ts"
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

/** Translates a message to a chat completion. */
export const messageToCompletion = (message: Message, head: AnswerHead): Json => {
  const blocks = message.content ?? []
  const calls = blocks.flatMap(({ id = "", input, name = "", type }) =>
    type === "tool_use" ? [callOf(id, name, input)] : []
  )
  const turn = new TurnThoughts()
  const said = messageOf({
    texts: blocks.flatMap(({ text = "", type }) => (type === "text" ? [text] : [])),
    thoughts: blocks.flatMap(({ thinking = "", type }) => (type === "thinking" ? [thinking] : [])),
    calls,
    state: blocks.flatMap((block) => turn.add(block)),
    searches: blocks.flatMap((block) => searchOf(block) ?? [])
  })
  const finish_reason = toFinishReason(message.stop_reason, calls.length > 0)
  const usage = message.usage === undefined ? noUsage : usageOfMessage(message.usage)
  return completionOf(head, message.id ?? head.id, [{ index: 0, message: said, finish_reason }], usage)
}

/** Translates a chat completion to a message; arguments that are no object are a member of one. */
export const completionToMessage = (completion: ChatCompletion, head: AnswerHead): Json => {
  const [choice] = completion.choices ?? []
  const { content, refusal, tool_calls: calls = [], turn_state: signature = "" } = choice?.message ?? {}
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
    ...(content ? [{ type: "text", text: content }] : []),
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
