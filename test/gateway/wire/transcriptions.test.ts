import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import OpenAI, { toFile } from "openai"
import { configure, provider, spender } from "../../support/gateway.ts"
import { transcribed, transcriptionVendor, wav } from "../../support/media-vendor.ts"
import { type Answerer, json, sse, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { eventually } from "../../support/waiting.ts"

const path = "/v1/audio/transcriptions"
const usdOf = (nanoUsd: number) => nanoUsd / 1e9

/** A hundred seconds of the lowest bitrate that MPEG audio has. */
const mp3 = Buffer.concat([Buffer.from([0xff, 0xfb, 0x90, 0]), Buffer.alloc(99_996)])
const perSecond = 100_000
const byTokens = transcribed.audio * 6000 + transcribed.textTokens * 2500 + transcribed.output * 10_000

const target = (model: string) => [{ provider: "openai", model }]

/** Two models as the catalogue has them, and one of which nothing is known. */
const setting = (caps: ReadonlyArray<object>, answer: Answerer = transcriptionVendor) =>
  Effect.gen(function* () {
    const service = yield* TestService
    const standIn = yield* startProvider(answer)
    yield* configure(
      service,
      [provider("openai", standIn)],
      [
        {
          id: "whisper",
          kind: "transcription",
          prices: { inputUsdPerMTok: 0, audioSecondUsd: 0.0001 },
          targets: target("whisper-1")
        },
        {
          id: "listener",
          kind: "transcription",
          maxOutputTokens: 2000,
          prices: { inputUsdPerMTok: 2.5, outputUsdPerMTok: 10, audioInputUsdPerMTok: 6 },
          targets: target("gpt-4o-transcribe")
        },
        { id: "ears", kind: "transcription", prices: { inputUsdPerMTok: 1 }, targets: target("ears") }
      ]
    )
    const { key, tenantId } = yield* spender(service, caps)
    const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: key, maxRetries: 0 })
    const rows = (count: number) =>
      Effect.map(
        eventually(
          service.call("GET", `/api/usage?tenantId=${tenantId}`),
          ({ body: { items } }) => items.length === count
        ),
        ({ body: { items } }) => items
      )
    const send = (fields: Readonly<Record<string, string>>, bytes: Uint8Array = mp3, at = path) =>
      Effect.promise(async () => {
        const form = new FormData()
        form.append("file", new File([new Uint8Array(bytes)], "talk.mp3", { type: "audio/mpeg" }))
        for (const [name, value] of Object.entries(fields)) form.append(name, value)
        const response = await fetch(`${service.url}${at}`, {
          method: "POST",
          headers: { authorization: `Bearer ${key}` },
          body: form
        })
        return { status: response.status, type: response.headers.get("content-type"), text: await response.text() }
      })
    return { client, rows, send, standIn }
  })

const brokenOff: Answerer = (_, response) => {
  sse(response, [{ type: "transcript.text.delta", delta: "It" }])
  setImmediate(() => response.destroy())
}

