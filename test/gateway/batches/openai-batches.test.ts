import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as http from "node:http"
import { toFile } from "openai"
import { makeAgent, tokenOf } from "../../support/agents.ts"
import { makeKey } from "../../support/authority.ts"
import { startBatchVendor } from "../../support/batch-vendor.ts"
import {
  configureBatches,
  line,
  linesOf,
  openAiClient,
  openAiSetting,
  refusalOf,
  requestNanoUsd,
  submit,
  submitLines,
  upload,
  usage
} from "../../support/batches.ts"
import { charges, counters, spender, usageRows } from "../../support/gateway.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

const settledAt = (service: TestService["Service"], tenantId: string) =>
  eventually(charges(service, tenantId), (all) => all.length > 0 && all.every(({ state }) => state !== "open"))

/** The states of a tenant's batches, once none runs: each is closed just after what it holds. */
const statesOf = ({ database }: TestService["Service"], tenantId: string) =>
  eventually(
    asSuperuser(
      database,
      (sql) =>
        sql<{ readonly state: string }>`SELECT state FROM gateway_batches WHERE tenant_id = ${tenantId} ORDER BY id`
    ),
    (batches) => batches.every(({ state }) => state !== "running")
  )

const charged = (requests: number) => ({
  amount: String(requests * requestNanoUsd),
  state: "settled",
  method: "provider_usage"
})

/** A day's limit in dollars that these requests fit into: none is longer than 400 bytes. */
const dollarsFor = (requests: number) => (requests * (400 * 1000 + 1000 * 5000)) / 1e9

