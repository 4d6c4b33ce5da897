import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { chunked, declared, inChunks, mebibyte, plain, withHead } from "../support/large-bodies.ts"
import { exchange } from "../support/raw-http.ts"
import { serviceLayer, TestService } from "../support/service.ts"

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("bodies that are too large", (it) => {
  it.effect("memory stays as it was after 1 GiB of refused bodies", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const flood = Effect.forEach(
        Array.from({ length: 26 }, (_, n) => n),
        (n) => exchange(service.url, n % 2 === 0 ? withHead(declared, plain(40)) : withHead(inChunks, chunked(40))),
        { concurrency: 4 }
      )
      yield* exchange(service.url, withHead(inChunks, chunked(40)))
      const before = process.memoryUsage().rss
      for (const { answers } of yield* flood) assert.strictEqual(answers[0]?.status, 413)
      assert.isBelow(process.memoryUsage().rss - before, 150 * mebibyte)
      assert.strictEqual((yield* service.call("GET", "/health")).status, 200)
    })
  )
})
