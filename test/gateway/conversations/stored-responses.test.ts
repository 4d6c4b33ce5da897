import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { configure, model, provider, spender } from "../../support/gateway.ts"
import { type Answerer, json, startProvider } from "../../support/provider.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { openAiVendor, said } from "../../support/vendors.ts"

const maxTurnBytes = 20_000
const limits = serviceLayer({
  Llm__Gateway__StoredResponses__MaxReferences: "5",
  Llm__Gateway__StoredResponses__MaxTurns: "4",
  Llm__Gateway__StoredResponses__MaxBytes: "40000",
  Llm__Gateway__StoredResponses__MaxTurnBytes: `${maxTurnBytes}`,
  Llm__Gateway__StoredResponses__MaxTenantBytes: "120000"
})

const setUp = Effect.gen(function* () {
  const service = yield* TestService
  const standIn = yield* startProvider(openAiVendor)
  yield* configure(
    service,
    [provider("oa", standIn)],
    [
      model("gpt", ["oa"]),
      // (400 - 50) tokens of 3 bytes are read of a request that may answer 50.
      model("forgetful", ["oa"], { contextTokens: 400 })
    ]
  )
  const { key, tenantId } = yield* spender(service, [])
  const send = (body: object, path = "/v1/responses") =>
    service.call("POST", path, { key, body: { model: "gpt", max_output_tokens: 50, ...body } })
  const created = Effect.fnUntraced(function* (body: object) {
    const answer = yield* send(body)
    assert.strictEqual(answer.status, 200, answer.text)
    return answer.body
  })
  const get = (path: string) => service.call("GET", `/v1/responses/${path}`, { key })
  const storedBytes = asSuperuser(
    service.database,
    (sql) => sql<{ readonly bytes: number }>`
      SELECT coalesce(sum(octet_length(sealed)), 0)::integer AS bytes FROM gateway_responses WHERE tenant_id = ${tenantId}`
  ).pipe(Effect.map(([row]) => row?.bytes ?? 0))
  /** The texts of the messages that the provider got last. */
  const sent = (): ReadonlyArray<string> =>
    standIn.requests
      .at(-1)
      ?.body.messages.map(({ content }: { readonly content: string | ReadonlyArray<{ readonly text: string }> }) =>
        typeof content === "string" ? content : content[0]?.text
      )
  return { created, get, key, send, sent, service, standIn, storedBytes, tenantId }
})

const chunk = (members: object) => `data: ${JSON.stringify({ id: "c", ...members })}\n\n`

const says =
  (content: string): Answerer =>
  ({ body }, response) => {
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
    if (body.stream !== true) {
      const message = { role: "assistant", content }
      return json(response, 200, { id: "c", choices: [{ index: 0, message, finish_reason: "stop" }], usage })
    }
    response.writeHead(200, { "content-type": "text/event-stream" })
    response.write(chunk({ choices: [{ index: 0, delta: { content }, finish_reason: "stop" }] }))
    response.write(chunk({ choices: [], usage }))
    response.end("data: [DONE]\n\n")
  }

const reference = (item: { readonly id: string }) => ({ type: "item_reference", id: item.id })
const user = (content: string) => ({ role: "user", content })
const large = "x".repeat(15_000)

