import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, DateTime, Effect, Exit, Option, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { type HttpApiEndpoint, HttpApiSchema } from "effect/http-api"
import { Api } from "../../../src/api.ts"
import { Instant } from "../../../src/kernel/instant.ts"
import { Usd } from "../../../src/kernel/usd.ts"
import { responseWriter } from "../../../src/platform/fast-path/response-writer.ts"
import { invalid, installReader, readerOf } from "../../../src/platform/fast-path/schema-reader.ts"

type Codec = Schema.Codec<unknown>

const strict = { errors: "all", onExcessProperty: "error" } as const
const lenient = { disableChecks: true } as const

const endpoints = Object.values(Api.groups).flatMap((group) =>
  Object.values(group.endpoints as Record<string, HttpApiEndpoint.Top>).map(
    (endpoint) => [`${group.identifier}.${endpoint.identifier}`, endpoint] as const
  )
)

const payloads = endpoints.flatMap(([name, { payload }]) =>
  [...payload.values()].flatMap(({ schemas }) => schemas.map((schema) => [name, schema as unknown as Codec] as const))
)

const makePayload = () =>
  Schema.Struct({ usd: Usd, at: Schema.optionalKey(Instant), names: Schema.Array(Schema.NonEmptyString) })

/** Values of a schema; none where its checks are too intricate to generate from. */
const valuesOf = (schema: Codec, seed: string): ReadonlyArray<unknown> =>
  Option.getOrElse(
    Option.flatMap(
      Option.liftThrowable(() => Arbitrary.sampleEffect(Arbitrary.schema(schema), { count: 15, seed }))(),
      (sampled) => Exit.getSuccess(Effect.runSyncExit(sampled))
    ),
    () => []
  )

const absent = Symbol("absent")

const withMember = (value: object, key: string, other: unknown): object =>
  Object.fromEntries(
    Object.entries(value).flatMap(([name, own]) =>
      name !== key ? [[name, own]] : other === absent ? [] : [[name, other]]
    )
  )

/** A value, and what is nearly one: with another member, and without one, or with another value of it. */
const near = (value: unknown): ReadonlyArray<unknown> =>
  typeof value !== "object" || value === null || Array.isArray(value)
    ? [value, [value], { value }, null]
    : [
        value,
        { ...value, unknownMember: 1 },
        ...Object.entries(value).flatMap(([key, own]) =>
          [absent, "", -1, 1.5, null, undefined, {}, [], [own]].map((other) => withMember(value, key, other))
        )
      ]

describe("the fast path", () => {
  it("decodes payloads as the interpreter does, and rejects what it rejects", () => {
    let read = 0
    let refused = 0
    for (const [name, schema] of payloads) {
      const reader = readerOf(schema.ast)
      for (const value of valuesOf(schema, name)) {
        // What is generated may be more than the wire holds.
        const encoded = Schema.encodeUnknownExit(schema)(value)
        if (Exit.isFailure(encoded)) continue
        for (const input of near(encoded.value)) {
          const expected = Schema.decodeUnknownExit(schema, strict)(input)
          const direct = reader(input, strict)
          if (Exit.isSuccess(expected)) assert.deepStrictEqual(direct, expected.value, name)
          else assert.strictEqual(direct, invalid, `${name} ${JSON.stringify(input)}`)
          if (Exit.isSuccess(expected)) read += 1
          else refused += 1
        }
      }
    }
    assert.isAbove(read, 1000)
    assert.isAbove(refused, 1000)
  })

  it("encodes responses as HttpApi does", () => {
    let compared = 0
    for (const [name, endpoint] of endpoints) {
      const answer = responseWriter(endpoint, lenient)
      for (const schema of endpoint.success as ReadonlySet<Schema.Top>) {
        const hasHeaders = HttpApiSchema.isWithHeaders(schema)
        const body = (hasHeaders ? schema.schema : schema) as Codec
        for (const value of valuesOf(body, name)) {
          const response = answer(value)
          if (!HttpServerResponse.isHttpServerResponse(response)) continue
          const expected = JSON.stringify(Schema.encodeUnknownSync(body, lenient)(value))
          assert.strictEqual(response.body._tag === "Uint8Array" ? response.body.text : undefined, expected, name)
          compared += 1
        }
      }
    }
    assert.isAbove(compared, 1000)
  })

  it("gives a response with headers the status and headers of its schema; returns a value without a schema unchanged", () => {
    const answer = responseWriter(Api.groups.spend.endpoints.reserve as unknown as HttpApiEndpoint.Top, lenient)
    const body = {
      id: "0198a5b0-7c00-7000-8000-00000000002a",
      amountUsd: 250_000_000n,
      tokens: 0,
      expiresAt: DateTime.makeUnsafe("2026-01-31T09:30:00Z"),
      remainingTtlSeconds: 300,
      caps: [],
      planId: null
    }
    for (const [state, status] of [
      ["open", 201],
      ["held", 202]
    ] as const) {
      const response = answer(HttpApiSchema.withHeaders({ body: { ...body, state }, headers: { location: "/there" } }))
      assert.isTrue(HttpServerResponse.isHttpServerResponse(response))
      if (!HttpServerResponse.isHttpServerResponse(response)) continue
      assert.strictEqual(response.status, status)
      assert.deepInclude(response.headers, { location: "/there", "content-type": "application/json" })
      assert.deepInclude(JSON.parse(response.body._tag === "Uint8Array" ? (response.body.text ?? "") : ""), {
        amountUsd: 0.25,
        expiresAt: "2026-01-31T09:30:00.000Z",
        state
      })
    }
    const none = HttpApiSchema.withHeaders({ body: { ...body, state: "other" }, headers: { location: "/there" } })
    assert.strictEqual(answer(none), none)
  })

  it("reports the same faults of an invalid value as the interpreter", () => {
    const direct = makePayload()
    installReader(direct)
    for (const input of [
      { usd: 0.25, at: "2026-01-31T09:30:00Z", names: ["a"] },
      { usd: -1, at: "yesterday", names: ["", 1], more: true },
      { at: null },
      [],
      null
    ]) {
      assert.deepStrictEqual(
        String(Schema.decodeUnknownExit(direct, strict)(input)),
        String(Schema.decodeUnknownExit(makePayload(), strict)(input))
      )
    }
  })
})
