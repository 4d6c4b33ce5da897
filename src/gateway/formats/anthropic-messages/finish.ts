import { lookupTable } from "../../../kernel/lookup-table.ts"
import { type FinishReason } from "../domain.ts"

const finishReasons = lookupTable<FinishReason>({
  end_turn: "stop",
  stop_sequence: "stop",
  // The model would go on where the conversation is sent again.
  pause_turn: "length",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  tool_use: "tool_calls",
  refusal: "content_filter"
})

/** Maps Anthropic's `stop_reason` to OpenAI's `finish_reason`; where it is missing, calls are why the model stopped. */
export const toFinishReason = (stopReason: string | undefined, callsTools: boolean): FinishReason =>
  finishReasons[stopReason ?? (callsTools ? "tool_use" : "")] ?? "stop"

/** Anthropic's own reason where OpenAI's says that there was no room for more. */
export const nativeReason = (stopReason: string | undefined): string | undefined =>
  stopReason === "pause_turn" ? stopReason : undefined

const stopReasons = lookupTable<string>({
  stop: "end_turn",
  length: "max_tokens",
  tool_calls: "tool_use",
  function_call: "tool_use",
  content_filter: "refusal"
})

/** Maps OpenAI's `finish_reason` to Anthropic's `stop_reason`; some providers send `stop` although tools are called. */
export const toStopReason = (finishReason: string | null | undefined, callsTools: boolean): string => {
  const reason = stopReasons[finishReason ?? ""] ?? "end_turn"
  return callsTools && reason === "end_turn" ? "tool_use" : reason
}
