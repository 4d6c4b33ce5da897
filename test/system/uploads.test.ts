import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { randomBytes } from "node:crypto"
import * as http from "node:http"
import { promisify } from "node:util"
import { isLinux, makeDirectory } from "../support/embedded-postgres.ts"
import { configure, model, provider } from "../support/gateway.ts"
import { transcriptionVendor } from "../support/media-vendor.ts"
import { startProvider } from "../support/provider.ts"
import { type ServiceProcess, startProcess } from "../support/service-process.ts"
import { serviceKey } from "../support/service.ts"
import { namesIn, openFilesIn } from "../support/temporary-files.ts"
import { eventually } from "../support/waiting.ts"

const mebibyte = 1 << 20
const path = "/v1/audio/transcriptions"

const setting = Effect.gen(function* () {
  const directory = yield* makeDirectory()
  const uploads = yield* makeDirectory()
  const service = yield* startProcess(directory, { Llm__Gateway__UploadDirectory: uploads })
  const vendor = yield* startProvider(transcriptionVendor)
  const prices = { inputUsdPerMTok: 0, audioSecondUsd: 0.0001 }
  const targets = [{ provider: "vendor", model: "whisper-1" }]
  yield* configure(
    service,
    [provider("vendor", vendor)],
    [model("whisper", [], { kind: "transcription", prices, targets })]
  )
  return { service, uploads, vendor }
})

/** Sends the beginning of a form, and no more of it. */
const begin = ({ url }: ServiceProcess, bytes: number) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const request = http.request(`${url}${path}`, {
        method: "POST",
        headers: {
          "x-api-key": serviceKey,
          "content-type": "multipart/form-data; boundary=b",
          "content-length": 2 * bytes
        }
      })
      request.on("error", () => {})
      request.write('--b\r\ncontent-disposition: form-data; name="file"; filename="a.mp3"\r\n\r\n')
      request.write(randomBytes(bytes))
      return request
    }),
    (request) => Effect.sync(() => request.destroy())
  )

const send = ({ url }: ServiceProcess, bytes: number, headers: Record<string, string> = {}) =>
  Effect.promise(async () => {
    const form = new FormData()
    form.append("file", new File([Buffer.alloc(bytes, 1)], "talk.mp3"))
    form.append("model", "whisper")
    const response = await fetch(`${url}${path}`, {
      method: "POST",
      headers: { "x-api-key": serviceKey, ...headers },
      body: form
    })
    return { status: response.status, text: await response.text() }
  })

/** Limits the size of files that a process may write, as a full disk would; none without a size. */
const limitFiles = ({ pid }: ServiceProcess, bytes?: number) =>
  Effect.promise(() => promisify(execFile)("prlimit", ["--pid", `${pid}`, `--fsize=${bytes ?? "unlimited"}:`]))

describe.runIf(isLinux)("files of requests", () => {
  it.live(
    "leave nothing when the service is killed",
    () =>
      Effect.gen(function* () {
        const { service, uploads } = yield* setting
        for (let sender = 0; sender < 3; sender++) yield* begin(service, 2 * mebibyte)
        yield* eventually(
          openFilesIn(uploads, service.pid),
          (files) => files.length === 3 && files.every(({ bytes }) => bytes > mebibyte)
        )
        yield* service.signal("SIGKILL")
        assert.strictEqual(yield* service.ended, "SIGKILL")
        assert.lengthOf(yield* namesIn(uploads), 0)
      }).pipe(Effect.scoped),
    120_000
  )

  it.live(
    "for which the disk has no room are refused, and nothing else is",
    () =>
      Effect.gen(function* () {
        const { service, uploads, vendor } = yield* setting
        yield* limitFiles(service, mebibyte)
        const headers = { "idempotency-key": "talk" }
        const refused = yield* send(service, 5 * mebibyte, headers)
        assert.strictEqual(refused.status, 503, refused.text)
        assert.include(JSON.parse(refused.text).error.message, "Llm:Gateway:UploadDirectory (EFBIG)")
        assert.include(service.output(), "Llm:Gateway:UploadDirectory")
        assert.lengthOf(vendor.requests, 0)
        assert.strictEqual((yield* send(service, mebibyte / 2)).status, 200)
        yield* limitFiles(service)
        const made = yield* send(service, 5 * mebibyte, headers)
        assert.strictEqual(made.status, 200, made.text)
        assert.strictEqual(vendor.requests[1]?.body.file.bytes.length, 5 * mebibyte)
        assert.lengthOf(yield* openFilesIn(uploads, service.pid), 0)
        assert.lengthOf(yield* namesIn(uploads), 0)
      }).pipe(Effect.scoped),
    120_000
  )
})
