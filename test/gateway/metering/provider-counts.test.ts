import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { acknowledgeBounds, ask, asks, configure, model, provider, spender, usageRows } from "../../support/gateway.ts"
import { type Answerer, json, startProvider } from "../../support/provider.ts"
import { makeResponsesVendor } from "../../support/responses-vendor.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { anthropicVendor, openAiVendor } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"

const path = "/v1/messages/count_tokens"
/** Four thousand bytes, of which a token is four. */
const long = "The quick brown fox jumps over the lazy dog. ".repeat(90)
const turn = (role: string, content: string) => ({ role, content })

const counting =
  (counts: boolean): Answerer =>
  (request, response) => {
    if (request.path !== path) return anthropicVendor(request, response)
    if (counts) json(response, 200, { input_tokens: 1000 })
    else json(response, 404, { type: "error", error: { type: "not_found_error", message: "No." } })
  }

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })(
  "calls that do not fit by their bytes",
  (it) => {
    it.effect("are admitted by the provider's own count, which is asked once for each conversation", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const standIn = yield* startProvider(counting(true))
        const an = provider("an", standIn, { dialect: "anthropic", baseUrl: standIn.url })
        yield* configure(service, [an], [model("claude", ["an"])])
        const { key } = yield* spender(service, [{ limit: 0.005 }])
        const send = (messages: ReadonlyArray<object>) =>
          asks(service, key, "/v1/messages", {
            model: "claude",
            max_tokens: 30,
            messages,
            metadata: { user_id: "one" }
          })
        const first = yield* send([turn("user", long)])
        assert.strictEqual(first.status, 200, first.text)
        const counted = () => standIn.requests.filter((request) => request.path === path)
        assert.deepStrictEqual(Object.keys(counted()[0]?.body), ["model", "messages"])
        // What follows is bounded by its bytes.
        const next = yield* send([turn("user", long), turn("assistant", "Yes."), turn("user", "And now?")])
        assert.strictEqual(next.status, 200, next.text)
        // A chat completion is counted as its provider gets it.
        const chat = { model: "claude", max_tokens: 30, messages: [turn("system", "Be brief."), turn("user", long)] }
        assert.strictEqual((yield* ask(service, key, chat)).status, 200)
        assert.lengthOf(counted(), 2)
      }).pipe(Effect.scoped)
    )

    it.effect("wait for an approval for what is counted, and only where that does not fit", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const standIn = yield* startProvider(counting(true))
        const an = provider("an", standIn, { dialect: "anthropic", baseUrl: standIn.url })
        yield* configure(service, [an], [model("claude", ["an"])])
        const { key, tenantId } = yield* spender(service, [{ limit: 0.005, mode: "approval" }])
        const send = (max_tokens: number) =>
          asks(service, key, "/v1/messages", { model: "claude", max_tokens, messages: [turn("user", long)] })
        const first = yield* send(30)
        assert.strictEqual(first.status, 200, first.text)
        const waiting = yield* send(400)
        assert.strictEqual(waiting.status, 402)
        const id = waiting.headers.get("x-reservation-id")
        const all = yield* service.call("GET", `/api/budgets/approvals?tenantId=${tenantId}`)
        assert.deepStrictEqual(
          all.body.items.map(({ reservation }: { reservation: { id: string } }) => reservation.id),
          [id]
        )
        // 1,120 tokens at 2 dollars per million, and 400 at 10.
        assert.closeTo(all.body.items[0].reservation.amountUsd, 0.00624, 0.000001)
        // What nobody counts waits at the bound of its bytes.
        standIn.answer = counting(false)
        const other = yield* asks(service, key, "/v1/messages", {
          model: "claude",
          max_tokens: 30,
          messages: [turn("user", `Another. ${long}`)]
        })
        assert.strictEqual(other.status, 402)
        assert.isNotNull(other.headers.get("x-reservation-id"))
      }).pipe(Effect.scoped)
    )

    it.effect("are counted with what their provider stores, by the Responses API", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const standIn = yield* startProvider(makeResponsesVendor())
        const re = provider("re", standIn, { apis: ["responses"] })
        yield* configure(service, [re], [model("o-new", ["re"], { contextTokens: 10_000 })])
        const { key } = yield* spender(service, [{ limit: 0.005 }])
        const send = (body: object) =>
          service.call("POST", "/v1/responses", { key, body: { model: "o-new", max_output_tokens: 30, ...body } })
        const first = yield* send({ input: long })
        assert.strictEqual(first.status, 200, first.text)
        const next = yield* send({ input: "And now?", previous_response_id: first.body.id })
        assert.strictEqual(next.status, 200, next.text)
        const counted = standIn.requests.filter((request) => request.path.endsWith("/input_tokens"))
        assert.deepStrictEqual(
          counted.map(({ body }) => Object.keys(body)),
          [
            ["model", "input"],
            ["model", "input", "previous_response_id"]
          ]
        )
        assert.isTrue(first.body.id.startsWith(counted[1]?.body.previous_response_id))
      }).pipe(Effect.scoped)
    )

    it.effect("are refused where nobody counts, and the provider is not asked again", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const standIn = yield* startProvider(counting(false))
        const an = provider("none", standIn, { dialect: "anthropic", baseUrl: standIn.url })
        yield* configure(service, [an], [model("claude", ["none"])])
        const { key } = yield* spender(service, [{ limit: 0.005 }])
        for (let times = 0; times < 2; times++) {
          const body = { model: "claude", max_tokens: 30, messages: [turn("user", long)] }
          assert.strictEqual((yield* asks(service, key, "/v1/messages", body)).status, 402)
        }
        assert.lengthOf(standIn.requests, 1)
      }).pipe(Effect.scoped)
    )

    it.effect("but cost nothing are never refused by a cap in money", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const standIn = yield* startProvider(openAiVendor)
        const free = { inputUsdPerMTok: 0, outputUsdPerMTok: 0 }
        const dear = { inputUsdPerMTok: 2, outputUsdPerMTok: 50 }
        const models = [model("gpt", ["oa"], { prices: dear }), model("free", ["oa"], { prices: free })]
        yield* configure(service, [provider("oa", standIn)], models)
        const { key, tenantId } = yield* spender(service, [{ limit: 0.00055 }])
        // The provider reports more than the limit of the call, so that nothing is left.
        assert.strictEqual((yield* ask(service, key, { max_tokens: 1 })).status, 200)
        yield* eventually(usageRows(service, tenantId), ({ length }) => length === 1)
        yield* acknowledgeBounds(service)
        assert.strictEqual((yield* ask(service, key, { max_tokens: 1 })).status, 402)
        const answered = yield* ask(service, key, { model: "free", service_tier: "priority" })
        assert.strictEqual(answered.status, 200, answered.text)
      }).pipe(Effect.scoped)
    )
  }
)
