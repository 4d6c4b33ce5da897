import * as fs from "node:fs/promises"
import * as http from "node:http"
import { type AddressInfo } from "node:net"
import { Readable } from "node:stream"
import { setInterval, setTimeout } from "node:timers"
import { spender } from "./gateway.ts"
import { call, median, print, residentMegabytes, serviceKey, startService, temporaryDirectory } from "./rates.ts"

const uploads = Number(process.env.BENCH_UPLOADS ?? "40")
const mebibytes = Number(process.env.BENCH_MEBIBYTES ?? "30")
const rounds = 3
const mebibyte = 1 << 20
/** How long the provider reads nothing after all requests have reached it. */
const slowMillis = 3000
/** What the service may take more than at rest, whatever is uploaded. */
const most = 200

const transcript = JSON.stringify({ text: "It is noon in Oslo.", usage: { type: "duration", seconds: 9 } })

/** A provider of transcriptions that reads no request before `expected` have come. */
const slowProvider = async (expected: number) => {
  const waiting: Array<() => void> = []
  const server = http.createServer((request, response) => {
    waiting.push(() => {
      request.resume().once("end", () => response.setHeader("content-type", "application/json").end(transcript))
    })
    if (waiting.length < expected) return
    setTimeout(() => {
      for (const read of waiting.splice(0)) read()
    }, slowMillis)
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() }
}

const block = Buffer.alloc(mebibyte, 1)
const boundary = "bench"
const head = Buffer.from(
  `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="talk.mp3"\r\ncontent-type: audio/mpeg\r\n\r\n`
)
const tail = Buffer.from(
  `\r\n--${boundary}\r\ncontent-disposition: form-data; name="model"\r\n\r\nwhisper\r\n--${boundary}--\r\n`
)

/** A form with a file before its model, as SDKs send it. */
const upload = (url: string, authorization: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const request = http.request(`${url}/v1/audio/transcriptions`, {
      method: "POST",
      headers: {
        authorization,
        "content-type": `multipart/form-data; boundary=${boundary}`,
        "content-length": head.length + mebibytes * mebibyte + tail.length
      }
    })
    request.once("error", reject)
    request.once("response", (response) => response.resume().once("end", () => resolve(response.statusCode ?? 0)))
    Readable.from([head, ...Array.from({ length: mebibytes }, () => block), tail]).pipe(request)
  })

/** The memory of the service while many forms with files wait for a provider at once. */
const benchUploads = async (): Promise<void> => {
  const directory = await temporaryDirectory()
  const provider = await slowProvider(uploads)
  const room = 2 * uploads * (mebibytes + 1) * mebibyte
  const service = await startService(directory, {
    Llm__Gateway__MaxUploadBytes: String((mebibytes + 1) * mebibyte),
    Llm__Gateway__MaxUploadsBytes: String(room)
  })
  try {
    await call(service.url, serviceKey, "PUT", "/api/llm/admin/config", {
      providers: [{ id: "slow", dialect: "openai", baseUrl: `${provider.url}/v1`, maxConcurrency: 1000 }],
      models: [
        {
          id: "whisper",
          kind: "transcription",
          prices: { inputUsdPerMTok: 0, audioSecondUsd: 0.0001 },
          targets: [{ provider: "slow", model: "whisper-1" }]
        }
      ]
    })
    const { authorization = "" } = await spender(service.url, [])
    const rest = await residentMegabytes(service)
    let highest = 0
    const watching = setInterval(() => {
      void residentMegabytes(service).then((now) => (highest = Math.max(highest, now)))
    }, 100)
    const seconds: Array<number> = []
    const peaks: Array<number> = []
    for (let round = 0; round < rounds; round++) {
      highest = 0
      const started = performance.now()
      const statuses = await Promise.all(Array.from({ length: uploads }, () => upload(service.url, authorization)))
      const refused = statuses.filter((status) => status !== 200)
      if (refused.length > 0) throw new Error(`refused: ${refused.join(" ")}`)
      seconds.push((performance.now() - started - slowMillis) / 1000)
      peaks.push(highest)
    }
    clearInterval(watching)
    const more = Math.max(...peaks) - rest
    print(`${uploads} uploads of ${mebibytes} MiB at once to a slow provider, ${rounds} times`, [
      { what: "memory at rest", measured: `${rest.toFixed(0)} MB`, wanted: "", met: true },
      { what: "most memory", measured: peaks.map((peak) => `${peak.toFixed(0)} MB`).join(", "), wanted: "", met: true },
      { what: "more than at rest", measured: `${more.toFixed(0)} MB`, wanted: `(wanted < ${most})`, met: more < most },
      { what: "from first to last byte", measured: `${median(seconds).toFixed(1)} s`, wanted: "", met: true }
    ])
  } finally {
    await service.stop()
    provider.close()
    await fs.rm(directory, { recursive: true, force: true })
  }
}

if (import.meta.main) await benchUploads()
