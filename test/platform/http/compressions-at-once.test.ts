import { assert, it } from "@effect/vitest"
import { Effect, Fiber, Latch, Layer } from "effect"
import { HttpBody, HttpPlatform, HttpServerRequest, HttpServerResponse } from "effect/http"
import { makeCompression } from "../../../src/platform/http/compression.ts"

const request = HttpServerRequest.fromWeb(
  new Request("http://localhost/", { headers: { "accept-encoding": "br, gzip" } })
)
const text = HttpServerResponse.text("x".repeat(10_000))

/** Compression that waits for a latch, and counts. */
const makePlatform = () => {
  const open = Latch.makeUnsafe()
  const counts = { begun: 0, running: 0, most: 0 }
  const compression: HttpPlatform.Compression = {
    algorithms: new Set(["br", "gzip"]),
    compressResponse: (response, coding) =>
      Effect.gen(function* () {
        counts.begun += 1
        counts.running += 1
        counts.most = Math.max(counts.most, counts.running)
        yield* open.await
        counts.running -= 1
        return HttpServerResponse.setHeader(
          HttpServerResponse.setBody(response, HttpBody.text(`in ${coding}`)),
          "content-encoding",
          coding
        )
      })
  }
  return { counts, layer: Layer.mock(HttpPlatform.HttpPlatform, { platform: "node", compression }), open }
}

const bodyOf = ({ body }: HttpServerResponse.HttpServerResponse) =>
  body._tag === "Uint8Array" ? body.text : assert.fail("no text")

it.effect("few compressions run at once, some wait, and what is behind them is sent as it is", () => {
  const { counts, layer, open } = makePlatform()
  return Effect.gen(function* () {
    const compress = yield* makeCompression
    const all = yield* Effect.forkChild(
      Effect.forEach(
        Array.from({ length: 100 }, () => HttpServerResponse.text("x".repeat(10_000), { headers: { etag: '"1"' } })),
        (response) => compress(response, request) ?? assert.fail("not compressible"),
        { concurrency: "unbounded" }
      )
    )
    yield* Effect.yieldNow
    yield* Latch.open(open)
    const answers = yield* Fiber.join(all)
    assert.strictEqual(counts.most, 2)
    const compressed = answers.filter(({ headers }) => headers["content-encoding"] === "br")
    assert.strictEqual(compressed.length, 34)
    assert.deepStrictEqual([...new Set(compressed.map(({ headers }) => headers.etag))], ['"1+br"'])
    const plain = answers.filter(({ headers }) => headers["content-encoding"] === undefined)
    assert.deepStrictEqual(
      [...new Set(plain.map(({ headers: { etag, vary } }) => `${etag} ${vary}`))],
      ['"1" Accept-Encoding']
    )
    assert.strictEqual(plain.length, 66)
    const later = yield* compress(text, request)!
    assert.strictEqual(later.headers["content-encoding"], "br")
  }).pipe(Effect.provide(layer))
})

it.effect("a body that is sent again is compressed once in each coding", () => {
  const { counts, layer, open } = makePlatform()
  return Effect.gen(function* () {
    yield* Latch.open(open)
    const compress = yield* makeCompression
    const first = yield* compress(text, request)!
    const again = yield* compress(HttpServerResponse.setHeader(text, "x-other", "1"), request)!
    assert.deepStrictEqual([bodyOf(first), bodyOf(again)], ["in br", "in br"])
    assert.deepStrictEqual([again.headers["content-encoding"], again.headers["x-other"]], ["br", "1"])
    const gzip = HttpServerRequest.fromWeb(new Request("http://localhost/", { headers: { "accept-encoding": "gzip" } }))
    assert.strictEqual(bodyOf(yield* compress(text, gzip)!), "in gzip")
    assert.strictEqual(bodyOf(yield* compress(text, request)!), "in br")
    assert.strictEqual(counts.begun, 2)
  }).pipe(Effect.provide(layer))
})
