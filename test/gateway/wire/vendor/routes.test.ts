import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { SqlError } from "effect/sql"
import { anthropicErrors } from "../../../../src/gateway/formats/anthropic-messages/errors.ts"
import { openAiErrors } from "../../../../src/gateway/formats/openai-chat/errors.ts"
import { serve } from "../../../../src/gateway/wire/http/serve.ts"

const writers = { openai: openAiErrors, anthropic: anthropicErrors }

const served = (dialect: keyof typeof writers, defect: unknown) =>
  serve(
    () => writers[dialect],
    () => Effect.die(defect)
  ).pipe(
    Effect.provideService(
      HttpServerRequest.HttpServerRequest,
      HttpServerRequest.fromWeb(new Request("http://localhost/v1/x", { method: "POST" }))
    ),
    Effect.flatMap((response) => {
      const web = HttpServerResponse.toWeb(response)
      return Effect.promise(async () => ({
        status: web.status,
        retryAfter: web.headers.get("retry-after"),
        body: await web.json()
      }))
    })
  )

describe("what nobody foresaw", () => {
  it.effect("is 500 in the words of the dialect, and tells nothing of it", () =>
    Effect.gen(function* () {
      const openai = yield* served("openai", new Error("secret"))
      assert.deepStrictEqual([openai.status, openai.body.error.type], [500, "server_error"])
      const anthropic = yield* served("anthropic", new Error("secret"))
      assert.deepStrictEqual([anthropic.status, anthropic.body.error.type], [500, "api_error"])
      assert.notInclude(JSON.stringify([openai, anthropic]), "secret")
    })
  )

  it.effect("is 503 with Retry-After where the database is away", () =>
    Effect.gen(function* () {
      const away = new SqlError.SqlError({ reason: new SqlError.ConnectionError({ cause: new Error("gone") }) })
      const openai = yield* served("openai", away)
      assert.deepStrictEqual([openai.status, openai.retryAfter, openai.body.error.code], [503, "1", "overloaded"])
      assert.strictEqual((yield* served("anthropic", away)).status, 529)
    })
  )
})
