import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { createHash, randomBytes } from "node:crypto"
import * as fs from "node:fs/promises"
import * as http from "node:http"
import { type AddressInfo } from "node:net"
import { afterAll } from "vitest"
import { configure, model, provider, spender } from "../../support/gateway.ts"
import { imageVendor, transcriptionVendor } from "../../support/media-vendor.ts"
import { type Answerer, type ProviderStandIn, type ReceivedFile, startProvider } from "../../support/provider.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { namesIn, openFilesIn, uploadDirectory } from "../../support/temporary-files.ts"
import { eventually } from "../../support/waiting.ts"

const isLinux = process.platform === "linux"
const mebibyte = 1 << 20
const directory = await uploadDirectory()
const missing = `${directory}/missing`

afterAll(() => fs.rm(directory, { recursive: true, force: true }))

const transcriptions = "/v1/audio/transcriptions"
const edits = "/v1/images/edits"
const transcription = { kind: "transcription", prices: { inputUsdPerMTok: 0, audioSecondUsd: 0.0001 } }
const image = { kind: "image", prices: { inputUsdPerMTok: 5, outputUsdPerMTok: 40 } }

const digest = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")

/** Models that each provider answers, in their order. */
const setting = (providers: Readonly<Record<string, Pick<ProviderStandIn, "url">>>) =>
  Effect.gen(function* () {
    const service = yield* TestService
    const ids = Object.keys(providers)
    const targets = (name: string) => ({ targets: ids.map((id) => ({ provider: id, model: name })) })
    yield* configure(
      service,
      Object.entries(providers).map(([id, { url }]) => provider(id, { url } as ProviderStandIn)),
      [
        model("whisper", [], { ...transcription, ...targets("whisper-1") }),
        model("painter", [], { ...image, ...targets("gpt-image-1") })
      ],
      { strategy: "priority" }
    )
    const { key, tenantId } = yield* spender(service, [{ limit: 5000 }])
    const send = (path: string, form: FormData, headers: Record<string, string> = {}, signal?: AbortSignal) =>
      Effect.promise(async () => {
        const response = await fetch(`${service.url}${path}`, {
          method: "POST",
          headers: { authorization: `Bearer ${key}`, ...headers },
          body: form,
          ...(signal === undefined ? {} : { signal })
        })
        return { status: response.status, headers: response.headers, body: JSON.parse(await response.text()) }
      })
    const rows = Effect.map(service.call("GET", `/api/usage?tenantId=${tenantId}`), ({ body: { items } }) => items)
    return { key, rows, send, service }
  })

const talk = (bytes: Uint8Array, more: Readonly<Record<string, string>> = {}): FormData => {
  const form = new FormData()
  form.append("file", new File([new Uint8Array(bytes)], "talk.mp3", { type: "audio/mpeg" }))
  for (const [name, value] of Object.entries({ model: "whisper", ...more })) form.append(name, value)
  return form
}

const untilClosed = eventually(openFilesIn(directory), ({ length }) => length === 0)

/** A provider that answers when it is let go. */
const held = (answer: Answerer) => {
  const waiting: Array<() => void> = []
  const holding: Answerer = (request, response) => void waiting.push(() => answer(request, response))
  return { holding, letGo: Effect.sync(() => waiting.splice(0).forEach((go) => go())) }
}

