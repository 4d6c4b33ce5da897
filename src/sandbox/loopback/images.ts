import { Cause } from "effect"
import { namedEvents } from "../../gateway/formats/streams/written-events.ts"
import { loopbackImageTokens } from "../../gateway/providers/loopback.ts"
import { type ProviderAnswer } from "../../gateway/providers/provider.ts"
import { type Json } from "../../kernel/json/parsed-json.ts"

/** A transparent pixel (PNG). */
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

const utf8 = new TextEncoder()

/** As many images as are asked for, each a pixel, whole or as the events of a stream. */
export const images = (
  { n, stream }: Json,
  kind: "edit" | "generation",
  read: { readonly image: number; readonly text: number },
  created: number
): ProviderAnswer => {
  const count = typeof n === "number" ? n : 1
  const usageOf = (made: number) => ({
    input_tokens: made * (read.image + read.text),
    input_tokens_details: { image_tokens: made * read.image, text_tokens: made * read.text },
    output_tokens: made * loopbackImageTokens,
    total_tokens: made * (read.image + read.text + loopbackImageTokens)
  })
  const described = { background: "transparent", output_format: "png", quality: "low", size: "1x1" }
  if (stream !== true) {
    const answer = {
      created,
      ...described,
      data: Array.from({ length: count }, () => ({ b64_json: pixel })),
      usage: usageOf(count)
    }
    return { status: 200, headers: { "content-type": "application/json" }, body: utf8.encode(JSON.stringify(answer)) }
  }
  const completed = {
    type: `image_${kind}.completed`,
    b64_json: pixel,
    created_at: created,
    ...described,
    usage: usageOf(1)
  }
  const first = [utf8.encode(namedEvents(Array.from({ length: count }, () => completed)))]
  return { status: 200, headers: { "content-type": "text/event-stream" }, body: { first, rest: Cause.done() } }
}
