import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import OpenAI from "openai"
import { charges, configure, costNanoUsd, model, provider, spender } from "../../support/gateway.ts"
import { startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { anthropicVendor, openAiVendor, said } from "../../support/vendors.ts"

const setUp = Effect.gen(function* () {
  const service = yield* TestService
  const openai = yield* startProvider(openAiVendor)
  const anthropic = yield* startProvider(anthropicVendor)
  yield* configure(
    service,
    [
      provider("oa", openai),
      provider("chat", openai, { apis: ["chat"] }),
      provider("an", anthropic, { dialect: "anthropic", baseUrl: anthropic.url }),
      provider("loop", openai, { dialect: "loopback" })
    ],
    [model("gpt", ["oa"]), model("claude", ["an"]), model("chatting", ["chat"]), model("loop", ["loop"])]
  )
  const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
  const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: key, maxRetries: 0 })
  return { client, openai, service, tenantId }
})

const ask = <A>(call: () => PromiseLike<A>) => Effect.promise(() => Promise.resolve(call()))
const charged = { amount: String(costNanoUsd), state: "settled", method: "provider_usage" }

const streamed = (client: OpenAI, request: OpenAI.CompletionCreateParamsStreaming) =>
  ask(async () => {
    let text = ""
    const usages: Array<unknown> = []
    for await (const chunk of await client.completions.create(request)) {
      text += chunk.choices[0]?.text ?? ""
      if (chunk.usage) usages.push(chunk.usage)
    }
    return { text, usages }
  })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("text completions", (it) => {
  it.effect("pass to a provider that has them, whole and streamed, and are charged exactly", () =>
    Effect.gen(function* () {
      const { client, openai, service, tenantId } = yield* setUp
      const whole = yield* ask(() => client.completions.create({ model: "gpt", prompt: "Once", suffix: "." }))
      assert.strictEqual(whole.choices[0]?.text, said)
      // The API's own limit, since a hard cap applies.
      assert.deepStrictEqual(openai.requests.at(-1)?.body, {
        model: "gpt",
        prompt: "Once",
        suffix: ".",
        max_tokens: 16
      })
      const hidden = yield* streamed(client, { model: "gpt", prompt: ["Once"], max_tokens: 50, stream: true })
      assert.deepStrictEqual(hidden, { text: said, usages: [] })
      const shown = yield* streamed(client, {
        model: "gpt",
        prompt: "Once",
        stream: true,
        stream_options: { include_usage: true }
      })
      assert.lengthOf(shown.usages, 1)
      assert.deepStrictEqual(yield* charges(service, tenantId), [charged, charged, charged])
    }).pipe(Effect.scoped)
  )

  it.effect("are refused where no provider has them, and where they are malformed", () =>
    Effect.gen(function* () {
      const { client, service, tenantId } = yield* setUp
      const cases: ReadonlyArray<readonly [body: object, named: string]> = [
        [{ model: "claude" }, "model"],
        [{ model: "chatting" }, "model"],
        [{ prompt: undefined }, "prompt"],
        [{ best_of: 0 }, "best_of"],
        [{ max_tokens: -1 }, "max_tokens"]
      ]
      for (const [body, named] of cases) {
        const error: InstanceType<typeof OpenAI.APIError> = yield* ask(() =>
          client.completions.create({ model: "gpt", prompt: "Once", ...body } as never).then(
            () => assert.fail("it was answered"),
            (failed) => failed
          )
        )
        assert.deepStrictEqual([error.status, error.param], [400, named])
      }
      assert.isEmpty(yield* charges(service, tenantId))
    }).pipe(Effect.scoped)
  )

  it.effect("reserve for each choice of each prompt", () =>
    Effect.gen(function* () {
      const { client } = yield* setUp
      const poor = (n: number, best_of: number) =>
        ask(() =>
          client.completions.create({ model: "gpt", prompt: ["One", "Two"], n, best_of, max_tokens: 20_000 }).then(
            () => 200,
            ({ status }: InstanceType<typeof OpenAI.APIError>) => status
          )
        )
      // 2 prompts of 2 choices with 20,000 tokens each cost 0.8 dollars, of 3 choices 1.2.
      assert.strictEqual(yield* poor(2, 2), 200)
      assert.strictEqual(yield* poor(1, 3), 402)
    }).pipe(Effect.scoped)
  )

  it.effect("are echoed by the loopback provider", () =>
    Effect.gen(function* () {
      const { client } = yield* setUp
      const whole = yield* ask(() => client.completions.create({ model: "loop", prompt: "Once upon a time" }))
      assert.strictEqual(whole.choices[0]?.text, "Once upon a time")
      const { text } = yield* streamed(client, {
        model: "loop",
        prompt: "Once upon a time",
        max_tokens: 2,
        stream: true
      })
      assert.strictEqual(text, "Once upon")
    }).pipe(Effect.scoped)
  )
})
