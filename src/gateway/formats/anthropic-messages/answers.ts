import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { type AnsweredBlock, type Message } from "./domain.ts"
import { inputOf } from "./chat-to-messages.ts"
import { noUsage } from "../domain.ts"
import { type AnswerHead } from "../format.ts"
import { thinkingBlocksIn } from "./thinking.ts"
import { toFinishReason, toStopReason } from "./finish.ts"
import { type ChatCompletion, thoughtOf } from "../common-form/domain.ts"
import { toCompletionUsage, usageOfCompletion } from "../common-form/usage.ts"
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
  const texts = blocks.flatMap((block) => (block.type === "text" ? [block.text ?? ""] : []))
  const thoughts = blocks.flatMap((block) => (block.type === "thinking" ? [block.thinking ?? ""] : []))
  const signed = thinkingBlocksIn(blocks.map((block) => ({ thinking: "", ...block })))
  const searches = blocks.flatMap((block) => searchOf(block) ?? [])
  const calls = blocks.flatMap((block) =>
    block.type === "tool_use"
      ? [
          {
            id: block.id ?? "",
            type: "function",
            function: { name: block.name ?? "", arguments: JSON.stringify(block.input ?? {}) }
          }
        ]
      : []
  )
  return {
    id: message.id ?? head.id,
    object: "chat.completion",
    created: head.createdSeconds,
    model: head.model,
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: texts.length === 0 ? null : texts.join(""),
          refusal: null,
          ...(thoughts.length === 0 ? {} : { reasoning_content: thoughts.join("") }),
          ...(signed.length === 0 ? {} : { turn_state: signed }),
          ...(searches.length === 0 ? {} : { web_searches: searches }),
          ...(calls.length === 0 ? {} : { tool_calls: calls })
        },
        logprobs: null,
        finish_reason: toFinishReason(message.stop_reason, calls.length > 0)
      }
    ],
    usage: toCompletionUsage(message.usage === undefined ? noUsage : usageOfMessage(message.usage))
  }
}

/** Translates a chat completion to a message; arguments that are not JSON are passed on unchanged, under `arguments`. */
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
            input: inputOf(called.arguments ?? "") ?? { arguments: called.arguments }
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