layer(limits, { excludeTestServices: true, timeout: "60 seconds" })("stored responses", (it) => {
  it.effect("are read once for any number of references, of which a request has a limited number", () =>
    Effect.gen(function* () {
      const { created, send, sent, standIn } = yield* setUp
      standIn.answer = says(large)
      const { output } = yield* created({ input: "Hi" })
      standIn.answer = openAiVendor
      const input = [...Array.from({ length: 5 }, () => reference(output[0])), user("Hi")]
      // Five times its bytes would be more than a request may read.
      yield* created({ input, store: false })
      assert.deepStrictEqual(sent(), [large.repeat(5), "Hi"])
      const requests = standIn.requests.length
      for (const path of ["/v1/responses", "/v1/responses/input_tokens", "/v1/responses/compact"]) {
        const refused = yield* send({ input: [reference(output[0]), ...input] }, path)
        assert.strictEqual(refused.status, 400, refused.text)
        assert.include(refused.body.error.message, "Llm:Gateway:StoredResponses:MaxReferences")
      }
      assert.lengthOf(standIn.requests, requests)
    }).pipe(Effect.scoped)
  )

  it.effect("are read up to a limit of bytes, of items and conversations alike", () =>
    Effect.gen(function* () {
      const { created, send, sent, standIn } = yield* setUp
      standIn.answer = says(large)
      const first = yield* created({ input: "One" })
      const second = yield* created({ input: "Two", previous_response_id: first.id })
      const third = yield* created({ input: "Three", previous_response_id: second.id })
      const requests = standIn.requests.length
      const references = [first, second, third].map(({ output }) => reference(output[0]))
      for (const [body, param] of [
        [{ input: [...references, user("Hi")] }, "input"],
        [{ input: "Four", previous_response_id: third.id }, "previous_response_id"],
        [{ input: references.slice(0, 1), previous_response_id: third.id }, "previous_response_id"]
      ] as const) {
        const refused = yield* send(body)
        assert.strictEqual(refused.status, 400, refused.text)
        assert.deepInclude(refused.body.error, { code: "context_length_exceeded", param })
        assert.include(refused.body.error.message, "Llm:Gateway:StoredResponses:MaxBytes")
      }
      assert.lengthOf(standIn.requests, requests)
      yield* created({ input: "Four", previous_response_id: third.id, truncation: "auto" })
      assert.deepStrictEqual(sent(), ["Two", large, "Three", large, "Four"])
    }).pipe(Effect.scoped)
  )

  it.effect("are read up to a limit of turns", () =>
    Effect.gen(function* () {
      const { created, send, sent } = yield* setUp
      let last: { readonly id: string } | undefined
      for (const input of ["1", "2", "3", "4", "5"]) {
        last = yield* created({ input, ...(last === undefined ? {} : { previous_response_id: last.id }) })
      }
      const refused = yield* send({ input: "6", previous_response_id: last?.id })
      assert.strictEqual(refused.status, 400, refused.text)
      assert.include(refused.body.error.message, "Llm:Gateway:StoredResponses:MaxTurns")
      yield* created({ input: "6", previous_response_id: last?.id, truncation: "auto" })
      assert.deepStrictEqual(sent(), ["2", said, "3", said, "4", said, "5", said, "6"])
    }).pipe(Effect.scoped)
  )

  it.effect("are refused before the call where they would be too large, and sent where they are not to be stored", () =>
    Effect.gen(function* () {
      const { created, send, standIn } = yield* setUp
      const text = "x".repeat(maxTurnBytes)
      for (const body of [
        { input: text },
        { input: "Hi", instructions: text },
        { input: "Hi", stream: true, tools: [{ type: "function", name: "f", description: text }] }
      ]) {
        const refused = yield* send(body)
        assert.strictEqual(refused.status, 400, refused.text)
        assert.include(refused.body.error.message, "Llm:Gateway:StoredResponses:MaxTurnBytes")
        assert.include(refused.body.error.message, "store: false")
      }
      assert.isEmpty(standIn.requests)
      yield* created({ input: text, store: false })
    }).pipe(Effect.scoped)
  )

  it.effect("say that they are not stored where the answer makes them too large", () =>
    Effect.gen(function* () {
      const { created, get, key, service, standIn } = yield* setUp
      standIn.answer = says("x".repeat(maxTurnBytes))
      const whole = yield* created({ input: "Hi" })
      assert.strictEqual(whole.store, false)
      const body = JSON.stringify({ model: "gpt", input: "Hi", stream: true })
      const headers = { "x-api-key": key, "content-type": "application/json" }
      const text = yield* Effect.promise(async () =>
        (await fetch(`${service.url}/v1/responses`, { method: "POST", headers, body })).text()
      )
      const data = text.split("\n").filter((line) => line.startsWith("data: "))
      const { response } = JSON.parse(data.at(-1)?.slice("data: ".length) ?? "{}")
      assert.deepInclude(response, { status: "completed", store: false })
      for (const { id } of [whole, response]) assert.strictEqual((yield* get(id)).status, 404)
    }).pipe(Effect.scoped)
  )

  it.effect("are stored up to the limit, and never one that is sealed in more", () =>
    Effect.gen(function* () {
      const { created, standIn, storedBytes } = yield* setUp
      const storedOf = Effect.fnUntraced(function* (length: number) {
        const before = yield* storedBytes
        standIn.answer = says("x".repeat(length))
        const { store } = yield* created({ input: "Hi" })
        return { store: store as boolean, bytes: (yield* storedBytes) - before }
      })
      const rest = (yield* storedOf(10_000)).bytes - 10_000
      const largest = maxTurnBytes - rest
      // Sealing adds at most 64 bytes, which are in the rest.
      const fits = yield* storedOf(largest - 64)
      assert.deepStrictEqual(fits, { store: true, bytes: maxTurnBytes - 64 })
      assert.deepStrictEqual(yield* storedOf(largest + 1), { store: false, bytes: 0 })
    }).pipe(Effect.scoped)
  )

  it.effect("of a tenant are limited in bytes: more are answered, and stored for none who relies on that", () =>
    Effect.gen(function* () {
      const { created, get, send, standIn, storedBytes } = yield* setUp
      standIn.answer = says(large)
      const stored: Array<{ readonly id: string }> = []
      while ((yield* storedBytes) < 120_000) stored.push(yield* created({ input: "Hi" }))
      standIn.answer = openAiVendor
      const requests = standIn.requests.length
      const unstored = yield* created({ input: "Hi" })
      assert.strictEqual(unstored.store, false)
      assert.strictEqual((yield* get(unstored.id)).status, 404)
      for (const body of [{ store: true }, { previous_response_id: stored[0]?.id }]) {
        const refused = yield* send({ input: "Hi", ...body })
        assert.strictEqual(refused.status, 400, refused.text)
        assert.strictEqual(refused.body.error.code, "storage_limit_exceeded")
        assert.include(refused.body.error.message, "Llm:Gateway:StoredResponses:MaxTenantBytes")
      }
      assert.lengthOf(standIn.requests, requests + 1)
      yield* created({ input: "Hi", store: false, previous_response_id: stored[0]?.id })
      // Another tenant has its own.
      const other = yield* setUp
      assert.strictEqual((yield* other.created({ input: "Hi" })).store, true)
      const { id = "" } = stored[0] ?? {}
      const { service, key } = other
      assert.strictEqual((yield* service.call("DELETE", `/v1/responses/${id}`, { key })).status, 404)
    }).pipe(Effect.scoped)
  )

  it.effect("are stored again once room was made", () =>
    Effect.gen(function* () {
      const { created, key, service, standIn, storedBytes } = yield* setUp
      standIn.answer = says(large)
      const stored: Array<{ readonly id: string }> = []
      while ((yield* storedBytes) < 120_000) stored.push(yield* created({ input: "Hi" }))
      assert.strictEqual((yield* created({ input: "Hi" })).store, false)
      const removed = yield* service.call("DELETE", `/v1/responses/${stored[0]?.id}`, { key })
      assert.strictEqual(removed.status, 200)
      assert.strictEqual((yield* created({ input: "Hi" })).store, true)
    }).pipe(Effect.scoped)
  )

  it.effect("contain what the model was given, which is where the next turn goes on", () =>
    Effect.gen(function* () {
      const { created, get, sent, service, storedBytes, tenantId } = yield* setUp
      const before = yield* created({ input: "Before" })
      const known = yield* storedBytes
      // More than a stored turn may have, of which the model is given the end.
      const input = [...Array.from({ length: 10 }, () => user("y".repeat(3000))), user("Now")]
      const auto = { model: "forgetful", truncation: "auto" }
      const next = yield* created({ ...auto, input, previous_response_id: before.id })
      assert.deepStrictEqual(sent(), ["Now"])
      assert.isBelow((yield* storedBytes) - known, 3000)
      const items = yield* get(`${next.id}/input_items`)
      assert.deepStrictEqual(
        items.body.data.map(({ content }: { readonly content: string }) => content),
        ["Now"]
      )
      yield* created({ input: "Then", previous_response_id: next.id })
      assert.deepStrictEqual(sent(), ["Now", said, "Then"])
      // Nothing before it is needed any more, but what a model reads is.
      const expire = (id: string) =>
        asSuperuser(
          service.database,
          (sql) => sql`UPDATE gateway_responses SET created_at = created_at - interval '25 hours'
            WHERE tenant_id = ${tenantId} AND id = ${id.slice("resp_".length)}::uuid`
        )
      yield* expire(before.id)
      const long = yield* created({ input: "z".repeat(2000), previous_response_id: next.id })
      yield* expire(next.id)
      yield* created({ ...auto, input: "Last", previous_response_id: long.id })
      assert.deepStrictEqual(sent(), [said, "Last"])
    }).pipe(Effect.scoped)
  )

  it.effect("keep references as references: the turns of a conversation do not contain all before them", () =>
    Effect.gen(function* () {
      const { created, get, key, send, sent, service, standIn, storedBytes } = yield* setUp
      standIn.answer = says(large)
      const first = yield* created({ input: "One" })
      standIn.answer = openAiVendor
      const known = yield* storedBytes
      const input = [user("One"), reference(first.output[0]), user("Two")]
      const second = yield* created({ input })
      assert.deepStrictEqual(sent(), ["One", large, "Two"])
      assert.isBelow((yield* storedBytes) - known, 3000)
      const shown = yield* get(`${second.id}/input_items?order=asc`)
      assert.deepInclude(shown.body.data[1], { id: first.output[0].id, type: "message" })
      yield* created({ input: "Three", previous_response_id: second.id })
      assert.deepStrictEqual(sent(), ["One", large, "Two", said, "Three"])
      assert.strictEqual((yield* service.call("DELETE", `/v1/responses/${first.id}`, { key })).status, 200)
      const gone = yield* send({ input: "Three", previous_response_id: second.id })
      assert.deepStrictEqual([gone.status, gone.body.error.code], [404, "previous_response_not_found"])
      const left = yield* get(`${second.id}/input_items?order=asc`)
      assert.deepInclude(left.body.data[1], { id: first.output[0].id, type: "item_reference" })
    }).pipe(Effect.scoped)
  )
})

layer(serviceLayer({ Database__AcquireTimeoutSeconds: "1" }), { excludeTestServices: true, timeout: "60 seconds" })(
  "stored responses that cannot be read",
  (it) => {
    it.effect("are what a request at its time limit is answered with, and not the ledger", () =>
      Effect.gen(function* () {
        const { created, get, send, service } = yield* setUp
        const { id } = yield* created({ input: "Hi" })
        const answers = yield* asSuperuser(service.database, (sql) =>
          sql.withTransaction(
            Effect.andThen(
              sql`LOCK TABLE gateway_responses IN ACCESS EXCLUSIVE MODE`,
              Effect.all([send({ input: "Hi", previous_response_id: id }), get(id)], { concurrency: "unbounded" })
            )
          )
        )
        for (const { body, status } of answers) {
          assert.strictEqual(status, 503)
          assert.include(body.error.message, "stored responses that the request refers to were not read in time")
        }
        assert.strictEqual((yield* get(id)).status, 200)
      }).pipe(Effect.scoped)
    )
  }
)
