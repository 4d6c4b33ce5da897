import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { charges, configure, costNanoUsd, model, provider, spender, usageRows } from "../../support/gateway.ts"
import { type Answerer, type ProviderStandIn, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { used } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"

interface Frame {
  readonly text: string
  /** What the caller has received once the frame was relayed, in each dialect; frames that send nothing have none. */
  readonly seen: { readonly openai?: string; readonly anthropic?: string; readonly responses?: string }
  /** Whether the model has reported its end. */
  readonly finished: boolean
}

const chunk = (members: object) => `data: ${JSON.stringify({ id: "c", model: "gpt", ...members })}\n\n`
const delta = (content: string, finish_reason: string | null = null) =>
  chunk({ choices: [{ index: 0, delta: { content }, finish_reason }] })
const event = (data: { readonly type: string; readonly [member: string]: unknown }) =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`

const openAiUsage = {
  prompt_tokens: used.input,
  completion_tokens: used.output,
  total_tokens: used.input + used.output,
  prompt_tokens_details: { cached_tokens: used.cached }
}
const openAiFrames: ReadonlyArray<Frame> = [
  { text: delta("One"), seen: { openai: "One", anthropic: "One", responses: "One" }, finished: false },
  { text: delta("Two"), seen: { openai: "Two", anthropic: "Two", responses: "Two" }, finished: false },
  { text: delta("", "stop"), seen: { openai: `"stop"` }, finished: true },
  { text: chunk({ choices: [], usage: openAiUsage }), seen: { openai: "prompt_tokens" }, finished: true },
  {
    text: "data: [DONE]\n\n",
    seen: { openai: "[DONE]", anthropic: "message_stop", responses: "response.completed" },
    finished: true
  }
]

const anthropicUsage = {
  input_tokens: used.input - used.cached,
  cache_read_input_tokens: used.cached,
  cache_creation_input_tokens: 0
}
const text = (words: string) =>
  event({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: words } })
const anthropicFrames: ReadonlyArray<Frame> = [
  {
    text: event({
      type: "message_start",
      message: { id: "m", role: "assistant", content: [], usage: { ...anthropicUsage, output_tokens: 1 } }
    }),
    seen: { anthropic: "message_start", openai: `"role"`, responses: "response.created" },
    finished: false
  },
  {
    text: event({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }) + text("One"),
    seen: { anthropic: "One", openai: "One", responses: "One" },
    finished: false
  },
  { text: text("Two"), seen: { anthropic: "Two", openai: "Two", responses: "Two" }, finished: false },
  {
    text:
      event({ type: "content_block_stop", index: 0 }) +
      event({ type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: used.output } }),
    seen: { anthropic: "message_delta" },
    finished: true
  },
  {
    text: event({ type: "message_stop" }),
    seen: { anthropic: "message_stop", openai: "[DONE]", responses: "response.completed" },
    finished: true
  }
]

const response = { id: "resp_1", object: "response", model: "gpt", output: [] }
const words = (said: string) =>
  event({ type: "response.output_text.delta", item_id: "msg_1", output_index: 0, content_index: 0, delta: said })
const responsesFrames: ReadonlyArray<Frame> = [
  {
    text: event({ type: "response.created", response: { ...response, status: "in_progress" } }),
    seen: { responses: "response.created" },
    finished: false
  },
  { text: words("One"), seen: { responses: "One" }, finished: false },
  { text: words("Two"), seen: { responses: "Two" }, finished: false },
  {
    text: event({
      type: "response.completed",
      response: {
        ...response,
        status: "completed",
        usage: {
          input_tokens: used.input,
          input_tokens_details: { cached_tokens: used.cached },
          output_tokens: used.output
        }
      }
    }),
    seen: { responses: "response.completed" },
    finished: true
  }
]

const vendors = {
  openai: { frames: openAiFrames, members: { dialect: "openai" } },
  anthropic: { frames: anthropicFrames, members: { dialect: "anthropic" } },
  responses: { frames: responsesFrames, members: { dialect: "openai", apis: ["responses"] } }
}
const paths = { openai: "/v1/chat/completions", anthropic: "/v1/messages", responses: "/v1/responses" }
type Dialect = keyof typeof paths
const dialects: ReadonlyArray<Dialect> = ["openai", "anthropic", "responses"]

const bodies = {
  openai: { max_tokens: 30, messages: [{ role: "user", content: "Hi" }], stream_options: { include_usage: true } },
  anthropic: { max_tokens: 30, messages: [{ role: "user", content: "Hi" }] },
  responses: { max_output_tokens: 30, input: "Hi" }
}

/** Sends the frames up to one, and the others once the caller has left. */
const pausing = (frames: ReadonlyArray<Frame>, after: number) => {
  const gate = Promise.withResolvers<void>()
  const answer: Answerer = (_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" })
    for (const frame of frames.slice(0, after + 1)) response.write(frame.text)
    void gate.promise.then(() => {
      for (const frame of frames.slice(after + 1)) response.write(frame.text)
      response.end()
    })
  }
  return { answer, resume: gate.resolve }
}

/** A call whose caller closes the connection when it has received a text. */
const leaveAt = ({ url }: TestService["Service"], key: string, path: string, body: object, last: string) =>
  Effect.promise(async () => {
    const controller = new AbortController()
    const response = await fetch(`${url}${path}`, {
      method: "POST",
      signal: controller.signal,
      headers: { "x-api-key": key, "content-type": "application/json" },
      body: JSON.stringify({ model: "gpt", stream: true, ...body })
    })
    assert.strictEqual(response.status, 200)
    let received = ""
    const decoder = new TextDecoder()
    for await (const bytes of response.body ?? []) {
      received += decoder.decode(bytes, { stream: true })
      if (received.includes(last)) break
    }
    controller.abort()
    assert.include(received, last)
  })

const ended = (service: TestService["Service"], tenantId: string) =>
  eventually(charges(service, tenantId), (all) => all.length > 0 && all.every(({ state }) => state === "settled"))

const setUp = Effect.fnUntraced(function* (standIn: ProviderStandIn, dialect: Dialect, members: object = {}) {
  const service = yield* TestService
  const baseUrl = dialect === "anthropic" ? standIn.url : `${standIn.url}/v1`
  yield* configure(
    service,
    [provider("p", standIn, { ...vendors[dialect].members, baseUrl })],
    [model("gpt", ["p"], members)]
  )
  return { service, ...(yield* spender(service, [{ limit: 1 }])) }
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "a caller that leaves a stream",
  (it) => {
    for (const from of dialects) {
      const { frames } = vendors[from]
      for (const to of dialects) {
        for (const [index, { finished, seen }] of frames.entries()) {
          const last = seen[to]
          if (last === undefined) continue
          it.effect(`of ${from} in ${to}, at frame ${index}, pays ${finished ? "the usage" : "what was said"}`, () =>
            Effect.gen(function* () {
              const { answer, resume } = pausing(frames, index)
              const standIn = yield* startProvider(answer)
              const { key, service, tenantId } = yield* setUp(standIn, from)
              yield* leaveAt(service, key, paths[to], bodies[to], last)
              if (!finished) {
                yield* eventually(
                  Effect.sync(() => standIn.aborted),
                  (aborted) => aborted === 1
                )
              }
              // What comes after it is answered, so the service knows that the caller is gone.
              for (let times = 0; times < 3; times++) yield* service.call("GET", "/health")
              resume()
              const [charge] = yield* ended(service, tenantId)
              const [row] = yield* usageRows(service, tenantId)
              if (finished) {
                assert.deepStrictEqual(charge, {
                  state: "settled",
                  method: "provider_usage",
                  amount: String(costNanoUsd)
                })
                assert.strictEqual(row.status, 200)
                return
              }
              assert.strictEqual(charge?.method, "aborted")
              assert.strictEqual(row.status, 499)
              assert.isAtMost(row.outputTokens, 2)
              // Of the words, not of the JSON around them.
              assert.strictEqual(row.inputTokens, from === "anthropic" ? used.input : 1)
            }).pipe(Effect.scoped)
          )
        }
      }
    }

    it.effect("of a model that thinks unseen pays what it can have thought, and no more than was reserved", () =>
      Effect.gen(function* () {
        const { answer } = pausing(openAiFrames, 0)
        const standIn = yield* startProvider(answer)
        const { key, service, tenantId } = yield* setUp(standIn, "openai", { maxTokensPerSecond: 100_000 })
        yield* leaveAt(service, key, paths.openai, { ...bodies.openai, reasoning_effort: "high" }, "One")
        yield* ended(service, tenantId)
        const [row] = yield* usageRows(service, tenantId)
        assert.deepInclude(row, { method: "aborted", inputTokens: 1, outputTokens: 30 })
      }).pipe(Effect.scoped)
    )

    it.effect("at its last event leaves the whole answer in the cache", () =>
      Effect.gen(function* () {
        const { answer, resume } = pausing(openAiFrames, openAiFrames.length - 1)
        const standIn = yield* startProvider(answer)
        const { key, service } = yield* setUp(standIn, "openai", { cache: true })
        const { stream_options: _, ...body } = bodies.openai
        yield* leaveAt(service, key, paths.openai, body, "[DONE]")
        for (let times = 0; times < 3; times++) yield* service.call("GET", "/health")
        resume()
        const again = Effect.promise(() =>
          fetch(`${service.url}${paths.openai}`, {
            method: "POST",
            headers: { "x-api-key": key, "content-type": "application/json" },
            body: JSON.stringify({ model: "gpt", stream: true, ...body })
          }).then(async (response) => ({ cache: response.headers.get("x-cache"), text: await response.text() }))
        )
        const answered = yield* eventually(again, ({ cache }) => cache === "hit")
        assert.match(answered.text, /One[^]*Two[^]*data: \[DONE\]\n\n$/)
      }).pipe(Effect.scoped)
    )
  }
)
