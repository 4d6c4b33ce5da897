import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import {
  charges,
  configure,
  counters,
  model,
  prices,
  provider,
  readAll,
  spender,
  usageRows
} from "../../support/gateway.ts"
import { type Answerer, json, sse, startProvider } from "../../support/provider.ts"
import { makeResponsesVendor } from "../../support/responses-vendor.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { anthropicVendor, said } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"

const messages = [{ role: "user", content: "Hi" }]
const wires = {
  "/v1/chat/completions": { messages },
  "/v1/messages": { messages, max_tokens: 100 },
  "/v1/responses": { input: "Hi", store: false },
  "/api/llm/complete": { messages },
  "/v1/completions": { prompt: "Hi" },
  "/v1/embeddings": { input: "Hi" }
}
type Path = keyof typeof wires
const chats: ReadonlyArray<Path> = ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/llm/complete"]

const sending =
  (...events: ReadonlyArray<unknown>): Answerer =>
  (_, response) => {
    sse(response, events)
    response.end()
  }
const answering =
  (body: unknown): Answerer =>
  (_, response) =>
    json(response, 200, body)
const bare =
  (text: string): Answerer =>
  (_, response) =>
    response.writeHead(200, { "content-type": "application/json" }).end(text)

const nullMessage = { role: "assistant", content: null, refusal: null, tool_calls: [], annotations: [], audio: null }
const choice = (members: object, reason: string | null = "stop") => ({
  choices: [{ index: 0, finish_reason: reason, ...members }]
})
const done = "data: [DONE]\n\n"
const role = choice({ delta: { role: "assistant", content: "" } }, null)
const end = choice({ delta: {} })
const none = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }
const started = { type: "message_start", message: { id: "m", role: "assistant", content: [] } }
const response = { id: "resp_1", object: "response", output: [] }
const events = (...all: ReadonlyArray<{ readonly type: string }>) =>
  all.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)

interface Empty {
  readonly kind: "chat" | "anthropic" | "responses" | "completions" | "embeddings"
  readonly paths: ReadonlyArray<Path>
  readonly answer: Answerer
  readonly stream?: boolean
}

const empties: Readonly<Record<string, Empty>> = {
  "no choices": { kind: "chat", paths: chats, answer: answering({ id: "c", choices: [] }) },
  "no choices, and a usage of nothing": { kind: "chat", paths: chats, answer: answering({ choices: [], usage: none }) },
  "null content": { kind: "chat", paths: chats, answer: answering(choice({ message: nullMessage })) },
  "blocked candidates": {
    kind: "chat",
    paths: chats,
    answer: answering({ candidates: [{ finishReason: "SAFETY" }], promptFeedback: { blockReason: "SAFETY" } })
  },
  "an empty body": { kind: "chat", paths: chats, answer: bare("") },
  "a blank body": { kind: "chat", paths: chats, answer: bare(" \n") },
  "an empty object": { kind: "chat", paths: chats, answer: bare("{}") },
  "no body and no content": { kind: "chat", paths: chats, answer: (_, response) => response.writeHead(204).end() },
  "no blocks": {
    kind: "anthropic",
    paths: chats,
    answer: answering({ type: "message", role: "assistant", content: [], stop_reason: "end_turn" })
  },
  "an empty block": {
    kind: "anthropic",
    paths: chats,
    answer: answering({ type: "message", content: [{ type: "text", text: "" }], stop_reason: "end_turn" })
  },
  "no output": { kind: "responses", paths: ["/v1/responses"], answer: answering({ ...response, status: "completed" }) },
  "no text": {
    kind: "completions",
    paths: ["/v1/completions"],
    answer: answering({ object: "text_completion", choices: [{ index: 0, text: "", finish_reason: "stop" }] })
  },
  "no vectors": { kind: "embeddings", paths: ["/v1/embeddings"], answer: answering({ object: "list", data: [] }) },
  "a stream without a byte": { kind: "chat", paths: chats, stream: true, answer: sending() },
  "a terminator alone": { kind: "chat", paths: chats, stream: true, answer: sending(done) },
  "a role and an end": { kind: "chat", paths: chats, stream: true, answer: sending(role, end, done) },
  "a role and no end": { kind: "chat", paths: chats, stream: true, answer: sending(role, "data: {") },
  "chunks without choices": { kind: "chat", paths: chats, stream: true, answer: sending({ choices: [] }, done) },
  "a comment and an end": { kind: "chat", paths: chats, stream: true, answer: sending(": wait\n\n", role, end, done) },
  "a message without blocks": {
    kind: "anthropic",
    paths: chats,
    stream: true,
    answer: sending(
      ...events(
        started,
        Object.assign({ type: "message_delta" }, { delta: { stop_reason: "end_turn", stop_sequence: null } }),
        { type: "message_stop" }
      )
    )
  },
  "a response without output": {
    kind: "responses",
    paths: ["/v1/responses"],
    stream: true,
    answer: sending(
      ...events(
        Object.assign({ type: "response.created" }, { response: { ...response, status: "in_progress" } }),
        Object.assign({ type: "response.completed" }, { response: { ...response, status: "completed" } })
      )
    )
  },
  "a stream for a whole answer": { kind: "chat", paths: chats, stream: false, answer: sending(role, end, done) }
}

