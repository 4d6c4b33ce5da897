import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { configure, model, provider, spender } from "../../support/gateway.ts"
import { startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

/** As no JSON.stringify writes it: what is handed on is what came, and no copy of it. */
const answerOf = (content: string) =>
  `{ "object":"chat.completion", "choices" : [{"index":0,"message":{"role":"assistant","content":"${content}"},"finish_reason":"stop"}],\n "usage":{"prompt_tokens":1e1,"completion_tokens":2,"total_tokens":12}}`

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "a whole answer in its own dialect",
  (it) => {
    for (const [what, content] of [
      ["short", "Zoë, 日本, 😀 and \u0080\u00ff"],
      ["long", "Zoë, 日本, 😀 ".repeat(2_000)]
    ] as const) {
      it.effect(`is handed on byte for byte, a ${what} one as well`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const sent = Buffer.from(answerOf(content))
          const standIn = yield* startProvider((_, response) => {
            response.writeHead(200, { "content-type": "application/json" }).end(sent)
          })
          yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
          const { key } = yield* spender(service, [])
          const answer = yield* Effect.promise(() =>
            fetch(`${service.url}/v1/chat/completions`, {
              method: "POST",
              headers: { "x-api-key": key, "content-type": "application/json" },
              body: JSON.stringify({ model: "gpt", messages: [{ role: "user", content: "Hello" }] })
            })
          )
          const received = Buffer.from(yield* Effect.promise(() => answer.arrayBuffer()))
          assert.strictEqual(answer.status, 200)
          assert.strictEqual(answer.headers.get("content-length"), String(sent.length))
          assert.isTrue(received.equals(sent))
        }).pipe(Effect.scoped)
      )
    }
  }
)