const talk = () => toFile(mp3, "talk.mp3", { type: "audio/mpeg" })
const codeOf = ({ text }: { readonly text: string }): string => JSON.parse(text).error.code

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(path, (it) => {
  it.effect("is served unchanged to OpenAI's SDK, and charged by the seconds or the tokens that are reported", () =>
    Effect.gen(function* () {
      const { client, rows, standIn } = yield* setting([{ limit: 5 }])
      const heard = yield* Effect.promise(async () =>
        client.audio.transcriptions.create({ file: await talk(), model: "whisper", language: "en", temperature: 0.2 })
      )
      assert.strictEqual(heard.text, transcribed.text)
      const [sent] = standIn.requests
      assert.strictEqual(sent?.path, path)
      const { file, ...fields } = sent?.body ?? {}
      assert.deepStrictEqual(fields, { language: "en", model: "whisper-1", temperature: "0.2" })
      assert.deepStrictEqual([file.filename, file.type, file.bytes.equals(mp3)], ["talk.mp3", "audio/mpeg", true])
      const [byTime] = yield* rows(1)
      assert.deepInclude(byTime, {
        costUsd: usdOf(transcribed.seconds * perSecond),
        inputTokens: 0,
        method: "provider_usage",
        operation: "transcribe",
        outputTokens: 0,
        status: 200
      })
      yield* Effect.promise(async () =>
        client.audio.transcriptions.create({ file: await talk(), model: "listener", prompt: "Oslo" })
      )
      const both = yield* rows(2)
      const other = both.find(({ id }: { readonly id: string }) => id !== byTime.id)
      assert.deepInclude(other, {
        costUsd: usdOf(byTokens),
        inputTokens: transcribed.audio + transcribed.textTokens,
        outputTokens: transcribed.output
      })
    }).pipe(Effect.scoped)
  )

  it.effect("asks for an answer with a usage, and renders text, SubRip and WebVTT of it", () =>
    Effect.gen(function* () {
      const { client, rows, standIn } = yield* setting([{ limit: 5 }])
      const heard = (response_format: "text" | "srt" | "vtt") =>
        Effect.promise(async () =>
          client.audio.transcriptions.create({ file: await talk(), model: "whisper", response_format })
        )
      assert.strictEqual(yield* heard("text"), `${transcribed.text}\n`)
      assert.strictEqual(
        yield* heard("srt"),
        "1\n00:00:00,000 --> 00:00:04,500\nIt is noon\n\n2\n00:00:04,500 --> 01:01:01,250\nin -> Oslo.\n\n"
      )
      assert.strictEqual(
        yield* heard("vtt"),
        "WEBVTT\n\n00:00:00.000 --> 00:00:04.500\nIt is noon\n\n00:00:04.500 --> 01:01:01.250\nin -> Oslo.\n\n"
      )
      const verbose = yield* Effect.promise(async () =>
        client.audio.transcriptions.create({
          file: await talk(),
          model: "whisper",
          response_format: "verbose_json",
          timestamp_granularities: ["segment"]
        })
      )
      assert.lengthOf(verbose.segments ?? [], 2)
      assert.deepStrictEqual(
        standIn.requests.map(({ body }) => body.response_format),
        ["json", "verbose_json", "verbose_json", "verbose_json"]
      )
      assert.deepStrictEqual(standIn.requests[3]?.body["timestamp_granularities[]"], ["segment"])
      for (const row of yield* rows(4)) assert.strictEqual(row.costUsd, usdOf(transcribed.seconds * perSecond))
    }).pipe(Effect.scoped)
  )

  it.effect("streams deltas, and the usage of the last event, also where its provider answers as a whole", () =>
    Effect.gen(function* () {
      const { client, rows } = yield* setting([{ limit: 5 }])
      for (const [model, costNanoUsd, count] of [
        ["listener", byTokens, 1],
        ["whisper", transcribed.seconds * perSecond, 2]
      ] as const) {
        const events = yield* Effect.promise(async () => {
          const stream = await client.audio.transcriptions.create({ file: await talk(), model, stream: true })
          const seen: Array<OpenAI.Audio.TranscriptionStreamEvent> = []
          for await (const event of stream) seen.push(event)
          return seen
        })
        const deltas = events.flatMap((event) => (event.type === "transcript.text.delta" ? [event.delta] : []))
        assert.strictEqual(deltas.join(""), transcribed.text)
        assert.strictEqual(events.at(-1)?.type, "transcript.text.done")
        const costs = (yield* rows(count)).map(({ costUsd }: { readonly costUsd: number }) => costUsd)
        assert.include(costs, usdOf(costNanoUsd))
      }
    }).pipe(Effect.scoped)
  )

  it.effect("translates in the same way", () =>
    Effect.gen(function* () {
      const { client, rows, standIn } = yield* setting([{ limit: 5 }])
      const heard = yield* Effect.promise(async () =>
        client.audio.translations.create({ file: await talk(), model: "whisper" })
      )
      assert.strictEqual(heard.text, transcribed.text)
      assert.strictEqual(standIn.requests[0]?.path, "/v1/audio/translations")
      const [row] = yield* rows(1)
      assert.deepInclude(row, { costUsd: usdOf(transcribed.seconds * perSecond), operation: "translate" })
    }).pipe(Effect.scoped)
  )

  it.effect("keeps free what its bytes may last, whatever the file says of itself", () =>
    Effect.gen(function* () {
      const flac = Buffer.concat([Buffer.from("fLaC"), mp3])
      const short = Buffer.concat([wav({ rate: 4_000_000_000 }), Buffer.alloc(80_000 - 44)])
      const files: ReadonlyArray<readonly [Uint8Array, number]> = [
        [mp3, 100],
        // A hundred thousand seconds, though its name says MP3.
        [flac, flac.length],
        // Ten seconds at the lowest rate, where its header says that it is over at once.
        [short, 10]
      ]
      for (const [bytes, seconds] of files) {
        const tight = yield* setting([{ limit: usdOf((seconds - 1) * perSecond) }])
        const refused = yield* tight.send({ model: "whisper" }, bytes)
        assert.strictEqual(refused.status, 402, refused.text)
        assert.lengthOf(tight.standIn.requests, 0)
        const wide = yield* setting([{ limit: usdOf(seconds * perSecond) }])
        const heard = yield* wide.send({ model: "whisper" }, bytes)
        assert.strictEqual(heard.status, 200, heard.text)
      }
      // What the model's provider takes at most bounds it, too: 1,500 seconds, and 2,000 tokens.
      const most = 15_000 * 6000 + 2000 * 10_000
      const tight = yield* setting([{ limit: usdOf(most) }])
      assert.strictEqual((yield* tight.send({ model: "listener" }, flac)).status, 402)
      const wide = yield* setting([{ limit: usdOf(most + 400 * 6000) }])
      assert.strictEqual((yield* wide.send({ model: "listener" }, flac)).status, 200)
    }).pipe(Effect.scoped)
  )

  it.effect("is refused under a hard cap where a second has no price, or the audio is cut into pieces", () =>
    Effect.gen(function* () {
      const { rows, send, standIn } = yield* setting([{ limit: 5 }])
      const unknown = yield* send({ model: "ears" })
      assert.deepStrictEqual([unknown.status, codeOf(unknown)], [403, "cost_unbounded"], unknown.text)
      const cut = yield* send({ model: "listener", chunking_strategy: "auto" })
      assert.deepStrictEqual([cut.status, codeOf(cut)], [403, "cost_unbounded"], cut.text)
      assert.lengthOf(standIn.requests, 0)
      assert.lengthOf(yield* rows(0), 0)
    }).pipe(Effect.scoped)
  )

  it.effect("is charged as it was bounded where its usage cannot be believed, or its stream breaks off", () =>
    Effect.gen(function* () {
      const durations = [undefined, { type: "duration", seconds: -9 }, { type: "duration", seconds: "NaN" }]
      for (const usage of durations) {
        const { rows, send } = yield* setting([{ limit: 5 }], (_, response) =>
          json(response, 200, { text: "Noon.", usage })
        )
        assert.strictEqual((yield* send({ model: "whisper" })).status, 200)
        const [row] = yield* rows(1)
        assert.deepInclude(row, { costUsd: usdOf(100 * perSecond), method: "estimated" }, JSON.stringify(usage))
      }
      const tokens = { type: "tokens", input_tokens: -14, output_tokens: -45, total_tokens: -59 }
      const answers: ReadonlyArray<readonly [Answerer, Record<string, string>]> = [
        [(_, response) => json(response, 200, { text: "Noon.", usage: tokens }), {}],
        [brokenOff, { stream: "true" }]
      ]
      for (const [answer, fields] of answers) {
        const { rows, send } = yield* setting([{ limit: 5 }], answer)
        yield* send({ model: "listener", ...fields })
        const [row] = yield* rows(1)
        assert.deepInclude(row, { method: "estimated", outputTokens: 2000 })
        // A hundred seconds have a thousand tokens.
        assert.isAtLeast(row.costUsd, usdOf(1000 * 6000 + 2000 * 10_000))
      }
    }).pipe(Effect.scoped)
  )

  it.effect("is answered by the loopback model too", () =>
    Effect.gen(function* () {
      const { send } = yield* setting([{ limit: 5 }])
      const heard = yield* send({ model: "loopback-1", response_format: "srt" })
      assert.strictEqual(heard.status, 200, heard.text)
      assert.include(heard.text, "A file of 100000 bytes, talk.mp3.")
      assert.match(heard.type ?? "", /^text\/plain/)
      const streamed = yield* send({ model: "loopback-1", stream: "true" }, mp3, "/v1/audio/translations")
      assert.include(streamed.text, "transcript.text.done")
    }).pipe(Effect.scoped)
  )
})
