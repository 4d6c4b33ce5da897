import Anthropic from "@anthropic-ai/sdk"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { startBatchVendor } from "../../support/batch-vendor.ts"
import { configureBatches, refusalOf } from "../../support/batches.ts"
import { charges, counters, spender, usageRows } from "../../support/gateway.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { eventually } from "../../support/waiting.ts"

const usage = {
  input_tokens: 60,
  output_tokens: 10,
  cache_read_input_tokens: 40,
  cache_creation_input_tokens: 20,
  service_tier: "batch"
}
/** Half of the prices of input, of what is read from a cache and written to it, and of output. */
const requestNanoUsd = 60 * 1000 + 40 * 250 + 20 * 1000 + 10 * 5000

const publicUrl = "https://gateway.example"

const request = (id: string, model: string) => ({
  custom_id: id,
  params: { model, max_tokens: 100, messages: [{ role: "user" as const, content: `Question ${id}` }] }
})

const setting = Effect.fnUntraced(function* (service: TestService["Service"], caps: ReadonlyArray<object>) {
  const vendor = yield* startBatchVendor("anthropic")
  yield* configureBatches(service, vendor, "anthropic")
  const { key, tenantId } = yield* spender(service, caps)
  const client = new Anthropic({
    baseURL: publicUrl,
    apiKey: key,
    maxRetries: 0,
    // As a proxy before the service does.
    fetch: (url, init) => fetch(String(url).replace(publicUrl, service.url), init)
  })
  return { client, key, tenantId, vendor }
})

