import Anthropic from "@anthropic-ai/sdk"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import OpenAI from "openai"
import { whenCharged } from "../../support/gateway.ts"
import { type ProviderStandIn, json, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { anthropicVendor, openAiVendor } from "../../support/vendors.ts"

type Service = TestService["Service"]

/** Both vendors' stand-ins, behind a service that knows them. */
class Vendors extends Context.Service<
  Vendors,
  { readonly openai: ProviderStandIn; readonly anthropic: ProviderStandIn }
>()("test/Vendors") {}

const prices = { inputUsdPerMTok: 2, outputUsdPerMTok: 10, cacheReadUsdPerMTok: 0.5 }
const configured = (id: string, provider: string) => ({
  id,
  kind: "chat",
  prices,
  targets: [{ provider, model: `${id}-upstream` }]
})

const vendors = Layer.effect(
  Vendors,
  Effect.gen(function* () {
    const service = yield* TestService
    const openai = yield* startProvider(openAiVendor)
    const anthropic = yield* startProvider(anthropicVendor)
    const written = yield* service.call("PUT", "/api/llm/admin/config", {
      body: {
        providers: [
          { id: "oa", dialect: "openai", baseUrl: `${openai.url}/v1`, apiKey: "sk-openai" },
          { id: "an", dialect: "anthropic", baseUrl: anthropic.url, apiKey: "sk-anthropic" }
        ],
        models: [configured("gpt", "oa"), configured("claude", "an")],
        routing: { retries: 1, breaker: { failures: 1000 } }
      }
    })
    assert.strictEqual(written.status, 200, written.text)
    return { openai, anthropic }
  })
)

const openAiClient = ({ serviceKey, url }: Service) =>
  new OpenAI({ apiKey: serviceKey, baseURL: `${url}/v1`, maxRetries: 0 })
const anthropicClient = ({ serviceKey, url }: Service) =>
  new Anthropic({ apiKey: serviceKey, baseURL: url, maxRetries: 0 })

const reservations = (service: Service) =>
  whenCharged(
    service,
    (sql) => sql<{ readonly state: string; readonly actual: string | null; readonly method: string | null }>`
      SELECT r.state, r.actual::text, u.method FROM budget_reservations r
      LEFT JOIN usage_rows u ON u.tenant_id = r.tenant_id AND u.reservation_id = r.id
      ORDER BY r.id`
  )
const last = (service: Service) => Effect.map(reservations(service), (rows) => rows.at(-1))

const promised = <A>(work: () => Promise<A>) => Effect.promise(work)
const failing = (work: () => Promise<unknown>) =>
  Effect.promise(() =>
    work().then(
      () => assert.fail("it succeeded"),
      // oxlint-disable-next-line typescript/no-explicit-any -- errors of two SDKs
      (error: any) => error
    )
  )

const chat = (model: string) => ({ model, messages: [{ role: "user" as const, content: "What time is it?" }] })
const service = sharedServiceLayer

layer(vendors.pipe(Layer.provideMerge(service)), { excludeTestServices: true, timeout: "60 seconds" })(
  "the SDKs",
  (it) => {
    for (const model of ["gpt", "claude"]) {
      it.effect(`errors of the provider of a ${model} are told in the SDK's own words, and cost nothing`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const standIns = yield* Vendors
          const standIn = model === "gpt" ? standIns.openai : standIns.anthropic
          const usual = standIn.answer
          for (const [status, name] of [
            [400, "BadRequestError"],
            [429, "RateLimitError"],
            [500, "InternalServerError"]
          ] as const) {
            const asked = standIn.requests.length
            const body = { type: "error", error: { type: "some_error", message: "No luck." } }
            standIn.answer = (_, response) => json(response, status, body)
            const one = yield* failing(() => openAiClient(service).chat.completions.create(chat(model)))
            const other = yield* failing(() =>
              anthropicClient(service).messages.create({ ...chat(model), max_tokens: 9 })
            )
            for (const error of [one, other]) {
              assert.strictEqual(error.constructor.name, name)
              assert.match(error.message, /No luck\./)
              if (status === 500) assert.include(error.message, `The provider ${model === "gpt" ? "oa" : "an"} failed`)
            }
            assert.strictEqual(standIn.requests.length - asked, status === 400 ? 2 : 4, "tries")
            assert.deepStrictEqual(yield* last(service), { state: "released", actual: null, method: "released" })
          }
          standIn.answer = usual
        })
      )
    }

    it.effect("both: what the gateway refuses itself", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        for (const error of [
          yield* failing(() => openAiClient(service).chat.completions.create(chat("nothing"))),
          yield* failing(() => anthropicClient(service).messages.create({ ...chat("nothing"), max_tokens: 1 }))
        ]) {
          assert.strictEqual(error.constructor.name, "NotFoundError")
          assert.isNotEmpty(error.requestID)
        }
        const nobody = { ...service, serviceKey: "amk_nobody" }
        for (const error of [
          yield* failing(() => openAiClient(nobody).chat.completions.create(chat("gpt"))),
          yield* failing(() => anthropicClient(nobody).messages.create({ ...chat("gpt"), max_tokens: 1 }))
        ]) {
          assert.strictEqual(error.constructor.name, "AuthenticationError")
        }
        const untranslatable = yield* failing(() =>
          openAiClient(service).chat.completions.create({ ...chat("claude"), n: 2 })
        )
        assert.strictEqual(untranslatable.constructor.name, "BadRequestError")
        assert.strictEqual(untranslatable.param, "n")
      })
    )

    it.effect("the provider sees its own key, and nothing of the caller's", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { openai } = yield* Vendors
        yield* promised(() =>
          openAiClient(service).chat.completions.create(chat("gpt"), {
            headers: { cookie: "a=b", "x-own": "1", "openai-beta": "x" }
          })
        )
        const { body, headers } = openai.requests.at(-1) ?? assert.fail("none")
        assert.strictEqual(headers.authorization, "Bearer sk-openai")
        assert.strictEqual(headers["openai-beta"], "x")
        for (const name of ["cookie", "x-own", "x-api-key", "traceparent", "x-stainless-lang"])
          assert.isUndefined(headers[name])
        assert.deepStrictEqual(body, { ...chat("gpt"), model: "gpt-upstream" })
      })
    )
  }
)
