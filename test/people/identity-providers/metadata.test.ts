import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as jose from "jose"
import { ProviderMetadata } from "../../../src/people/identity-providers/metadata.ts"
import { OutboundFailure, OutboundHttp } from "../../../src/platform/outbound/outbound-http.ts"
import { Settings } from "../../../src/platform/settings/settings.ts"

const issuer = "https://issuer.example"
const provider = { kind: "workload", issuer, allowedAlgorithms: ["ES256"] } as const
const configuration = { issuer, jwks_uri: `${issuer}/keys` }

/** An issuer in memory: which keys it publishes, whether it answers, and how often it was asked. */
class Published extends Context.Service<Published, { keys: ReadonlyArray<jose.JWK>; isAway: boolean; asked: number }>()(
  "test/Published"
) {
  static readonly layer = Layer.sync(Published, () => ({ keys: [], isAway: false, asked: 0 }))
}

const http = Layer.effect(
  OutboundHttp,
  Effect.map(Published, (published) =>
    OutboundHttp.of({
      send: () =>
        Effect.suspend(() => {
          published.asked += 1
          return published.isAway
            ? Effect.andThen(
                Effect.yieldNow,
                Effect.fail(new OutboundFailure({ reason: "timeout", detail: "The server did not answer" }))
              )
            : Effect.succeed({
                status: 200,
                headers: {},
                text: JSON.stringify({ keys: published.keys }),
                isCut: false
              })
        })
    })
  )
)

const subject = ProviderMetadata.layer.pipe(
  Layer.provide(http),
  Layer.provide(Settings.layerMemory()),
  Layer.provideMerge(Published.layer)
)

const makeSigner = (kid: string) =>
  Effect.promise(async () => {
    const { privateKey, publicKey } = await jose.generateKeyPair("ES256")
    const jwk = { ...(await jose.exportJWK(publicKey)), kid, alg: "ES256" }
    const token = await new jose.SignJWT({ sub: "build" })
      .setProtectedHeader({ alg: "ES256", kid })
      .setIssuer(issuer)
      .setAudience("us")
      .setIssuedAt(0)
      .setExpirationTime(86_400)
      .sign(privateKey)
    return { jwk, token }
  })

const accepted = (token: string) =>
  Effect.flatMap(ProviderMetadata, (metadata) =>
    metadata.verify(provider, configuration, token, ["us"]).pipe(
      Effect.match({
        onSuccess: ({ sub }) => sub,
        onFailure: (error) => (error._tag === "DiscoveryFailed" ? "no keys" : error.reason)
      })
    )
  )

const fresh = <A, E>(test: Effect.Effect<A, E, Published | ProviderMetadata>) =>
  Effect.provide(test, Layer.fresh(subject))

layer(Layer.empty)("the keys of a provider", (it) => {
  it.effect("are fetched once, and again for a key that is not among them, at most every 30 seconds", () =>
    Effect.gen(function* () {
      const published = yield* Published
      const [one, two, foreign] = yield* Effect.all([makeSigner("1"), makeSigner("2"), makeSigner("3")])
      published.keys = [one.jwk]
      for (let times = 0; times < 3; times++) assert.strictEqual(yield* accepted(one.token), "build")
      assert.strictEqual(published.asked, 1)
      published.keys = [two.jwk]
      assert.strictEqual(yield* accepted(two.token), "jwks-no-matching-key")
      assert.strictEqual(published.asked, 1)
      yield* TestClock.adjust("31 seconds")
      assert.strictEqual(yield* accepted(two.token), "build")
      assert.strictEqual(published.asked, 2)
      for (const token of [foreign.token, one.token, foreign.token]) {
        assert.strictEqual(yield* accepted(token), "jwks-no-matching-key")
      }
      assert.strictEqual(published.asked, 2)
      yield* TestClock.adjust("31 seconds")
      yield* Effect.all(
        Array.from({ length: 5 }, () => accepted(foreign.token)),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(published.asked, 3)
    }).pipe(fresh)
  )

  it.effect("are asked for once by all who wait for them, also in vain", () =>
    Effect.gen(function* () {
      const published = yield* Published
      published.isAway = true
      const { token } = yield* makeSigner("1")
      const answers = yield* Effect.all(
        Array.from({ length: 5 }, () => accepted(token)),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(new Set(answers), new Set(["no keys"]))
      assert.strictEqual(published.asked, 1)
    }).pipe(fresh)
  )

  it.effect("are used for an hour while the provider is away, and no longer", () =>
    Effect.gen(function* () {
      const published = yield* Published
      const { jwk, token } = yield* makeSigner("1")
      published.keys = [jwk]
      assert.strictEqual(yield* accepted(token), "build")
      published.isAway = true
      yield* TestClock.adjust("59 minutes")
      assert.strictEqual(yield* accepted(token), "build")
      assert.strictEqual(published.asked, 2)
      yield* TestClock.adjust("61 seconds")
      assert.strictEqual(yield* accepted(token), "no keys")
      published.isAway = false
      assert.strictEqual(yield* accepted(token), "build")
    }).pipe(fresh)
  )

  it.effect("that were taken back count no longer than five minutes", () =>
    Effect.gen(function* () {
      const published = yield* Published
      const [one, two] = yield* Effect.all([makeSigner("1"), makeSigner("2")])
      published.keys = [one.jwk]
      assert.strictEqual(yield* accepted(one.token), "build")
      published.keys = [two.jwk]
      yield* TestClock.adjust("5 minutes")
      assert.strictEqual(yield* accepted(one.token), "jwks-no-matching-key")
    }).pipe(fresh)
  )
})