const [firstWord = ""] = said.split(" ")
const good: Answerer = (request, answer) =>
  request.path.endsWith("/messages") ? anthropicVendor(request, answer) : vendor(request, answer)
const vendor = makeResponsesVendor()

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "120 seconds" })(
  "an answer that holds nothing",
  (it) => {
    const setUp = Effect.fnUntraced(function* (kind: Empty["kind"], answer: Answerer, members: object = {}) {
      const service = yield* TestService
      const empty = yield* startProvider(answer)
      const other = yield* startProvider(good)
      const of = (id: string, standIn: typeof empty) =>
        provider(id, standIn, kind === "anthropic" ? { dialect: "anthropic", baseUrl: standIn.url } : { apis: [kind] })
      const own = kind === "embeddings" ? { kind: "embedding", ...members } : members
      yield* configure(
        service,
        [of("empty", empty), of("other", other)],
        [model("alone", ["empty"], own), model("both", ["empty", "other"], own)]
      )
      return { empty, service, ...(yield* spender(service, [{ limit: 1, mode: "soft" }])) }
    })

    for (const [what, { answer, kind, paths, stream = false }] of Object.entries(empties)) {
      it.effect(`such as ${what} is the next target's to give, and costs nothing`, () =>
        Effect.gen(function* () {
          const { empty, key, service, tenantId } = yield* setUp(kind, answer)
          for (const path of paths) {
            const headers = path === "/api/llm/complete" ? {} : { "x-cache": "true" }
            const asked = { stream, ...wires[path] }
            for (let times = 0; times < 2; times++) {
              const alone = yield* readAll(service, key, path, { model: "alone", ...asked }, headers)
              assert.strictEqual(alone.status, 502, alone.text)
              assert.include(alone.text, "The provider empty answered nothing.")
            }
            const both = yield* readAll(service, key, path, { model: "both", ...asked }, headers)
            assert.strictEqual(both.status, 200, both.text)
            if (kind !== "embeddings") assert.include(both.text, firstWord)
          }
          // None was answered from the cache.
          assert.lengthOf(empty.requests, paths.length * 3)
          // What is released has its row a moment later.
          const made = yield* eventually(charges(service, tenantId), (all) =>
            all.every(({ method }) => method !== null)
          )
          const others = made.filter(({ method }) => method === "provider_usage")
          assert.lengthOf(others, paths.length)
          for (const { amount, method } of made) {
            if (method !== "provider_usage") assert.deepStrictEqual([amount, method], ["0", "released"])
          }
          const [counter] = yield* counters(service, tenantId)
          const spent = others.reduce((sum, { amount }) => sum + BigInt(amount), 0n)
          assert.deepStrictEqual(counter, { reserved: "0", spent: String(spent) })
        }).pipe(Effect.scoped)
      )
    }

    const usage = { prompt_tokens: 1000, completion_tokens: 50, total_tokens: 1050 }
    const thoughts = { input_tokens: 1000, output_tokens: 50 }
    const cost = String(1000 * prices.inputUsdPerMTok * 1000 + 50 * prices.outputUsdPerMTok * 1000)
    for (const [what, kind, answer, stream] of [
      [
        "a completion whose model thought up to its limit",
        "chat",
        answering({ ...choice({ message: nullMessage }, "length"), usage }),
        false
      ],
      ["a completion that was filtered", "chat", answering({ ...choice({}, "content_filter"), usage }), false],
      [
        "a message without blocks",
        "anthropic",
        answering({ type: "message", content: [], stop_reason: "end_turn", usage: thoughts }),
        false
      ],
      ["a streamed completion", "chat", sending(role, end, { choices: [], usage }, done), true],
      [
        "a streamed message",
        "anthropic",
        sending(
          ...events(
            Object.assign(
              { type: "message_start" },
              { message: { id: "m", content: [], usage: { ...thoughts, output_tokens: 0 } } }
            ),
            Object.assign(
              { type: "message_delta" },
              { delta: { stop_reason: "end_turn" }, usage: { output_tokens: 50 } }
            ),
            { type: "message_stop" }
          )
        ),
        true
      ]
    ] as const) {
      it.effect(`but tells its usage and its end, such as ${what}, is an answer`, () =>
        Effect.gen(function* () {
          const { key, service, tenantId } = yield* setUp(kind, answer)
          for (const path of chats) {
            const { status, text } = yield* readAll(service, key, path, { model: "both", stream, ...wires[path] })
            assert.strictEqual(status, 200, text)
            assert.notInclude(text, '"error":{')
          }
          assert.deepStrictEqual(
            (yield* charges(service, tenantId)).map(({ amount, method }) => `${amount} ${method}`),
            Array(chats.length).fill(`${cost} provider_usage`)
          )
        }).pipe(Effect.scoped)
      )
    }

    it.effect("and tells a usage without an end has failed, and is charged what it reports", () =>
      Effect.gen(function* () {
        const { key, service, tenantId } = yield* setUp("chat", answering({ choices: [], usage }))
        const body = { model: "both", ...wires["/v1/chat/completions"] }
        const { status, text } = yield* readAll(service, key, "/v1/chat/completions", body)
        assert.strictEqual(status, 200, text)
        const rows = yield* usageRows(service, tenantId)
        assert.deepStrictEqual(
          rows.map(({ method, provider: from, status: told }) => [from, method, told]),
          [
            ["empty", "provider_usage", 502],
            ["other", "provider_usage", 200]
          ]
        )
        assert.strictEqual(String(rows[0].cost), cost)
      }).pipe(Effect.scoped)
    )

    it.effect("is told in the stream where the caller was sent signs of life before", () =>
      Effect.gen(function* () {
        const gate = Promise.withResolvers<void>()
        const { key, service, tenantId } = yield* setUp(
          "chat",
          (_, response) => {
            sse(response, [": wait\n\n"])
            void gate.promise.then(() => {
              for (const event of [role, end]) response.write(`data: ${JSON.stringify(event)}\n\n`)
              response.end(done)
            })
          },
          { cache: true }
        )
        const answer = yield* Effect.promise(async () => {
          const body = JSON.stringify({ model: "both", stream: true, messages })
          const headers = { "x-api-key": key, "content-type": "application/json" }
          const received = await fetch(`${service.url}/v1/chat/completions`, { method: "POST", headers, body })
          let text = ""
          for await (const bytes of received.body ?? []) {
            text += new TextDecoder().decode(bytes)
            gate.resolve()
          }
          return text
        })
        assert.match(answer, /^:\n\n[^]*"error":\{"message":"The provider answered nothing\."[^\n]*\n\n$/)
        assert.deepStrictEqual(
          (yield* charges(service, tenantId)).map(({ amount, method }) => `${amount} ${method}`),
          ["0 released"]
        )
      }).pipe(Effect.scoped)
    )

    it.effect("does not hold back what says something", () =>
      Effect.gen(function* () {
        const { key, service } = yield* setUp("chat", (_, response) => {
          sse(response, [role, choice({ delta: { content: "Noon" } }, null)])
        })
        yield* Effect.promise(async () => {
          const body = JSON.stringify({ model: "alone", stream: true, messages })
          const headers = { "x-api-key": key, "content-type": "application/json" }
          const received = await fetch(`${service.url}/v1/chat/completions`, { method: "POST", headers, body })
          const reader = received.body?.getReader()
          const { value } = (await reader?.read()) ?? {}
          assert.include(new TextDecoder().decode(value), '"role":"assistant"')
          await reader?.cancel()
        })
      }).pipe(Effect.scoped)
    )
  }
)
