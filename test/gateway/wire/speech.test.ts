import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import OpenAI, { APIError } from "openai"
import { configure, model, provider, spender, usageRows } from "../../support/gateway.ts"
import { type Answerer, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { audioOf, event, speechVendor, spokenUsage } from "../../support/speech-vendor.ts"
import { eventually } from "../../support/waiting.ts"

const input = "The sun is highest at noon. 𝄞"
const perCharacter = 15_000
const asked = { model: "tts-1", voice: "alloy", input } as const
const byTokens = { ...asked, model: "gpt-4o-mini-tts" } as const
const tokenPrices = { inputUsdPerMTok: 0.6, outputUsdPerMTok: 12 }
const most = 2000

/** A stand-in of OpenAI with a model that is priced by characters, and one by tokens, of which there are at most 2,000. */
const setting = (caps: ReadonlyArray<object>, answer: Answerer = speechVendor(), members: object = {}) =>
  Effect.gen(function* () {
    const service = yield* TestService
    const standIn = yield* startProvider(answer)
    const byCharacters = { inputUsdPerMTok: 0, characterUsd: 0.000015 }
    yield* configure(
      service,
      [provider("oa", standIn)],
      [
        model("tts-1", ["oa"], { kind: "speech", prices: byCharacters }),
        model("gpt-4o-mini-tts", ["oa"], {
          kind: "speech",
          prices: tokenPrices,
          maxOutputTokens: most,
          ...members
        }),
        model("gpt", ["oa"])
      ]
    )
    const { key, tenantId } = yield* spender(service, caps)
    const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: key, maxRetries: 0 })
    const row = Effect.map(
      eventually(usageRows(service, tenantId), ({ length }) => length === 1),
      ([one]) => one
    )
    return { client, key, row, service, standIn, tenantId }
  })

const bytesOf = (response: Response) => Effect.promise(() => response.arrayBuffer().then((all) => Buffer.from(all)))
const costOf = ({ input_tokens: read, output_tokens: written }: ReturnType<typeof spokenUsage>) =>
  read * 600 + written * 12_000