layer(serviceLayer({ Llm__Gateway__BatchPollSeconds: "1", Llm__Gateway__MaxBatchBytes: "100000" }), {
  excludeTestServices: true,
  timeout: "120 seconds"
})("/v1/batches", (it) => {
  it.effect("are uploaded, submitted, polled and charged at half the price, with OpenAI's SDK unchanged", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { client, tenantId, vendor } = yield* openAiSetting(service, [{ limit: 1 }])
      const file = yield* upload(client, linesOf(3))
      assert.strictEqual(file.purpose, "batch")
      assert.isFalse(vendor.files.has(file.id))
      const batch = yield* Effect.promise(() =>
        client.batches.create({
          input_file_id: file.id,
          endpoint: "/v1/chat/completions",
          completion_window: "24h",
          metadata: { job: "nightly" }
        })
      )
      assert.strictEqual(batch.input_file_id, file.id)
      assert.deepStrictEqual(batch.metadata, { job: "nightly" })
      assert.deepStrictEqual(
        vendor.batches.get("batch_1x")?.requests.map(({ params }) => [params.model, params.max_tokens]),
        Array.from({ length: 3 }, () => ["up-gpt", 1000])
      )
      assert.strictEqual((yield* charges(service, tenantId))[0]?.state, "open")
      vendor.end("batch_1x", "completed", () => ({ usage }))
      const ended = yield* Effect.promise(() => client.batches.retrieve(batch.id))
      assert.deepInclude(ended, { id: batch.id, status: "completed", error_file_id: null })
      const text = yield* Effect.promise(async () => (await client.files.content(ended.output_file_id ?? "")).text())
      assert.lengthOf(text.trim().split("\n"), 3)
      assert.deepStrictEqual(yield* settledAt(service, tenantId), [charged(3)])
      const [row] = yield* usageRows(service, tenantId)
      assert.deepInclude(row, {
        operation: "batch",
        dialect: "openai",
        inputTokens: 300,
        outputTokens: 30,
        model: "gpt",
        modelServed: "up-gpt",
        provider: "oa",
        latencyMs: null
      })
      assert.deepInclude(row.metadata, { requests: "3", completed: "3" })
      assert.deepStrictEqual(row.priceTerms, { tier: "batch" })
      assert.deepStrictEqual(
        [...(yield* counters(service, tenantId))],
        [{ spent: String(3 * requestNanoUsd), reserved: "0" }]
      )
      assert.deepStrictEqual(vendor.faults, [])
    }).pipe(Effect.scoped)
  )

  it.effect("charge what was completed of a batch that partly failed, expired or was cancelled, and nothing else", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const [status, other] of [
        ["completed", "errored"],
        ["expired", "expired"],
        ["cancelled", "canceled"]
      ] as const) {
        const { client, tenantId, vendor } = yield* openAiSetting(service, [{ limit: 1 }])
        const batch = yield* submitLines(client, linesOf(5))
        if (status === "cancelled") {
          const cancelling = yield* Effect.promise(() => client.batches.cancel(batch.id))
          assert.deepInclude(cancelling, { id: batch.id, status: "cancelling" })
          assert.strictEqual((yield* charges(service, tenantId))[0]?.state, "open")
        }
        vendor.end("batch_1x", status, (_, index) => (index < 2 ? { usage } : other))
        assert.deepStrictEqual(yield* settledAt(service, tenantId), [charged(2)])
        const ended = yield* Effect.promise(() => client.batches.retrieve(batch.id))
        const errors = yield* Effect.promise(async () => (await client.files.content(ended.error_file_id ?? "")).text())
        assert.lengthOf(errors.trim().split("\n"), 3)
      }
      const { client, tenantId, vendor } = yield* openAiSetting(service, [{ limit: 1 }])
      yield* submitLines(client, linesOf(2))
      vendor.end("batch_1x", "failed", () => "errored")
      const [only] = yield* settledAt(service, tenantId)
      assert.deepInclude(only, { amount: "0", state: "released" })
      assert.deepStrictEqual([...(yield* counters(service, tenantId))], [{ spent: "0", reserved: "0" }])
    }).pipe(Effect.scoped)
  )

  it.effect("are refused whole where a hard cap has room for half of them, and hold nothing then", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { client, tenantId, vendor } = yield* openAiSetting(service, [{ limit: dollarsFor(10) }])
      const file = yield* upload(client, linesOf(20))
      const refused = yield* refusalOf(() =>
        client.batches.create({
          input_file_id: file.id,
          endpoint: "/v1/chat/completions",
          completion_window: "24h"
        })
      )
      assert.deepInclude(refused, { status: 402, type: "insufficient_quota" })
      assert.strictEqual(vendor.batches.size, 0)
      assert.deepStrictEqual(
        [...(yield* counters(service, tenantId))].filter(({ reserved }) => reserved !== "0"),
        []
      )
      assert.deepStrictEqual(yield* statesOf(service, tenantId), [{ state: "released" }])
      yield* submitLines(client, linesOf(10))
      assert.strictEqual(vendor.batches.size, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("name the line of a request that is invalid, or has no bound where a cap asks for one", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { client, vendor } = yield* openAiSetting(service, [{ limit: 1 }])
      const fresh = line("b")
      const cases: ReadonlyArray<readonly [string, number, RegExp]> = [
        ["{", 400, /^Line 2: The body is no JSON object/],
        [line("a"), 400, /^Line 2: custom_id: Another request has this id/],
        [line("b", {}, { url: "/v1/embeddings" }), 400, /^Line 2: url: The requests before it/],
        [line("b", {}, { url: "/v1/files" }), 400, /^Line 2: url: Expected one of/],
        [line("b", {}, { method: "GET" }), 400, /^Line 2: method/],
        [line("b", { model: "nope" }), 404, /^Line 2: The model `nope` does not exist/],
        [line("b", { model: "loopback-1" }), 400, /^Line 2: model: No provider of it \(loopback\) takes batches/],
        [line("b", { stream: true }), 400, /^Line 2: stream/],
        [line("b", { service_tier: "priority" }), 400, /^Line 2: service_tier/],
        [line("b", { max_tokens: -1 }), 400, /^Line 2: max_tokens/],
        [line("b", { web_search_options: {} }), 403, /^Line 2: /],
        [`${fresh.slice(0, -1)},"custom_id":"c"}`, 400, /^Line 2: custom_id: The member is there twice/]
      ]
      for (const [second, status, message] of cases) {
        const refused = yield* refusalOf(async () =>
          client.files.create({
            file: await toFile(Buffer.from(`${line("a")}\n${second}\n`), "input.jsonl"),
            purpose: "batch"
          })
        )
        assert.strictEqual(refused.status, status, `${second}: ${refused.message}`)
        assert.match(String((refused.error as { readonly message: string }).message), message)
      }
      for (const [content, purpose, param] of [
        ["\n\n", "batch", "file"],
        [line("a"), "fine-tune", "purpose"]
      ] as const) {
        const refused = yield* refusalOf(async () =>
          client.files.create({ file: await toFile(Buffer.from(content), "input.jsonl"), purpose })
        )
        assert.deepInclude(refused, { status: 400, param })
      }
      const large = linesOf(100, { user: "u".repeat(1000) })
      const refused = yield* refusalOf(async () =>
        client.files.create({ file: await toFile(Buffer.from(large), "input.jsonl"), purpose: "batch" })
      )
      assert.strictEqual(refused.status, 413, refused.message)
      assert.strictEqual(vendor.files.size, 0)
    }).pipe(Effect.scoped)
  )

  it.effect("are not there of an upload that breaks off, nor of one whose purpose comes late and is another", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { client, key, vendor } = yield* openAiSetting(service, [])
      const head = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'
      const send = (rest: string, length: number) =>
        Effect.callback<number | "closed">((resume) => {
          const headers = {
            "x-api-key": key,
            "content-type": "multipart/form-data; boundary=b",
            "content-length": length
          }
          const request = http.request(`${service.url}/v1/files`, { method: "POST", headers })
          request.on("response", ({ statusCode = 0 }) => resume(Effect.succeed(statusCode)))
          request.on("error", () => resume(Effect.succeed("closed")))
          request.write(`${head}${line("a")}\n${rest}`, () => {
            if (length > head.length + 10_000) request.destroy()
            else request.end()
          })
        })
      assert.strictEqual(yield* send(line("b"), 50_000), "closed")
      const late = '\r\n--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n--b--\r\n'
      assert.strictEqual(yield* send(late, head.length + line("a").length + 1 + late.length), 400)
      // What comes after it is whole.
      yield* upload(client, linesOf(1))
      assert.strictEqual(vendor.files.size, 1)
      assert.lengthOf(yield* Effect.promise(async () => (await client.files.list()).data), 1)
    }).pipe(Effect.scoped)
  )

  it.effect("take what the caller repeats neither twice nor from others, and list what there is", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { client, tenantId, vendor } = yield* openAiSetting(service, [])
      const ids: Array<string> = []
      for (const count of [1, 2, 3]) ids.push((yield* submitLines(client, linesOf(count))).id)
      const listed = yield* Effect.promise(async () => {
        const found: Array<string> = []
        for await (const batch of client.batches.list({ limit: 2 })) found.push(batch.id)
        return found
      })
      assert.deepStrictEqual(listed, ids.toReversed())
      const files = yield* Effect.promise(async () => {
        const found: Array<string> = []
        for await (const file of client.files.list({ limit: 2, purpose: "batch" })) found.push(file.id)
        return found
      })
      assert.lengthOf(files, 3)
      const other = yield* spender(service, [])
      const others = openAiClient(service, other.key)
      for (const request of [
        () => others.batches.retrieve(ids[0] ?? ""),
        () => others.batches.cancel(ids[0] ?? ""),
        () => others.files.retrieve(files[0] ?? ""),
        () => others.files.content(files[0] ?? ""),
        () => others.files.delete(files[0] ?? ""),
        () =>
          others.batches.create({
            input_file_id: files[0] ?? "",
            endpoint: "/v1/chat/completions",
            completion_window: "24h"
          }),
        // Neither are the provider's own ids of any use, nor what was not uploaded here.
        () => client.batches.retrieve("batch_1x"),
        () => client.files.content("file-1x")
      ]) {
        assert.strictEqual((yield* refusalOf(request)).status, 404)
      }
      assert.lengthOf(yield* Effect.promise(async () => (await others.batches.list()).data), 0)
      const same = yield* makeKey(service, ["llm:*"], { tenantId })
      const colleague = openAiClient(service, same.key)
      assert.strictEqual((yield* Effect.promise(() => colleague.batches.retrieve(ids[0] ?? ""))).id, ids[0])
      const shown = yield* Effect.promise(() => client.files.retrieve(files[0] ?? ""))
      assert.deepInclude(shown, { id: files[0], filename: "input.jsonl" })
      const removed = yield* Effect.promise(() => client.files.delete(files[0] ?? ""))
      assert.deepStrictEqual(removed, { id: files[0] ?? "", object: "file", deleted: true })
      assert.strictEqual(vendor.files.size, 2)
      assert.strictEqual((yield* refusalOf(() => client.files.retrieve(files[0] ?? ""))).status, 404)
    }).pipe(Effect.scoped)
  )

  it.effect("are charged once when the provider was unreachable as they ended, and by two replicas", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      yield* service.replica
      const { client, tenantId, vendor } = yield* openAiSetting(service, [{ limit: 1 }])
      yield* submitLines(client, linesOf(4))
      vendor.interfere = (_, response) => {
        response.destroy()
        return "handled"
      }
      vendor.end("batch_1x", "completed", () => ({ usage }))
      const asked = vendor.log.length
      yield* eventually(
        Effect.sync(() => vendor.log.length),
        (count) => count >= asked + 2
      )
      assert.strictEqual((yield* charges(service, tenantId))[0]?.state, "open")
      // Results that break off are read again, from their beginning.
      let broken = 0
      vendor.interfere = ({ path }, response) => {
        if (!path.endsWith("/content") || broken++ > 0) return undefined
        response.writeHead(200, { "content-type": "application/x-ndjson", "content-length": "100000" })
        response.write('{"custom_id":"r0","response":{"status_code":200,"body":{"usage":{}}}}\n', () =>
          response.destroy()
        )
        return "handled"
      }
      assert.deepStrictEqual(yield* settledAt(service, tenantId), [charged(4)])
      assert.isAtLeast(broken, 2)
      assert.deepStrictEqual(yield* statesOf(service, tenantId), [{ state: "settled" }])
    }).pipe(Effect.scoped)
  )

  it.effect("keep what they hold while nothing is known of their submission, and are found again", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { client, key, tenantId, vendor } = yield* openAiSetting(service, [{ limit: 1 }])
      const file = yield* upload(client, linesOf(2))
      // The provider has the batch, and its answer is lost.
      vendor.interfere = ({ method, path }) => (method === "POST" && path === "/v1/batches" ? "lost" : undefined)
      const made = yield* service.call("POST", "/v1/batches", {
        key,
        body: { input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" }
      })
      assert.deepStrictEqual([made.status, made.headers.get("x-should-retry")], [502, "false"], made.text)
      vendor.interfere = () => undefined
      const [found] = yield* eventually(
        Effect.promise(async () => (await client.batches.list()).data),
        ({ length }) => length > 0
      )
      assert.strictEqual(found?.metadata, null)
      vendor.end("batch_1x", "completed", () => ({ usage }))
      assert.deepStrictEqual(yield* settledAt(service, tenantId), [charged(2)])
      // A refusal is an answer.
      vendor.files.clear()
      const refused = yield* refusalOf(() =>
        client.batches.create({
          input_file_id: file.id,
          endpoint: "/v1/chat/completions",
          completion_window: "24h"
        })
      )
      assert.strictEqual(refused.status, 400)
      assert.deepStrictEqual(
        (yield* statesOf(service, tenantId)).map(({ state }) => state),
        ["settled", "released"]
      )
      assert.deepStrictEqual(
        [...(yield* counters(service, tenantId))],
        [{ spent: String(2 * requestNanoUsd), reserved: "0" }]
      )
    }).pipe(Effect.scoped)
  )

  it.effect("are made once under an Idempotency-Key, and limited by the agent's budget for one call", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { client, key, tenantId, vendor } = yield* openAiSetting(service, [{ limit: 1 }])
      const file = yield* upload(client, linesOf(2))
      const create = service.call("POST", "/v1/batches", {
        key,
        headers: { "idempotency-key": "nightly" },
        body: { input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" }
      })
      const made = yield* create
      assert.strictEqual(made.status, 200, made.text)
      assert.match(made.headers.get("x-reservation-id") ?? "", /^[0-9a-f-]{36}$/)
      assert.strictEqual((yield* create).status, 409)
      vendor.end("batch_1x", "completed", () => ({ usage }))
      yield* settledAt(service, tenantId)
      const again = yield* create
      assert.deepStrictEqual([again.status, again.body.error.code], [409, "already_completed"], again.text)
      assert.strictEqual(vendor.batches.size, 1)

      const clientOf = (members: object) =>
        Effect.gen(function* () {
          const agent = yield* makeAgent(service, { tenantId, ...members })
          return openAiClient(service, (yield* tokenOf(service, agent)).accessToken)
        })
      const agent = yield* clientOf({ perTurnBudget: dollarsFor(1) })
      const one = yield* upload(agent, linesOf(1))
      const two = yield* upload(agent, linesOf(2))
      const tooLarge = yield* refusalOf(() =>
        agent.batches.create({
          input_file_id: two.id,
          endpoint: "/v1/chat/completions",
          completion_window: "24h"
        })
      )
      assert.deepInclude(tooLarge, { status: 402, code: "request_exceeds_budget" })
      const batch = yield* submit(agent, one.id)
      // Its tenant sees what an agent made, another agent does not.
      assert.strictEqual((yield* Effect.promise(() => client.batches.retrieve(batch.id))).id, batch.id)
      const other = yield* clientOf({})
      const hidden = yield* refusalOf(() => other.batches.retrieve(batch.id))
      assert.strictEqual(hidden.status, 404)
    }).pipe(Effect.scoped)
  )

  it.effect("are submitted by the prices and the caps that their file was read with, or not at all", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const vendor = yield* startBatchVendor("openai")
      yield* configureBatches(service, vendor)
      const { key, tenantId } = yield* spender(service, [])
      const client = openAiClient(service, key)
      const unlimited = yield* upload(client, linesOf(1))
      const cap = { tenantId, name: "late", unit: "usd", period: "total", limit: 1 }
      assert.strictEqual((yield* service.call("POST", "/api/budgets/caps", { body: cap })).status, 201)
      const refused = yield* eventually(
        refusalOf(() =>
          client.batches.create({
            input_file_id: unlimited.id,
            endpoint: "/v1/chat/completions",
            completion_window: "24h"
          })
        ),
        ({ status }) => status === 400
      )
      assert.match(refused.message, /upload it again/)
      const again = yield* upload(client, linesOf(1))
      const other = { input_file_id: again.id, completion_window: "24h" } as const
      const endpoint = yield* refusalOf(() => client.batches.create({ ...other, endpoint: "/v1/embeddings" }))
      assert.deepInclude(endpoint, { status: 400, param: "endpoint" })
      yield* submit(client, again.id)
      assert.strictEqual(vendor.batches.size, 1)
    }).pipe(Effect.scoped)
  )
})
