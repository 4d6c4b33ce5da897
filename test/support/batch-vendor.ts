import { Effect } from "effect"
import * as http from "node:http"
import { type AddressInfo } from "node:net"

/** A line of a file of requests, as the vendor reads it. */
interface RequestLine {
  readonly custom_id: string
  readonly method: string
  readonly url: string
  readonly body: Readonly<Record<string, unknown>>
}

interface VendorFile {
  readonly id: string
  readonly filename: string
  readonly purpose: string
  readonly content: string
}

/** A request of a batch, whichever vendor's. */
export interface VendorRequest {
  readonly customId: string
  readonly params: Readonly<Record<string, unknown>>
}

export interface VendorBatch {
  readonly id: string
  readonly requests: ReadonlyArray<VendorRequest>
  /** The batch as the vendor shows it. */
  shown: Record<string, unknown>
  /** The lines of its results. */
  results: ReadonlyArray<unknown>
}

/** What becomes of a request: an answer with this usage, or none. */
export type Outcome = { readonly usage: object } | "errored" | "canceled" | "expired"

/**
 * How a request to the vendor is handled before it does what it is asked for: not at all by itself, or done without an answer,
 * whose connection breaks or stays; undefined goes on.
 */
export type Interference = (
  request: { readonly method: string; readonly path: string },
  response: http.ServerResponse
) => "handled" | "lost" | "silent" | undefined

/** A stand-in for the batches and files of OpenAI or Anthropic, which verifies what they verify. */
export interface BatchVendor {
  readonly url: string
  readonly files: Map<string, VendorFile>
  readonly batches: Map<string, VendorBatch>
  /** Every request, by its method and path. */
  readonly log: Array<string>
  /** What the vendor would refuse. */
  readonly faults: Array<string>
  interfere: Interference
  /** Ends a batch. */
  end(id: string, status: string, outcomeOf: (request: VendorRequest, index: number) => Outcome): void
}

const bytesIn = async (request: http.IncomingMessage) => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

const json = (response: http.ServerResponse, status: number, body: unknown) => {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))
}

const jsonl = (lines: ReadonlyArray<unknown>) => lines.map((line) => `${JSON.stringify(line)}\n`).join("")

/** The key that both vendors ask for, each in its own header. */
export const vendorKey = "sk-vendor"

class Refused extends Error {}

/** Starts the stand-in. Ids are of one digit more than there are, so that two stand-ins have the same. */
export const startBatchVendor = (dialect: "openai" | "anthropic") =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const vendor: BatchVendor = {
        url: "",
        files: new Map(),
        batches: new Map(),
        log: [],
        faults: [],
        interfere: () => undefined,
        end: (id, status, outcomeOf) => {
          const batch = vendor.batches.get(id)
          if (batch === undefined) throw new Error(`No batch ${id}`)
          if (dialect === "openai") endOpenAi(vendor, batch, status, outcomeOf)
          else endAnthropic(batch, outcomeOf)
        }
      }
      const answer = dialect === "openai" ? answerOpenAi : answerAnthropic
      const server = http.createServer((request, response) => {
        void bytesIn(request).then(
          (body) => {
            const method = request.method ?? ""
            const path = request.url ?? ""
            vendor.log.push(`${method} ${path}`)
            const taken = vendor.interfere({ method, path }, response)
            if (taken === "handled") return
            try {
              const key = dialect === "openai" ? request.headers.authorization : request.headers["x-api-key"]
              refuseUnless(key === (dialect === "openai" ? `Bearer ${vendorKey}` : vendorKey), "the key is missing")
              const made = answer(vendor, request, body)
              if (taken === "silent") return
              if (taken === "lost") response.destroy()
              else if (typeof made === "string")
                response.writeHead(200, { "content-type": "application/x-ndjson" }).end(made)
              else if (made === undefined)
                json(response, 404, { error: { message: "not found", type: "not_found_error" } })
              else json(response, 200, made)
            } catch (error) {
              if (!(error instanceof Refused)) throw error
              vendor.faults.push(error.message)
              json(response, 400, { error: { message: error.message, type: "invalid_request_error" } })
            }
          },
          // A client may give an upload up.
          () => {}
        )
      })
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
      const { port } = server.address() as AddressInfo
      return { vendor: Object.assign(vendor, { url: `http://127.0.0.1:${port}` }), server }
    }),
    ({ server }) =>
      Effect.promise(() => {
        server.closeAllConnections()
        return new Promise((resolve) => server.close(resolve))
      })
  ).pipe(Effect.map(({ vendor }) => vendor))

const refuseUnless = (isGood: boolean, fault: string) => {
  if (!isGood) throw new Refused(fault)
}