/** Answers without audio. */
const nothing: Answerer = (_, response) => {
  response.writeHead(200, { "content-type": "audio/mpeg" }).end()
}
const textAlone: Answerer = (_, response) => {
  response.writeHead(200, { "content-type": "application/json" }).end('{"ok":true}')
}
const gone: Answerer = (_, response) => {
  response.writeHead(200, { "content-type": "audio/mpeg" }).flushHeaders()
  response.destroy()
}

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "120 seconds" })("/v1/audio/speech", (it) => {
  it.effect("passes audio to OpenAI's SDK, charged by the characters of its text", () =>
    Effect.gen(function* () {
      const cost = input.length * perCharacter
      const { client, row, standIn } = yield* setting([{ limit: cost / 1e9 }])
      const spoken = yield* Effect.promise(() => client.audio.speech.create(asked))
      assert.strictEqual(spoken.headers.get("content-type"), "audio/mpeg")
      assert.isTrue((yield* bytesOf(spoken)).equals(audioOf(input)))
      assert.deepStrictEqual(standIn.requests[0]?.body, asked)
      const charged = yield* row
      assert.deepInclude(charged, { cost, operation: "speech", outputTokens: 0, status: 200 })
      assert.deepStrictEqual(charged.priceTerms.units, [
        { unit: "characters", quantity: input.length, usdPerUnit: 0.000015, costUsd: cost / 1e9 }
      ])
      const refused = yield* Effect.promise(() => client.audio.speech.create(asked).catch((error: unknown) => error))
      assert.instanceOf(refused, APIError)
      assert.strictEqual((refused as { readonly status?: number }).status, 402)
      assert.lengthOf(standIn.requests, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("asks for events where tokens have a price, passes the audio in them, and charges their usage", () =>
    Effect.gen(function* () {
      const { client, row, standIn } = yield* setting([{ limit: 1 }])
      const spoken = yield* Effect.promise(() =>
        client.audio.speech.create({ ...byTokens, response_format: "wav", stream_format: "audio" })
      )
      assert.strictEqual(spoken.headers.get("content-type"), "audio/wav")
      assert.isTrue((yield* bytesOf(spoken)).equals(audioOf(input)))
      assert.deepStrictEqual(standIn.requests[0]?.body, { ...byTokens, response_format: "wav", stream_format: "sse" })
      const usage = spokenUsage(input)
      assert.deepInclude(yield* row, {
        cost: costOf(usage),
        inputTokens: usage.input_tokens,
        outputTokens: usage.output_tokens,
        method: "provider_usage"
      })
    }).pipe(Effect.scoped)
  )

  it.effect("charges the price of audio where there is one", () =>
    Effect.gen(function* () {
      const prices = { inputUsdPerMTok: 0.6, audioOutputUsdPerMTok: 12 }
      const { client, row } = yield* setting([{ limit: 1 }], speechVendor(), { prices })
      yield* bytesOf(yield* Effect.promise(() => client.audio.speech.create(byTokens)))
      assert.strictEqual((yield* row).cost, costOf(spokenUsage(input)))
    }).pipe(Effect.scoped)
  )

  it.effect("passes events as they are to who asks for them", () =>
    Effect.gen(function* () {
      const { client, row } = yield* setting([{ limit: 1 }])
      const spoken = yield* Effect.promise(() => client.audio.speech.create({ ...byTokens, stream_format: "sse" }))
      assert.strictEqual(spoken.headers.get("content-type"), "text/event-stream")
      const events = (yield* bytesOf(spoken))
        .toString("utf8")
        .split("\n\n")
        .filter((one) => one !== "")
        .map((one) => JSON.parse(one.slice("data: ".length)))
      assert.isTrue(
        Buffer.concat(events.slice(0, -1).map(({ audio }) => Buffer.from(audio, "base64"))).equals(audioOf(input))
      )
      assert.deepStrictEqual(events.at(-1), { type: "speech.audio.done", usage: spokenUsage(input) })
      assert.strictEqual((yield* row).cost, costOf(spokenUsage(input)))
    }).pipe(Effect.scoped)
  )

  it.effect("charges what the audio may have cost, up to the hold, where the usage is none", () =>
    Effect.gen(function* () {
      const long = "a".repeat(40)
      const hostile: ReadonlyArray<unknown> = [
        undefined,
        null,
        { input_tokens: -1, output_tokens: -5 },
        { input_tokens: 3, output_tokens: "NaN" },
        { input_tokens: 1e300, output_tokens: 1e300 },
        { input_tokens: 3, output_tokens: 0 }
      ]
      for (const usage of hostile) {
        const { client, row } = yield* setting(
          [{ limit: 1 }],
          speechVendor((response) => {
            event(response, { type: "speech.audio.done", usage })
            response.end()
          })
        )
        const spoken = yield* Effect.promise(() => client.audio.speech.create({ ...byTokens, input: long }))
        assert.isTrue((yield* bytesOf(spoken)).equals(audioOf(long)))
        // Of 12,000 bytes there may be 4,000 tokens, but 2,000 were held.
        assert.deepInclude(yield* row, { outputTokens: most, method: "estimated", status: 200 }, JSON.stringify(usage))
      }
    }).pipe(Effect.scoped)
  )

  it.effect("charges the hold where a model with a price of tokens answers without events", () =>
    Effect.gen(function* () {
      const { client, row } = yield* setting([{ limit: 1 }], (_, response) => {
        response.writeHead(200, { "content-type": "audio/flac" }).end(audioOf("a".repeat(40)))
      })
      const spoken = yield* Effect.promise(() => client.audio.speech.create(byTokens))
      assert.strictEqual(spoken.headers.get("content-type"), "audio/flac")
      assert.isTrue((yield* bytesOf(spoken)).equals(audioOf("a".repeat(40))))
      assert.deepInclude(yield* row, { outputTokens: most, method: "estimated" })
    }).pipe(Effect.scoped)
  )

  it.effect("is refused under a hard cap where nothing limits the audio, and not under a soft one", () =>
    Effect.gen(function* () {
      const open = { maxOutputTokens: undefined }
      const { client, standIn } = yield* setting([{ limit: 1 }], speechVendor(), open)
      const statusOf = (body: Parameters<typeof client.audio.speech.create>[0]) =>
        Effect.promise(() =>
          client.audio.speech.create(body).then(
            () => [200],
            (error: unknown) => (error instanceof APIError ? [error.status, error.code, error.param] : [error])
          )
        )
      assert.deepStrictEqual(yield* statusOf(byTokens), [403, "cost_unbounded", "model"])
      const more = { ...asked, ssml: "<speak/>" }
      assert.deepStrictEqual(yield* statusOf(more), [403, "cost_unbounded", "ssml"])
      assert.deepStrictEqual(yield* statusOf({ ...asked, input: "" }), [400, "invalid_request", "input"])
      assert.deepStrictEqual(yield* statusOf({ ...asked, model: "gpt" }), [400, "model_not_supported", "model"])
      assert.lengthOf(standIn.requests, 0)
      assert.deepStrictEqual(yield* statusOf(asked), [200])
      const soft = yield* setting([{ limit: 1, mode: "soft" }], speechVendor(), open)
      yield* bytesOf(yield* Effect.promise(() => soft.client.audio.speech.create(byTokens)))
      assert.strictEqual((yield* soft.row).cost, costOf(spokenUsage(input)))
    }).pipe(Effect.scoped)
  )

  it.effect("breaks the connection where the provider breaks off, or fails in its events, and charges the work", () =>
    Effect.gen(function* () {
      // What was written before has to be on its way.
      const broken = speechVendor((response) => response.write(":", () => response.destroy()))
      const failed = speechVendor((response) => {
        event(response, { type: "error", error: { message: "The engine failed", code: "server_error" } })
        response.end()
      })
      const cut = speechVendor((response) => response.end())
      for (const [answer, body] of [
        [broken, asked],
        [broken, byTokens],
        [failed, byTokens],
        [cut, byTokens]
      ] as const) {
        const { client, row } = yield* setting([{ limit: 1 }], answer)
        const read = yield* Effect.promise(async () => {
          try {
            await (await client.audio.speech.create(body)).arrayBuffer()
            return "whole"
          } catch (error) {
            // A response that breaks before its client has read the head is a failed connection.
            return error instanceof APIError && error.status !== undefined ? error.status : "broken"
          }
        })
        assert.strictEqual(read, "broken")
        const charged = yield* row
        assert.deepInclude(charged, { method: "estimated", status: 502 })
        if (body === asked) assert.strictEqual(charged.cost, input.length * perCharacter)
        else assert.isAbove(charged.outputTokens, 0)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("answers an error of the provider before its first byte as an error", () =>
    Effect.gen(function* () {
      const refused: Answerer = speechVendor()
      for (const [answer, body, status] of [
        [nothing, asked, 502],
        [textAlone, asked, 502],
        [gone, asked, 502],
        [refused, { ...asked, input: "a".repeat(5000) }, 400]
      ] as const) {
        const { client } = yield* setting([{ limit: 1 }], answer)
        const found = yield* Effect.promise(() =>
          client.audio.speech.create(body).then(
            () => 200,
            (error: unknown) => (error instanceof APIError ? error.status : error)
          )
        )
        assert.strictEqual(found, status)
      }
    }).pipe(Effect.scoped)
  )

  it.effect(
    "charges the characters where the caller leaves at any byte, and what was heard where tokens have a price",
    () =>
      Effect.gen(function* () {
        for (const [body, isLate] of [
          [asked, false],
          [asked, true],
          [byTokens, true]
        ] as const) {
          const left = new AbortController()
          const waits = speechVendor(() => {})
          const { client, row, standIn } = yield* setting([{ limit: 1 }], isLate ? waits : () => left.abort())
          yield* Effect.promise(async () => {
            try {
              const spoken = await client.audio.speech.create(body, { signal: left.signal })
              const reader = spoken.body!.getReader()
              await reader.read()
              left.abort()
              await reader.read()
            } catch {
              // The client has left.
            }
          })
          const charged = yield* row
          assert.strictEqual(charged.method, "aborted")
          if (body === asked) assert.strictEqual(charged.cost, input.length * perCharacter)
          else assert.isAbove(charged.outputTokens, 0)
          yield* eventually(
            Effect.sync(() => standIn.aborted),
            (aborted) => aborted === 1
          )
        }
      }).pipe(Effect.scoped)
  )

  it.effect("takes constant memory: a caller that does not read pauses the provider", () =>
    Effect.gen(function* () {
      let written = 0
      let waits = false
      const total = 64 * 1024 * 1024
      const piece = Buffer.alloc(65_536, 7)
      const { client, row } = yield* setting([{ limit: 1 }], (_, response) => {
        response.writeHead(200, { "content-type": "audio/pcm" })
        const more = () => {
          while (written < total) {
            written += piece.length
            if (!response.write(piece)) {
              waits = true
              response.once("drain", () => {
                waits = false
                more()
              })
              return
            }
          }
          response.end()
        }
        more()
      })
      const spoken = yield* Effect.promise(() => client.audio.speech.create(asked))
      yield* eventually(
        Effect.sync(() => ({ waits, written })),
        (now) => now.waits
      )
      assert.isBelow(written, total)
      let read = 0
      yield* Effect.promise(async () => {
        for await (const bytes of spoken.body as unknown as AsyncIterable<Uint8Array>) read += bytes.length
      })
      assert.strictEqual(read, total)
      assert.strictEqual((yield* row).cost, input.length * perCharacter)
    }).pipe(Effect.scoped)
  )

  it.effect("is answered by the loopback model, and never by the cache of responses", () =>
    Effect.gen(function* () {
      const { client, row } = yield* setting([{ limit: 1 }])
      const spoken = yield* Effect.promise(() =>
        client.audio.speech.create(
          { ...asked, model: "loopback-1", response_format: "wav" },
          { headers: { "x-cache": "true" } }
        )
      )
      assert.strictEqual((yield* bytesOf(spoken)).subarray(0, 4).toString("latin1"), "RIFF")
      assert.isNull(spoken.headers.get("x-cache"))
      const charged = yield* row
      assert.strictEqual(charged.cost, charged.inputTokens * 1000 + charged.outputTokens * 2000)
    }).pipe(Effect.scoped)
  )
})
