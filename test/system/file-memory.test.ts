import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { createHash } from "node:crypto"
import { once } from "node:events"
import * as fsPromises from "node:fs/promises"
import * as http from "node:http"
import { vendorKey } from "../support/batch-vendor.ts"
import { isLinux, makeDirectory } from "../support/embedded-postgres.ts"
import { startFileVendor } from "../support/file-vendor.ts"
import { startProcess } from "../support/service-process.ts"
import { serviceKey } from "../support/service.ts"

const mebibyte = 2 ** 20
const mebibytes = 512
/** What the collector of garbage may leave, far below what the files have. */
const mostGrown = 150

/** The most memory that a process has had since {@link forgetPeak}, in MiB. */
const peakOf = (pid: number) =>
  Effect.promise(async () => {
    const status = await fsPromises.readFile(`/proc/${pid}/status`, "utf8")
    return (Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024) / mebibyte
  })
const forgetPeak = (pid: number) => Effect.promise(() => fsPromises.writeFile(`/proc/${pid}/clear_refs`, "5"))

const fieldOf = (name: string, value: string) =>
  `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`
const purpose = fieldOf("purpose", "user_data")
const head = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n'

/** A file of so many MiB, each of which is another; nothing of it is kept. */
function* chunksOf(count: number) {
  for (let index = 0; index < count; index++) {
    const chunk = Buffer.alloc(mebibyte, 0x80 + (index % 100))
    chunk.writeUInt32BE(index)
    yield chunk
  }
}

const sha256 = (count: number) => {
  const digest = createHash("sha256")
  for (const chunk of chunksOf(count)) digest.update(chunk)
  return digest.digest("hex")
}

/** Uploads a file, whose form has these fields around it. */
const upload = (url: string, headers: Record<string, string>, before: string, after: string, count: number) =>
  Effect.promise(async () => {
    const request = http.request(`${url}/v1/files`, {
      method: "POST",
      headers: { "x-api-key": serviceKey, "content-type": "multipart/form-data; boundary=b", ...headers }
    })
    const answered = once(request, "response") as Promise<[http.IncomingMessage]>
    request.write(before)
    for (const chunk of chunksOf(count)) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      if (!request.write(chunk)) await once(request, "drain")
    }
    request.end(`\r\n${after}--b--\r\n`)
    const [response] = await answered
    response.resume()
    return response.statusCode
  })

describe(`files of ${mebibytes} MiB`, () => {
  it.live.runIf(isLinux)("reach their providers to the last byte, and take memory that does not grow with them", () =>
    Effect.gen(function* () {
      const service = yield* startProcess(yield* makeDirectory(), {
        Llm__Gateway__MaxUploadBytes: String(2 ** 30)
      })
      const openai = yield* startFileVendor("openai")
      const anthropic = yield* startFileVendor("anthropic")
      const body = {
        providers: [
          { id: "oa", dialect: "openai", baseUrl: `${openai.url}/v1`, apiKey: vendorKey },
          { id: "an", dialect: "anthropic", baseUrl: anthropic.url, apiKey: vendorKey }
        ],
        models: []
      }
      assert.strictEqual((yield* service.call("PUT", "/api/llm/admin/config", { body })).status, 200)
      const ofAnthropic = { "anthropic-version": "2023-06-01" }
      // Once before, for what any upload makes.
      yield* upload(service.url, {}, `${purpose}${head}`, "", 16)
      yield* forgetPeak(service.pid)
      const before = yield* peakOf(service.pid)
      assert.strictEqual(yield* upload(service.url, {}, `${purpose}${head}`, "", mebibytes), 200)
      assert.strictEqual(yield* upload(service.url, {}, head, purpose, mebibytes), 200)
      assert.strictEqual(yield* upload(service.url, ofAnthropic, head, "", mebibytes), 200)
      const peak = yield* peakOf(service.pid)
      const sum = sha256(mebibytes)
      assert.deepStrictEqual(
        [...openai.files.values(), ...anthropic.files.values()].slice(1).map((file) => [file.length, file.sha256]),
        Array.from({ length: 3 }, () => [mebibytes * mebibyte, sum])
      )
      assert.isBelow(peak - before, mostGrown)
      assert.deepStrictEqual([openai.faults, anthropic.faults], [[], []])
    }).pipe(Effect.scoped)
  )
})
