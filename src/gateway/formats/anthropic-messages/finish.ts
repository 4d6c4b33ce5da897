import { type FinishReason } from "../domain.ts"
import { lookupTable } from "../../../kernel/lookup-table.ts"

const finishReasons = lookupTable<FinishReason>({
  end_turn: "stop",
  stop_sequence: "stop",
  pause_turn: "stop",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  tool_use: "tool_calls",
  refusal: "content_filter"
})

/** Maps Anthropic's `stop_reason` to OpenAI's `finish_reason`; where it is missing, calls are why the model stopped. */
export const toFinishReason = (stopReason: string | undefined, callsTools: boolean): FinishReason =>
  finishReasons[stopReason ?? (callsTools ? "tool_use" : "")] ?? "stop"

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
