import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import OpenAI, { toFile } from "openai"
import { startBatchVendor, vendorKey } from "../../support/batch-vendor.ts"
import { charges, configure, prices, spender, usageRows } from "../../support/gateway.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { eventually } from "../../support/waiting.ts"

const half = [{ when: { tier: "batch" }, factor: 0.5 }]

const setting = (caps: ReadonlyArray<object>) =>
  Effect.gen(function* () {
    const service = yield* TestService
    const vendor = yield* startBatchVendor("openai")
    const models = ["gpt", "mini"].map((id) => ({
      id,
      kind: "chat",
      prices: { ...prices, factors: half },
      maxOutputTokens: 1000,
      targets: [{ provider: "oa", model: `up-${id}` }]
    }))
    yield* configure(service, [{ id: "oa", dialect: "openai", baseUrl: `${vendor.url}/v1`, apiKey: vendorKey }], models)
    const { key, tenantId } = yield* spender(service, caps)
    const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: key, maxRetries: 0, timeout: 5000 })
    return { client, key, service, tenantId, vendor }
  })

const line = (id: string, body: object = {}) =>
  JSON.stringify({
    custom_id: id,
    method: "POST",
    url: "/v1/chat/completions",
    body: { model: "gpt", messages: [{ role: "user", content: `Question ${id}` }], ...body }
  })

const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }
/** What a line with this usage costs: half of the usual price. */
const lineNanoUsd = 100 * 1000 + 10 * 5000

layer(serviceLayer({ Llm__Gateway__BatchPollSeconds: "1" }), { excludeTestServices: true, timeout: "60 seconds" })(
  "/v1/batches",
  (it) => {
    it.effect("are uploaded, submitted, polled and charged at half the price, with OpenAI's SDK unchanged", () =>
      Effect.gen(function* () {
        const { client, service, tenantId, vendor } = yield* setting([{ limit: 1 }])
        const input = ["a", "b", "c"].map((id) => line(id)).join("\n")
        const file = yield* Effect.promise(async () =>
          client.files.create({ file: await toFile(Buffer.from(input), "input.jsonl"), purpose: "batch" })
        )
        assert.strictEqual(file.purpose, "batch")
        assert.notProperty(vendor.files.get("file-1x"), file.id)
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
          vendor.batches
            .get("batch_1x")
            ?.requests.map(({ params }) => [params.model, params.max_completion_tokens ?? params.max_tokens]),
          [
            ["up-gpt", 1000],
            ["up-gpt", 1000],
            ["up-gpt", 1000]
          ]
        )
        const [held] = yield* charges(service, tenantId)
        assert.strictEqual(held?.state, "open")
        vendor.end("batch_1x", "completed", () => ({ usage }))
        const ended = yield* Effect.promise(() => client.batches.retrieve(batch.id))
        assert.strictEqual(ended.status, "completed")
        const text = yield* Effect.promise(async () => (await client.files.content(ended.output_file_id ?? "")).text())
        assert.lengthOf(text.trim().split("\n"), 3)
        const settled = yield* eventually(charges(service, tenantId), (all) => all[0]?.state === "settled")
        assert.deepStrictEqual(settled, [
          { amount: String(3 * lineNanoUsd), state: "settled", method: "provider_usage" }
        ])
        const [row] = yield* usageRows(service, tenantId)
        assert.deepInclude(row, {
          operation: "batch",
          dialect: "openai",
          inputTokens: 300,
          outputTokens: 30,
          model: "gpt",
          modelServed: "up-gpt",
          provider: "oa"
        })
        assert.deepInclude(row.metadata, { requests: "3", completed: "3" })
        assert.deepStrictEqual(vendor.faults, [])
      }).pipe(Effect.scoped)
    )
  }
)