/** A provider that breaks each connection off once it has received some of a request. */
const breaking = Effect.acquireRelease(
  Effect.promise(async () => {
    const server = http.createServer((request) => {
      let received = 0
      request.on("data", (chunk: Buffer) => {
        received += chunk.length
        if (received > 100_000) request.socket.destroy()
      })
      request.on("error", () => {})
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
  }),
  ({ server }) => Effect.promise(() => new Promise((resolve) => server.close(resolve)))
)

/** A provider that refuses each request before it has read it. */
const hasty = Effect.acquireRelease(
  Effect.promise(async () => {
    const server = http.createServer((request, response) => {
      request.pause()
      response.writeHead(503).end()
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
  }),
  ({ server }) => Effect.promise(() => new Promise((resolve) => server.close(resolve).closeAllConnections()))
)

layer(
  serviceLayer({
    Llm__Gateway__UploadDirectory: directory,
    Llm__Gateway__MaxUploadBytes: String(3 * mebibyte),
    Llm__Gateway__MaxUploadsBytes: String(6 * mebibyte)
  }),
  { excludeTestServices: true, timeout: "60 seconds" }
)("files of requests", (it) => {
  it.effect.runIf(isLinux)("are in a file without a name while their call runs, and small ones in none", () =>
    Effect.gen(function* () {
      const { holding, letGo } = held(transcriptionVendor)
      const standIn = yield* startProvider(holding)
      const { send } = yield* setting({ one: standIn })
      const bytes = randomBytes(mebibyte)
      const looking = Effect.gen(function* () {
        yield* eventually(
          Effect.sync(() => standIn.requests.length),
          (count) => count === 1
        )
        const files = yield* openFilesIn(directory)
        assert.deepStrictEqual(
          files.map(({ bytes: size, isNamed, mode }) => [size, mode, isNamed]),
          [[mebibyte, "600", false]]
        )
        assert.lengthOf(yield* namesIn(directory), 0)
        yield* letGo
      })
      const [answer] = yield* Effect.all([send(transcriptions, talk(bytes)), looking], { concurrency: 2 })
      assert.strictEqual(answer.status, 200, JSON.stringify(answer.body))
      assert.strictEqual(digest(standIn.requests[0]?.body.file.bytes), digest(bytes))
      yield* untilClosed

      const small = Effect.gen(function* () {
        yield* eventually(
          Effect.sync(() => standIn.requests.length),
          (count) => count === 2
        )
        assert.lengthOf(yield* openFilesIn(directory), 0)
        yield* letGo
      })
      const [other] = yield* Effect.all([send(transcriptions, talk(bytes.subarray(0, 65_536))), small], {
        concurrency: 2
      })
      assert.strictEqual(other.status, 200)
      assert.strictEqual(digest(standIn.requests[1]?.body.file.bytes), digest(bytes.subarray(0, 65_536)))
    }).pipe(Effect.scoped)
  )

  it.effect("reach the next target as they are, whatever the one before has read of them", () =>
    Effect.gen(function* () {
      const failing = yield* startProvider((_, response) => response.writeHead(503).end())
      const good = yield* startProvider(imageVendor)
      const { send } = yield* setting({ breaking: yield* breaking, hasty: yield* hasty, failing, good })
      const sizes = [1, 70_000, 40_000, 65_536, 30_000, 900_001, 0]
      const files = sizes.map((size) => randomBytes(size))
      const form = new FormData()
      for (const [index, bytes] of files.entries()) form.append("image[]", new File([bytes], `${index}.png`))
      form.append("model", "painter")
      form.append("prompt", "A hat")
      const made = yield* send(edits, form)
      assert.strictEqual(made.status, 200, JSON.stringify(made.body))
      for (const { requests } of [failing, good]) {
        const received: ReadonlyArray<ReceivedFile> = requests[0]?.body["image[]"]
        assert.deepStrictEqual(
          received.map(({ bytes, filename }) => [filename, bytes.length, digest(bytes)]),
          files.map((bytes, index) => [`${index}.png`, bytes.length, digest(bytes)])
        )
      }
      if (isLinux) yield* untilClosed
    }).pipe(Effect.scoped)
  )

  it.effect("leave little room for fields, which are in memory", () =>
    Effect.gen(function* () {
      const standIn = yield* startProvider(transcriptionVendor)
      const { send } = yield* setting({ one: standIn })
      const prompt = "a".repeat(600_000)
      const made = yield* send(transcriptions, talk(randomBytes(1000), { prompt }))
      assert.strictEqual(made.status, 200, JSON.stringify(made.body))
      const refused = yield* send(transcriptions, talk(randomBytes(1000), { prompt, language: prompt }))
      assert.deepStrictEqual([refused.status, standIn.requests.length], [413, 1])
      assert.include(refused.body.error.message, "1048576")
    }).pipe(Effect.scoped)
  )

  it.effect("are the same under an Idempotency-Key where their bytes are", () =>
    Effect.gen(function* () {
      const standIn = yield* startProvider(transcriptionVendor)
      const { send } = yield* setting({ one: standIn })
      const bytes = randomBytes(300_000)
      const headers = { "idempotency-key": "talk" }
      assert.strictEqual((yield* send(transcriptions, talk(bytes), headers)).status, 200)
      const again = yield* send(transcriptions, talk(bytes), headers)
      assert.deepStrictEqual([again.status, again.body.error.code], [409, "already_completed"])
      bytes[299_999]! ^= 1
      const other = yield* send(transcriptions, talk(bytes), headers)
      assert.deepStrictEqual([other.status, other.body.error.code], [422, "idempotency_key_reused"])
      assert.lengthOf(standIn.requests, 1)
    }).pipe(Effect.scoped)
  )

  it.effect.runIf(isLinux)("leave nothing behind where their caller leaves, and their room is free again", () =>
    Effect.gen(function* () {
      const { holding } = held(transcriptionVendor)
      const waiting = yield* startProvider(holding)
      const { key, rows, send, service } = yield* setting({ waiting })
      // While they are sent, four times as much as a tenant has room for at once, one after another.
      for (let round = 0; round < 4; round++) {
        const request = http.request(`${service.url}${transcriptions}`, {
          method: "POST",
          headers: {
            authorization: `Bearer ${key}`,
            "content-type": "multipart/form-data; boundary=b",
            "content-length": 3 * mebibyte
          }
        })
        request.on("error", () => {})
        request.write('--b\r\ncontent-disposition: form-data; name="file"; filename="a.mp3"\r\n\r\n')
        request.write(randomBytes(2 * mebibyte))
        const arrived = ([file]: ReadonlyArray<{ readonly bytes: number }>) => (file?.bytes ?? 0) > mebibyte
        yield* eventually(openFilesIn(directory), arrived)
        request.destroy()
        yield* untilClosed
      }
      assert.lengthOf(waiting.requests, 0)
      assert.lengthOf(yield* rows, 0)
      // While the provider works.
      const leaving = new AbortController()
      const left = Effect.exit(
        Effect.tryPromise(() =>
          fetch(`${service.url}${transcriptions}`, {
            method: "POST",
            headers: { authorization: `Bearer ${key}` },
            body: talk(randomBytes(2 * mebibyte)),
            signal: leaving.signal
          })
        )
      )
      const leave = Effect.andThen(
        eventually(
          Effect.sync(() => waiting.requests.length),
          (count) => count === 1
        ),
        Effect.sync(() => leaving.abort())
      )
      yield* Effect.all([left, leave], { concurrency: 2 })
      yield* untilClosed
      assert.lengthOf(yield* namesIn(directory), 0)
      waiting.answer = transcriptionVendor
      assert.strictEqual((yield* send(transcriptions, talk(randomBytes(2 * mebibyte)))).status, 200)
      yield* untilClosed
    }).pipe(Effect.scoped)
  )

  it.effect.runIf(isLinux)("that cannot be read again reach no target in part, and cost nothing", () =>
    Effect.gen(function* () {
      const failing = yield* startProvider((_, response) => {
        void Effect.runPromise(openFilesIn(directory)).then(async ([file]) => {
          await fs.truncate(file?.at ?? "", 1000)
          response.writeHead(503).end()
        })
      })
      const good = yield* startProvider(transcriptionVendor)
      const { rows, send } = yield* setting({ failing, good })
      const refused = yield* send(transcriptions, talk(randomBytes(mebibyte)))
      assert.strictEqual(refused.status, 503, JSON.stringify(refused.body))
      assert.include(refused.body.error.message, "Llm:Gateway:UploadDirectory")
      assert.deepStrictEqual([failing.requests.length, good.requests.length], [1, 0])
      for (const { costUsd, method } of yield* rows) assert.deepStrictEqual([costUsd, method], [0, "released"])
      yield* untilClosed
    }).pipe(Effect.scoped)
  )
})

layer(serviceLayer({ Llm__Gateway__UploadDirectory: missing }), { excludeTestServices: true, timeout: "60 seconds" })(
  "files of requests without a directory",
  (it) => {
    it.effect("are refused with the name of the setting, and cost nothing; small ones need none", () =>
      Effect.gen(function* () {
        const standIn = yield* startProvider(transcriptionVendor)
        const { rows, send } = yield* setting({ one: standIn })
        const headers = { "idempotency-key": "talk" }
        const bytes = randomBytes(mebibyte)
        const refused = yield* send(transcriptions, talk(bytes), headers)
        assert.strictEqual(refused.status, 503)
        assert.include(refused.body.error.message, "Llm:Gateway:UploadDirectory (ENOENT)")
        assert.strictEqual(refused.headers.get("retry-after"), "10")
        assert.lengthOf(standIn.requests, 0)
        assert.lengthOf(yield* rows, 0)
        assert.strictEqual((yield* send(transcriptions, talk(bytes.subarray(0, 60_000)))).status, 200)
        yield* Effect.promise(() => fs.mkdir(missing))
        const made = yield* send(transcriptions, talk(bytes), headers)
        assert.strictEqual(made.status, 200, JSON.stringify(made.body))
        assert.strictEqual(digest(standIn.requests[1]?.body.file.bytes), digest(bytes))
      }).pipe(Effect.scoped)
    )
  }
)