layer(serviceLayer({ Llm__Gateway__BatchPollSeconds: "1", Api__PublicUrl: publicUrl }), {
  excludeTestServices: true,
  timeout: "120 seconds"
})("/v1/messages/batches", (it) => {
  it.effect("are submitted, read and charged per model, with Anthropic's SDK unchanged", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { client, tenantId, vendor } = yield* setting(service, [{ limit: 1 }])
      const requests = [request("a", "gpt"), request("b", "mini"), request("c", "mini"), request("d", "gpt")]
      const batch = yield* Effect.promise(() => client.messages.batches.create({ requests }))
      assert.deepInclude(batch, { processing_status: "in_progress", results_url: null })
      assert.deepStrictEqual(
        vendor.batches.get("msgbatch_1x")?.requests.map(({ params }) => params.model),
        ["up-gpt", "up-mini", "up-mini", "up-gpt"]
      )
      const canceling = yield* Effect.promise(() => client.messages.batches.cancel(batch.id))
      assert.strictEqual(canceling.processing_status, "canceling")
      vendor.end("msgbatch_1x", "ended", (_, index) => (index === 3 ? "canceled" : { usage }))
      const ended = yield* Effect.promise(() => client.messages.batches.retrieve(batch.id))
      assert.strictEqual(ended.results_url, `${publicUrl}/v1/messages/batches/${batch.id}/results`)
      const types = yield* Effect.promise(async () => {
        const found: Array<string> = []
        for await (const { custom_id: id, result } of await client.messages.batches.results(batch.id)) {
          found.push(`${id} ${result.type}`)
        }
        return found
      })
      assert.deepStrictEqual(types, ["a succeeded", "b succeeded", "c succeeded", "d canceled"])
      yield* eventually(charges(service, tenantId), (all) => all.every(({ state }) => state === "settled"))
      const rows = yield* usageRows(service, tenantId)
      assert.deepStrictEqual(
        rows.map(({ cost, inputTokens, metadata, model }) => [model, cost, inputTokens, metadata.completed]).toSorted(),
        [
          ["gpt", requestNanoUsd, 120, "1"],
          ["mini", 2 * requestNanoUsd, 240, "2"]
        ]
      )
      const listed = yield* Effect.promise(async () => (await client.messages.batches.list()).data)
      assert.deepStrictEqual(
        listed.map(({ id }) => id),
        [batch.id]
      )
      assert.deepStrictEqual(vendor.faults, [])
    }).pipe(Effect.scoped)
  )

  it.effect("hold all of their models or none, on the caps of each", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { client, tenantId, vendor } = yield* setting(service, [
        { limit: 1 },
        { limit: 0.000001, scope: { model: "mini" } }
      ])
      const one = request("a", "gpt")
      const refused = yield* refusalOf(() => client.messages.batches.create({ requests: [one, request("b", "mini")] }))
      assert.strictEqual(refused.status, 402, refused.message)
      assert.strictEqual(vendor.batches.size, 0)
      assert.deepStrictEqual(
        (yield* counters(service, tenantId)).filter(({ reserved }) => reserved !== "0"),
        []
      )
      yield* Effect.promise(() => client.messages.batches.create({ requests: [one] }))
      assert.strictEqual(vendor.batches.size, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("name the request that is invalid, or does not fit the provider", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { client, key, vendor } = yield* setting(service, [{ limit: 1 }])
      const first = request("a", "gpt")
      for (const [second, status, message] of [
        [request("a", "gpt"), 400, /requests\.1: custom_id: Another/],
        [request("b c", "gpt"), 400, /requests\.1: custom_id/],
        [request("b", "nope"), 404, /requests\.1: The model `nope`/],
        [request("b", "loopback-1"), 400, /requests\.1: model: No provider of it/]
      ] as const) {
        const refused = yield* refusalOf(() => client.messages.batches.create({ requests: [first, second] }))
        assert.strictEqual(refused.status, status)
        assert.match(refused.message, message)
      }
      for (const body of [
        "{",
        "[]",
        '{"requests":[{}',
        '{"requests":[]}',
        '{"requests":[],"mcp":1}',
        '{"requests":[]} x'
      ]) {
        const refused = yield* service.call("POST", "/v1/messages/batches", {
          key,
          body,
          headers: { "content-type": "application/json", "anthropic-version": "2023-06-01" }
        })
        assert.strictEqual(refused.status, 400, `${body}: ${refused.text}`)
        assert.strictEqual(refused.body.type, "error")
      }
      assert.strictEqual(vendor.batches.size, 0)
    }).pipe(Effect.scoped)
  )

  it.effect("are deleted at the provider too, once they are charged", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { client, key, tenantId, vendor } = yield* setting(service, [{ limit: 1 }])
      const ids: Array<string> = []
      for (const model of ["gpt", "mini"]) {
        const batch = yield* Effect.promise(() => client.messages.batches.create({ requests: [request("a", model)] }))
        ids.push(batch.id)
      }
      const [first = "", second = ""] = ids
      const running = yield* refusalOf(() => client.messages.batches.delete(first))
      assert.deepInclude(running, { status: 400, type: "invalid_request_error" })
      assert.match(running.message, /cancel it/)
      const stranger = yield* spender(service, [])
      const theirs = new Anthropic({ baseURL: service.url, apiKey: stranger.key, maxRetries: 0 })
      for (const remove of [
        () => theirs.messages.batches.delete(first),
        () => client.messages.batches.delete("msgbatch_1x"),
        () => client.messages.batches.delete("made-up")
      ]) {
        assert.deepInclude(yield* refusalOf(remove), { status: 404, type: "not_found_error" })
      }
      assert.strictEqual(vendor.batches.size, 2)

      // Its results are read before they are lost, however early they are no longer wanted: the SDK asks again.
      vendor.end("msgbatch_1x", "ended", () => ({ usage }))
      vendor.end("msgbatch_2x", "ended", () => ({ usage }))
      const patient = new Anthropic({ baseURL: service.url, apiKey: key })
      const deleted = yield* Effect.promise(() => patient.messages.batches.delete(first))
      assert.deepStrictEqual(deleted, { id: first, type: "message_batch_deleted" })
      const [row] = yield* usageRows(service, tenantId)
      assert.strictEqual(row?.cost, requestNanoUsd)
      assert.deepStrictEqual([...vendor.batches.keys()], ["msgbatch_2x"])
      assert.strictEqual((yield* refusalOf(() => client.messages.batches.retrieve(first))).status, 404)

      yield* eventually(charges(service, tenantId), (all) => all.every(({ state }) => state === "settled"))
      // What the provider has removed by itself is removed here.
      vendor.batches.clear()
      const gone = yield* eventually(
        refusalOf(() => client.messages.batches.delete(second)),
        ({ status }) => status === 404
      )
      assert.strictEqual(gone.type, "not_found_error")
      assert.deepStrictEqual(yield* Effect.promise(async () => (await client.messages.batches.list()).data), [])
      assert.lengthOf(yield* usageRows(service, tenantId), 2)
      assert.deepStrictEqual(vendor.faults, [])
    }).pipe(Effect.scoped)
  )
})
