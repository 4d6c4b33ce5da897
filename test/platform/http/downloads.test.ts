import { assert, it } from "@effect/vitest"
import { Context, Effect, Stream } from "effect"
import { HttpServerRequest } from "effect/http"
import { CurrentPrincipal, serviceAccount } from "../../../src/kernel/authority/principal.ts"
import { type Download, Downloads, maxDownloads } from "../../../src/platform/http/downloads.ts"
import { CurrentRequest, RequestInfo } from "../../../src/platform/http/request.ts"

const unread: Download = { fileName: "all.csv", contentType: "text/csv", content: Stream.never }

it.effect("429: the downloads under way are limited; one that fails to begin counts no more", () =>
  Effect.gen(function* () {
    const downloads = yield* Downloads
    const answer = (name: string, made: Effect.Effect<Download, string> = Effect.succeed(unread)) =>
      downloads.respond(made).pipe(
        Effect.match({
          onSuccess: ({ headers, status }) => `${status} ${headers["content-disposition"]}`,
          onFailure: (error) => (typeof error === "string" ? error : `${error.status} ${error.detail}`)
        }),
        Effect.provideService(CurrentPrincipal, { ...serviceAccount, name })
      )
    for (let count = 0; count < 2 * maxDownloads.principal; count++) {
      assert.strictEqual(yield* answer("one", Effect.fail("refused")), "refused")
    }
    for (let count = 0; count < maxDownloads.principal; count++) {
      assert.strictEqual(yield* answer("one"), '200 attachment; filename="all.csv"')
    }
    assert.match(yield* answer("one"), /^429 The caller has 16 open downloads/)
    assert.match(yield* answer("other"), /^200/)

    const request = HttpServerRequest.fromWeb(new Request("http://localhost/", { method: "HEAD" }))
    const head = RequestInfo.make(Context.empty(), request, "1")
    for (let count = 0; count < 2 * maxDownloads.principal; count++) {
      assert.match(yield* Effect.provideService(answer("prober"), CurrentRequest, head), /^200/)
    }
    assert.match(yield* answer("prober"), /^200/, "an answer without a body takes no place")
    assert.match(yield* Effect.provideService(answer("one"), CurrentRequest, head), /^429/)
  }).pipe(Effect.provide(Downloads.layer), Effect.scoped)
)
