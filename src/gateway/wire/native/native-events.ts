import { parsedJson } from "../../../kernel/json/parsed-json.ts"
import { readChunk } from "../../formats/common-form/domain.ts"
import { usageOfCompletion } from "../../formats/common-form/usage.ts"
import { type TokenUsage } from "../../formats/domain.ts"
import { errorInEvent } from "../../formats/errors.ts"
import { comment, EventReader, isComment } from "../../formats/event-reader.ts"
import { StreamedCalls } from "../../formats/streams/streamed-calls.ts"
import { finishOf, usageOf } from "./translation.ts"

const written = (event: string, data: object): string => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`

/** Translates a stream of OpenAI's dialect to the gateway's native events. */
export class NativeEvents {
  private readonly reader = new EventReader()
  private readonly streamedCalls = new StreamedCalls()
  /** Whether the call at a place has had arguments. */
  private readonly calls = new Map<number, boolean>()
  private finishReason: string | undefined
  private failed = false
  private readonly besides: (usage: TokenUsage) => object

  /** `besides` returns what accompanies the usage: its cost, and the reservation. */
  constructor(besides: (usage: TokenUsage) => object) {
    this.besides = besides
  }

  push(bytes: Uint8Array): string {
    const out = this.reader
      .push(bytes)
      .map(({ data }) => this.take(data))
      .join("")
    return out === "" && isComment(bytes) ? comment : out
  }

  end(): string {
    const rest = this.reader
      .end()
      .map(({ data }) => this.take(data))
      .join("")
    if (this.failed) return rest
    const empty = [...this.calls].filter(([, hasArguments]) => !hasArguments)
    return [
      rest,
      ...empty.map(([index]) => written("tool_call", { index, arguments: "{}" })),
      written("done", { finishReason: finishOf(this.finishReason, this.calls.size > 0) })
    ].join("")
  }

  private take(data: string): string {
    if (data === "[DONE]") return ""
    const event = parsedJson(data)
    const error = errorInEvent(event)
    if (error !== undefined) {
      this.failed = true
      return written("error", { code: error.code, message: error.message })
    }
    const chunk = readChunk(event)
    if (chunk === undefined) return ""
    const out: Array<string> = []
    for (const { delta, finish_reason: reason } of chunk.choices ?? []) {
      if (reason) this.finishReason = reason
      const text = `${delta?.content ?? ""}${delta?.refusal ?? ""}`
      if (text !== "") out.push(written("delta", { text }))
      for (const call of delta?.tool_calls ?? []) {
        const { function: called, id } = call
        const index = this.streamedCalls.placeOf(call)
        const named = { ...(id ? { id } : {}), ...(called?.name ? { name: called.name } : {}) }
        const fragment = called?.arguments ?? ""
        this.calls.set(index, fragment !== "" || this.calls.get(index) === true)
        out.push(written("tool_call", { index, ...named, arguments: fragment }))
      }
    }
    if (chunk.usage !== undefined) {
      const usage = usageOfCompletion(chunk.usage)
      out.push(written("usage", { ...usageOf(usage), ...this.besides(usage) }))
    }
    return out.join("")
  }
}
