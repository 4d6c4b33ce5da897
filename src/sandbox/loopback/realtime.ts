import { Effect, Queue } from "effect"
import { type SecureRandom } from "effect/crypto"
import { isJson, type Json, listIn, parsedJson } from "../../kernel/json/parsed-json.ts"
import { type OpenedSocket } from "../../platform/outbound/web-socket-client.ts"

/** A turn ends where its client says so: nothing here hears silence. */
const initial: Json = {
  type: "realtime",
  object: "realtime.session",
  output_modalities: ["text"],
  instructions: "",
  tools: [],
  max_output_tokens: "inf",
  audio: { input: { turn_detection: null } }
}

const wordsOf = ({ content }: Json): string =>
  listIn(content)
    .map((part) => (isJson(part) && typeof part.text === "string" ? part.text : ""))
    .join("")

/** A conversation that says again what was said last. */
class Echo {
  private session: Json
  private readonly texts: Array<string> = []
  private readonly newId: () => string
  private readonly tokensOf: (text: string) => ReadonlyArray<string>

  constructor(model: string, newId: () => string, tokensOf: (text: string) => ReadonlyArray<string>) {
    this.session = { ...initial, id: `sess_${newId()}`, model }
    this.newId = newId
    this.tokensOf = tokensOf
  }

  get begun(): ReadonlyArray<Json> {
    return [{ type: "session.created", session: this.session }]
  }

  take(event: Json): ReadonlyArray<Json> {
    switch (event.type) {
      case "session.update":
        this.session = { ...this.session, ...(isJson(event.session) ? event.session : {}), audio: initial.audio }
        return [{ type: "session.updated", session: this.session }]
      case "conversation.item.create": {
        const item = { id: `item_${this.newId()}`, status: "completed", ...(isJson(event.item) ? event.item : {}) }
        this.texts.push(wordsOf(item))
        return ["conversation.item.added", "conversation.item.done"].map((type) => ({ type, item }))
      }
      case "response.create":
        return this.respond(isJson(event.response) ? event.response : {})
      default: {
        const error = {
          type: "invalid_request_error",
          code: "invalid_value",
          message: `The loopback model has no ${String(event.type)}.`,
          param: "type",
          event_id: event.event_id ?? null
        }
        return [{ type: "error", error }]
      }
    }
  }

  private respond({ max_output_tokens: limit, metadata = null }: Json): ReadonlyArray<Json> {
    const [id, itemId] = [`resp_${this.newId()}`, `item_${this.newId()}`]
    const input = this.texts.reduce((sum, text) => sum + 4 + this.tokensOf(text).length, 3)
    const words = this.tokensOf(this.texts.at(-1) ?? "").slice(0, typeof limit === "number" ? limit : Infinity)
    const text = words.join("")
    this.texts.push(text)
    const at = { response_id: id, item_id: itemId, output_index: 0, content_index: 0 }
    const response = { object: "realtime.response", id, metadata, output_modalities: ["text"] }
    const item = { id: itemId, type: "message", role: "assistant", content: [{ type: "output_text", text }] }
    const usage = {
      total_tokens: input + words.length,
      input_tokens: input,
      output_tokens: words.length,
      input_token_details: { text_tokens: input, audio_tokens: 0, cached_tokens: 0 },
      output_token_details: { text_tokens: words.length, audio_tokens: 0 }
    }
    return [
      { type: "response.created", response: { ...response, status: "in_progress", output: [] } },
      { type: "response.output_item.added", ...at, item: { ...item, status: "in_progress", content: [] } },
      ...words.map((delta) => Object.assign({ type: "response.output_text.delta", delta }, at)),
      { type: "response.output_text.done", ...at, text },
      { type: "response.output_item.done", ...at, item: { ...item, status: "completed" } },
      { type: "response.done", response: { ...response, status: "completed", output: [item], usage } }
    ]
  }
}

/** A WebSocket of OpenAI's Realtime API within this process, whose model echoes texts. */
export const openEcho = Effect.fnUntraced(function* (
  random: SecureRandom.SecureRandom["Service"],
  model: string,
  tokensOf: (text: string) => ReadonlyArray<string>
): Effect.fn.Return<OpenedSocket> {
  const events = yield* Queue.unbounded<string>()
  let last = 0
  const prefix = (yield* random.uuidV7()).replaceAll("-", "")
  const newId = () => `${prefix}${last++}`
  const echo = new Echo(model, newId, tokensOf)
  const written = (event: Json) => JSON.stringify({ event_id: `event_${newId()}`, ...event })
  const tell = (said: ReadonlyArray<Json>) => Queue.offerAll(events, said.map(written))
  yield* tell(echo.begun)
  const send = (text: string) => {
    const event = parsedJson(text)
    return isJson(event) ? Effect.asVoid(tell(echo.take(event))) : Effect.void
  }
  return { pull: Queue.takeAll(events), send }
})
