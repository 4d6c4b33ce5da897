import { Effect } from "effect"
import OpenAI, { toFile } from "openai"
import { type BatchVendor, startBatchVendor, vendorKey } from "./batch-vendor.ts"
import { configure, prices, spender } from "./gateway.ts"
import { type TestService } from "./service.ts"

/** Batches cost half; what is written into a cache and read from it is priced apart from other input. */
export const batchPrices = { ...prices, factors: [{ when: { tier: "batch" }, factor: 0.5 }] }

export const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }
/** What a request with this usage costs in a batch: half of the usual price. */
export const requestNanoUsd = 100 * 1000 + 10 * 5000

/** A line of a file of requests. */
export const line = (id: string, body: object = {}, members: object = {}): string =>
  JSON.stringify({
    custom_id: id,
    method: "POST",
    url: "/v1/chat/completions",
    body: { model: "gpt", messages: [{ role: "user", content: `Question ${id}` }], ...body },
    ...members
  })

export const linesOf = (count: number, body: object = {}): string =>
  Array.from({ length: count }, (_, index) => line(`r${index}`, body)).join("\n")

type Service = Pick<TestService["Service"], "call" | "database" | "url">

/** The configuration of a stand-in with the models `gpt` and `mini`, whose requests have a limit of 1,000 tokens. */
export const batchDocument = ({ url }: Pick<BatchVendor, "url">, dialect: "openai" | "anthropic" = "openai") => ({
  providers: [{ id: "oa", dialect, baseUrl: dialect === "openai" ? `${url}/v1` : url, apiKey: vendorKey }],
  models: ["gpt", "mini"].map((id) => ({
    id,
    kind: "chat",
    prices: batchPrices,
    maxOutputTokens: 1000,
    targets: [{ provider: "oa", model: `up-${id}` }]
  }))
})

export const configureBatches = (
  service: TestService["Service"],
  vendor: Pick<BatchVendor, "url">,
  dialect?: "openai" | "anthropic"
) => {
  const { models, providers } = batchDocument(vendor, dialect)
  return configure(service, providers, models)
}

export const openAiClient = ({ url }: Pick<Service, "url">, key: string) =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 })

/** A stand-in of OpenAI, a tenant with caps, and a client of its. */
export const openAiSetting = Effect.fnUntraced(function* (
  service: TestService["Service"],
  caps: ReadonlyArray<object>
) {
  const vendor = yield* startBatchVendor("openai")
  yield* configureBatches(service, vendor)
  const { key, tenantId } = yield* spender(service, caps)
  return { client: openAiClient(service, key), key, tenantId, vendor }
})

export const upload = (client: OpenAI, content: string) =>
  Effect.promise(async () =>
    client.files.create({ file: await toFile(Buffer.from(content), "input.jsonl"), purpose: "batch" })
  )

export const submit = (client: OpenAI, file: string) =>
  Effect.promise(() =>
    client.batches.create({ input_file_id: file, endpoint: "/v1/chat/completions", completion_window: "24h" })
  )

/** Uploads requests, and submits them as a batch. */
export const submitLines = (client: OpenAI, content: string) =>
  Effect.flatMap(upload(client, content), ({ id }) => submit(client, id))

/** Why a request of an SDK was refused. */
export const refusalOf = (request: () => Promise<unknown>) =>
  Effect.promise(() =>
    request().then(
      () => {
        throw new Error("The request was not refused")
      },
      (error: InstanceType<typeof OpenAI.APIError>) => error
    )
  )
