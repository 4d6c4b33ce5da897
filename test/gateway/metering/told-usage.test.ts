import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { ask, charges, configure, model, provider, spender } from "../../support/gateway.ts"
import { json, sse, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { eventually } from "../../support/waiting.ts"

const choice = { index: 0, finish_reason: "stop" }

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "a usage that nobody believes, or expects",
  (it) => {
    for (const [name, usage] of [
      ["of nothing", { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }],
      ["beyond all numbers", { prompt_tokens: 1e30, completion_tokens: 9e18 }]
    ] as const) {
      it.effect(`${name} is estimated, and the call is settled`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const standIn = yield* startProvider(({ body }, response) => {
            if (body.stream !== true) {
              return json(response, 200, { choices: [{ ...choice, message: { content: "It is noon." } }], usage })
            }
            sse(response, [
              { choices: [{ ...choice, delta: { content: "It is noon." } }] },
              { choices: [], usage },
              "data: [DONE]\n\n"
            ])
            response.end()
          })
          yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
          const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
          for (const stream of [false, true]) {
            assert.strictEqual((yield* ask(service, key, { max_tokens: 30, stream })).status, 200)
          }
          const made = yield* eventually(
            charges(service, tenantId),
            (all) => all.length === 2 && all.every(({ state }) => state !== "open")
          )
          assert.deepStrictEqual(
            made.map(({ method, state }) => [state, method]),
            [
              ["settled", "estimated"],
              ["settled", "estimated"]
            ]
          )
          for (const { amount } of made) assert.isAbove(Number(amount), 0)
        }).pipe(Effect.scoped)
      )
    }

    it.effect("of more than was reserved is charged, and leaves nothing of the cap, but no less", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const usage = { prompt_tokens: 100_000, completion_tokens: 5 }
        const standIn = yield* startProvider((_, response) =>
          json(response, 200, { choices: [{ ...choice, message: { content: "It is noon." } }], usage })
        )
        yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
        const { key } = yield* spender(service, [{ limit: 0.05 }])
        const { headers, status } = yield* ask(service, key, { max_tokens: 30 })
        assert.strictEqual(status, 200)
        assert.strictEqual(headers.get("x-cost-usd"), "0.20005")
        assert.strictEqual(headers.get("x-budget-remaining-usd"), "0")
      }).pipe(Effect.scoped)
    )
  }
)