/** The parts of a form (RFC 7578), read to the last byte. */
const partsIn = (type: string, body: Buffer) => {
  const boundary = /^multipart\/form-data; *boundary=(.+)$/.exec(type)?.[1]
  refuseUnless(boundary !== undefined, `no form: ${type}`)
  const text = body.toString("utf8")
  const [before, ...parts] = text.split(`--${boundary}`)
  refuseUnless(before === "" && parts.at(-1) === "--\r\n", "the form does not end")
  return parts.slice(0, -1).map((part) => {
    const [head = "", ...rest] = part.split("\r\n\r\n")
    const content = rest.join("\r\n\r\n")
    refuseUnless(content.endsWith("\r\n"), "a part does not end")
    const name = /name="([^"]*)"/.exec(head)?.[1] ?? ""
    return { name, filename: /filename="([^"]*)"/.exec(head)?.[1], content: content.slice(0, -2) }
  })
}

const shownFile = ({ content, filename, id, purpose }: VendorFile) => ({
  id,
  object: "file",
  bytes: Buffer.byteLength(content),
  created_at: 1_790_000_000,
  filename,
  purpose,
  status: "processed"
})

const addFile = (vendor: BatchVendor, purpose: string, filename: string, content: string): VendorFile => {
  const file = { id: `file-${vendor.files.size + 1}x`, purpose, filename, content }
  vendor.files.set(file.id, file)
  return file
}

const endpoints = new Set([
  "/v1/chat/completions",
  "/v1/responses",
  "/v1/embeddings",
  "/v1/completions",
  "/v1/moderations"
])

const linesOf = (content: string): ReadonlyArray<RequestLine> => {
  const lines = content
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as RequestLine)
  const ids = new Set<string>()
  for (const { body, custom_id: id, method, url } of lines) {
    refuseUnless(typeof id === "string" && !ids.has(id), `custom_id ${id}`)
    refuseUnless(method === "POST" && endpoints.has(url) && url === lines[0]?.url, `url ${url}`)
    refuseUnless(typeof body.model === "string" && body.model.startsWith("up-"), `model ${String(body.model)}`)
    refuseUnless(body.stream === undefined, "stream")
    ids.add(id)
  }
  refuseUnless(lines.length > 0 && lines.length <= 50_000, "number of lines")
  return lines
}

const answerOpenAi = (vendor: BatchVendor, request: http.IncomingMessage, body: Buffer): unknown => {
  const [path = "", query = ""] = (request.url ?? "").split("?")
  const [, id = "", below] = /^\/v1\/(?:files|batches)\/([^/]+)(\/.*)?$/.exec(path) ?? []
  if (path === "/v1/files" && request.method === "POST") {
    const parts = partsIn(request.headers["content-type"] ?? "", body)
    const file = parts.find(({ name }) => name === "file")
    const purpose = parts.find(({ name }) => name === "purpose")?.content
    refuseUnless(file?.filename !== undefined && purpose === "batch", "the form has no file for a batch")
    return shownFile(addFile(vendor, "batch", file?.filename ?? "", file?.content ?? ""))
  }
  if (path.startsWith("/v1/files/")) {
    const file = vendor.files.get(id)
    if (file === undefined) return undefined
    if (below === "/content") return file.content
    if (request.method === "DELETE") {
      vendor.files.delete(id)
      return { id, object: "file", deleted: true }
    }
    return shownFile(file)
  }
  if (path === "/v1/batches" && request.method === "POST") {
    const { completion_window: window, endpoint, input_file_id: input, metadata } = JSON.parse(body.toString("utf8"))
    const file = vendor.files.get(input)
    refuseUnless(file?.purpose === "batch", `no input ${input}`)
    refuseUnless(window === "24h", `completion_window ${window}`)
    refuseUnless(Object.keys(metadata ?? {}).length <= 16, "metadata")
    const lines = linesOf(file?.content ?? "")
    refuseUnless(lines[0]?.url === endpoint, `endpoint ${endpoint}`)
    return addBatch(
      vendor,
      `batch_${vendor.batches.size + 1}x`,
      lines.map(({ body, custom_id }) => ({ customId: custom_id, params: body })),
      {
        object: "batch",
        endpoint,
        errors: null,
        input_file_id: input,
        completion_window: window,
        status: "in_progress",
        output_file_id: null,
        error_file_id: null,
        created_at: 1_790_000_000,
        request_counts: { total: lines.length, completed: 0, failed: 0 },
        metadata: metadata ?? null
      }
    ).shown
  }
  if (path === "/v1/batches") {
    const asked = new URLSearchParams(query)
    const all = [...vendor.batches.values()].map(({ shown }) => shown).toReversed()
    const from = all.findIndex((batch) => batch.id === asked.get("after")) + 1
    const data = all.slice(from, from + Number(asked.get("limit") ?? 20))
    return { object: "list", data, has_more: from + data.length < all.length }
  }
  const batch = vendor.batches.get(id)
  if (batch === undefined) return undefined
  if (below === "/cancel" && batch.shown.status === "in_progress")
    batch.shown = { ...batch.shown, status: "cancelling" }
  return batch.shown
}

const addBatch = (
  vendor: BatchVendor,
  id: string,
  requests: ReadonlyArray<VendorRequest>,
  members: object
): VendorBatch => {
  const batch: VendorBatch = { id, requests, shown: { id, ...members }, results: [] }
  vendor.batches.set(id, batch)
  return batch
}

