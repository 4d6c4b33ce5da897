import { Cause } from "effect"
import { namedEvents } from "../../gateway/formats/streams/written-events.ts"
import { type ProviderAnswer } from "../../gateway/providers/provider.ts"
import { isJson, type Json } from "../../kernel/json/parsed-json.ts"

const utf8 = new TextEncoder()

/** Says which file it got: it does not listen. */
export const transcript = (
  { file, response_format: format, stream }: Json,
  tokensOf: (text: string) => number
): ProviderAnswer => {
  const { bytes, filename } = isJson(file) ? file : {}
  const text = `A file of ${String(bytes)} bytes, ${String(filename)}.`
  const output = tokensOf(text)
  const usage = {
    type: "tokens",
    input_tokens: 1,
    input_token_details: { audio_tokens: 1, text_tokens: 0 },
    output_tokens: output,
    total_tokens: output + 1
  }
  if (stream === true) {
    const events = [
      { type: "transcript.text.delta", delta: text },
      { type: "transcript.text.done", text, usage }
    ]
    const first = [utf8.encode(namedEvents(events))]
    return { status: 200, headers: { "content-type": "text/event-stream" }, body: { first, rest: Cause.done() } }
  }
  const verbose = {
    task: "transcribe",
    language: "english",
    duration: 1,
    segments: [{ id: 0, start: 0, end: 1, text }]
  }
  const answer = { text, ...(format === "verbose_json" ? verbose : {}), usage }
  return { status: 200, headers: { "content-type": "application/json" }, body: utf8.encode(JSON.stringify(answer)) }
}
