import { Effect, Option, Result, Schema } from "effect"
import { LRUCache } from "lru-cache"
import { type ChatChunk } from "../../gateway/formats/common-form/domain.ts"
import { type TokenUsage, noUsage } from "../../gateway/formats/domain.ts"
import { ChunksToResponse, type ResponseEvent } from "../../gateway/formats/openai-responses/chunks-to-events.ts"
import { type ResponseItem, ResponsesRequest } from "../../gateway/formats/openai-responses/domain.ts"
import { responsesToChat } from "../../gateway/formats/openai-responses/to-chat.ts"
import { ProviderFailure, type StoredRequest } from "../../gateway/providers/provider.ts"
import { isJson, listIn, type Json } from "../../kernel/json/parsed-json.ts"

/** What the model answers to a chat. */
interface Said {
  readonly tokens: ReadonlyArray<string>
  readonly call: { readonly id: string; readonly name: string; readonly arguments: string } | undefined
  readonly finishReason: string
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number }
}

interface Turn {
  readonly input: ReadonlyArray<ResponseItem>
  readonly previous: string | null
  readonly response: Json
}

const decode = Schema.decodeUnknownOption(ResponsesRequest)
const maxTurns = 1000

const refused = (status: number, message: string, code: string) =>
  new ProviderFailure({ reason: "status", sent: false, received: status, error: { status, message, code } })

const usageOf = ({ usage }: Said): TokenUsage => ({
  ...noUsage,
  inputTokens: usage.prompt_tokens,
  outputTokens: usage.completion_tokens
})

/** The items of a response as they are sent back. */
const outputOf = ({ response }: Turn) => listIn(response.output) as ReadonlyArray<ResponseItem>

const compacted = "compaction"

/** A shortened conversation is its text in base64. */
const opened = (item: ResponseItem): ResponseItem =>
  item.type === compacted
    ? { role: "user", content: Buffer.from(item.encrypted_content ?? "", "base64").toString("utf8") }
    : item

/** The Responses API of the provider within this process; the last thousand responses are stored in memory. */
export class LoopbackResponses {
  private readonly turns = new LRUCache<string, Turn>({ max: maxTurns })
  private readonly say: (chat: Json, unique: string) => Said

  constructor(say: (chat: Json, unique: string) => Said) {
    this.say = say
  }

  create(body: Json, unique: string, createdSeconds: number) {
    return Effect.map(
      this.said(body, unique),
      ({ items, request, said, tools }): { readonly events: ReadonlyArray<ResponseEvent>; readonly response: Json } => {
        const itemId = (prefix: string, place: number) => `${prefix}_${unique}${place}`
        const chunks = new ChunksToResponse({ id: `resp_${unique}`, createdSeconds, request, tools, itemId })
        const pieces: ReadonlyArray<ChatChunk> = [
          ...said.tokens.map((content) => ({ choices: [{ delta: { content } }] })),
          ...(said.call === undefined
            ? []
            : [{ choices: [{ delta: { tool_calls: [{ index: 0, id: said.call.id, function: said.call }] } }] }]),
          { choices: [{ finish_reason: said.finishReason }] }
        ]
        const before = pieces.flatMap((piece) => chunks.push(piece))
        const { events, response } = chunks.end(usageOf(said))
        if (request.store !== false) {
          this.turns.set(`resp_${unique}`, { input: items, previous: request.previous_response_id ?? null, response })
        }
        return { events: [...before, ...events], response }
      }
    )
  }

  count(body: Json) {
    return Effect.map(this.said(body, ""), ({ said }) => ({
      object: "response.input_tokens",
      input_tokens: said.usage.prompt_tokens
    }))
  }

  compact(body: Json, unique: string, created_at: number) {
    return Effect.map(this.said(body, unique), ({ said }) => ({
      id: `resp_${unique}`,
      object: "response.compaction",
      created_at,
      output: [
        {
          id: `cmp_${unique}`,
          type: compacted,
          encrypted_content: Buffer.from(said.tokens.join("")).toString("base64")
        }
      ],
      usage: {
        input_tokens: said.usage.prompt_tokens,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: said.usage.completion_tokens,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: said.usage.prompt_tokens + said.usage.completion_tokens
      }
    }))
  }

  stored({ method, path }: StoredRequest): Effect.Effect<Json, ProviderFailure> {
    const [, id = "", action = ""] = (path.split("?")[0] ?? "").split("/")
    const turn = this.turns.get(id)
    if (turn === undefined) return Effect.fail(refused(404, `Response with id '${id}' not found.`, "not_found"))
    if (method === "POST") {
      const message = "Cannot cancel a synchronous response."
      return Effect.fail(refused(400, message, "invalid_request_error"))
    }
    if (method === "DELETE") {
      this.turns.delete(id)
      return Effect.succeed({ id, object: "response", deleted: true })
    }
    if (action !== "input_items") return Effect.succeed(turn.response)
    const data = turn.input.map((item, index) =>
      Object.assign({ type: "message", id: `msg_${id.slice(5)}i${index}` }, item)
    )
    return Effect.succeed({
      object: "list",
      data: data.toReversed(),
      first_id: data.at(-1)?.id ?? null,
      last_id: data[0]?.id ?? null,
      has_more: false
    })
  }

  /** The model's answer to a request with the conversation before it. */
  private said(body: Json, unique: string) {
    return Effect.suspend(() => {
      const decoded = decode(body)
      if (Option.isNone(decoded)) return Effect.fail(refused(400, "The request is malformed.", "invalid_request"))
      const request = decoded.value
      const { input } = request
      const items: Array<ResponseItem> = []
      for (const item of typeof input === "string" ? [{ role: "user" as const, content: input }] : (input ?? [])) {
        const found = item.type === "item_reference" ? this.item(item.id ?? "") : opened(item)
        if (found === undefined) {
          return Effect.fail(refused(404, `Item with id '${item.id}' not found.`, "item_not_found"))
        }
        items.push(found)
      }
      const before: Array<Turn> = []
      for (let id = request.previous_response_id ?? null; id !== null;) {
        const turn = this.turns.get(id)
        if (turn === undefined) {
          const message = `Previous response with id '${id}' not found.`
          return Effect.fail(refused(400, message, "previous_response_not_found"))
        }
        before.unshift(turn)
        id = turn.previous
      }
      const chat = responsesToChat(request, [...before.flatMap((turn) => turn.input.concat(outputOf(turn))), ...items])
      if (Result.isFailure(chat)) {
        return Effect.fail(refused(400, chat.failure.map(({ message }) => message).join("; "), "invalid_request"))
      }
      const { body: asked, tools } = chat.success
      return Effect.succeed({ items, request, tools, said: this.say(asked, unique) })
    })
  }

  private item(id: string): ResponseItem | undefined {
    for (const turn of this.turns.values()) {
      const found = outputOf(turn).find((item) => isJson(item) && item.id === id)
      if (found !== undefined) return found
    }
    return undefined
  }
}