const endOpenAi: (
  vendor: BatchVendor,
  batch: VendorBatch,
  status: string,
  outcomeOf: (request: VendorRequest, index: number) => Outcome
) => void = (vendor, batch, status, outcomeOf) => {
  const done: Array<unknown> = []
  const failed: Array<unknown> = []
  for (const [index, request] of batch.requests.entries()) {
    const outcome = outcomeOf(request, index)
    const line = { id: `batch_req_${index}`, custom_id: request.customId }
    if (typeof outcome === "object") {
      const body = {
        id: `chatcmpl-${index}`,
        object: "chat.completion",
        model: request.params.model,
        choices: [],
        ...outcome
      }
      done.push({ ...line, response: { status_code: 200, request_id: `req_${index}`, body }, error: null })
    } else if (outcome === "errored") {
      const body = { error: { message: "bad", type: "invalid_request_error" } }
      failed.push({ ...line, response: { status_code: 400, request_id: `req_${index}`, body }, error: null })
    } else failed.push({ ...line, response: null, error: { code: `batch_${outcome}`, message: outcome } })
  }
  const fileOf = (name: string, lines: ReadonlyArray<unknown>) =>
    lines.length === 0 ? null : addFile(vendor, "batch_output", name, jsonl(lines)).id
  batch.shown = {
    ...batch.shown,
    status,
    // The order of results is not that of the requests.
    output_file_id: fileOf("output.jsonl", done.toReversed()),
    error_file_id: fileOf("errors.jsonl", failed),
    request_counts: { total: batch.requests.length, completed: done.length, failed: failed.length }
  }
}

const answerAnthropic = (vendor: BatchVendor, request: http.IncomingMessage, body: Buffer): unknown => {
  const [path = ""] = (request.url ?? "").split("?")
  const [, id = "", below] = /^\/v1\/messages\/batches\/([^/]+)(\/.*)?$/.exec(path) ?? []
  refuseUnless(/^[0-9-]{10}$/.test(String(request.headers["anthropic-version"])), "anthropic-version")
  if (path === "/v1/messages/batches" && request.method === "POST") {
    const { requests, ...others } = JSON.parse(body.toString("utf8"))
    refuseUnless(Object.keys(others).length === 0 && Array.isArray(requests) && requests.length > 0, "requests")
    const ids = new Set<string>()
    for (const { custom_id: customId, params, ...rest } of requests) {
      refuseUnless(/^[a-zA-Z0-9_-]{1,64}$/.test(customId) && !ids.has(customId), `custom_id ${customId}`)
      refuseUnless(Object.keys(rest).length === 0 && params.model.startsWith("up-"), `model ${params.model}`)
      refuseUnless(Number.isInteger(params.max_tokens) && params.stream === undefined, "max_tokens")
      ids.add(customId)
    }
    const asked = requests.map(({ custom_id: customId, params }: { custom_id: string; params: object }) => ({
      customId,
      params
    }))
    return addBatch(vendor, `msgbatch_${vendor.batches.size + 1}x`, asked, {
      type: "message_batch",
      processing_status: "in_progress",
      request_counts: { processing: requests.length, succeeded: 0, errored: 0, canceled: 0, expired: 0 },
      created_at: "2026-11-27T10:00:00Z",
      expires_at: "2026-11-28T10:00:00Z",
      ended_at: null,
      archived_at: null,
      cancel_initiated_at: null,
      results_url: null
    }).shown
  }
  const batch = vendor.batches.get(id)
  if (batch === undefined) return undefined
  if (below === "/results") {
    refuseUnless(batch.shown.processing_status === "ended", "there are no results yet")
    return jsonl(batch.results)
  }
  if (request.method === "DELETE") {
    refuseUnless(batch.shown.processing_status === "ended", "the batch has not ended")
    vendor.batches.delete(id)
    return { id, type: "message_batch_deleted" }
  }
  if (below === "/cancel" && batch.shown.processing_status === "in_progress")
    batch.shown = { ...batch.shown, processing_status: "canceling" }
  return batch.shown
}

const endAnthropic = (batch: VendorBatch, outcomeOf: (request: VendorRequest, index: number) => Outcome) => {
  batch.results = batch.requests.map((request, index) => {
    const outcome = outcomeOf(request, index)
    const message = (usage: object) => ({
      id: `msg_${index}`,
      type: "message",
      role: "assistant",
      model: request.params.model,
      content: [{ type: "text", text: "yes" }],
      stop_reason: "end_turn",
      usage
    })
    const error = { type: "error", error: { type: "invalid_request_error", message: "bad" } }
    const result =
      typeof outcome === "object"
        ? { type: "succeeded", message: message(outcome.usage) }
        : { type: outcome, ...(outcome === "errored" ? { error } : {}) }
    return { custom_id: request.customId, result }
  })
  batch.shown = {
    ...batch.shown,
    processing_status: "ended",
    ended_at: "2026-11-27T11:00:00Z",
    results_url: `https://api.anthropic.com/v1/messages/batches/${batch.id}/results`
  }
}
