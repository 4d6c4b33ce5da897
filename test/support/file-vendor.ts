import { Effect } from "effect"
import { createHash } from "node:crypto"
import * as http from "node:http"
import { type AddressInfo } from "node:net"
import { vendorKey } from "./batch-vendor.ts"

/** A file as the vendor got it, to the last byte of its form. */
export interface VendorFile {
  readonly id: string
  readonly filename: string
  readonly contentType: string
  readonly length: number
  readonly sha256: string
  /** Its content, where it is short. */
  readonly content: Buffer
  /** The other fields of its form. */
  readonly fields: Readonly<Record<string, string>>
  /** Whether a tool of the vendor's made it, so that Anthropic sends its content. */
  readonly isMade?: boolean
}

/** A stand-in for the files of OpenAI or Anthropic, and for the calls that name them, which verifies what they verify. */
export interface FileVendor {
  readonly url: string
  readonly files: Map<string, VendorFile>
  /** Every request, by its method and path. */
  readonly log: Array<string>
  /** What the vendor would refuse. */
  readonly faults: Array<string>
  /** The bodies of calls. */
  readonly calls: Array<Readonly<Record<string, unknown>>>
  /** The headers of the latest request. */
  headers: http.IncomingHttpHeaders
  /** Forms that broke off. */
  broken: number
  /** Bytes of forms that have arrived so far. */
  received: number
  /** Handles a request that was read, or leaves it to the vendor. */
  interfere: (request: { readonly method: string; readonly path: string }, response: http.ServerResponse) => boolean
}

type Dialect = "openai" | "anthropic"

class Refused extends Error {}

const refuseUnless: (isGood: boolean, fault: string) => asserts isGood = (isGood, fault) => {
  if (!isGood) throw new Refused(fault)
}

const longestKept = 1_048_576
const emptyLine = Buffer.from("\r\n\r\n")

/** A part of a form while it arrives. */
interface Part {
  readonly name: string
  readonly filename: string | undefined
  readonly contentType: string
  readonly chunks: Array<Buffer>
  readonly digest: ReturnType<typeof createHash>
  length: number
}

const headOf = (text: string): Part => {
  const [disposition = "", type, ...others] = text.split("\r\n")
  // A name with a quote or a line break would begin another parameter, or another header.
  const found = /^Content-Disposition: form-data; name="([^"\r\n]*)"(?:; filename="([^"\r\n]*)")?$/.exec(disposition)
  refuseUnless(found !== null && others.length === 0, `the head of a part: ${JSON.stringify(text)}`)
  const [, name = "", filename] = found
  const contentType = /^Content-Type: ([\w.+-]+\/[\w.+-]+)$/.exec(type ?? "")?.[1]
  refuseUnless((filename === undefined) === (type === undefined), `the type of a part: ${JSON.stringify(text)}`)
  refuseUnless(filename === undefined || contentType !== undefined, `the type of a file: ${String(type)}`)
  return { name, filename, contentType: contentType ?? "", chunks: [], digest: createHash("sha256"), length: 0 }
}

/** Reads a form (RFC 7578) as it arrives, of which it keeps no more than the beginning of each part. */
class FormReader {
  readonly parts: Array<Part> = []
  private readonly delimiter: Buffer
  private rest: Buffer = Buffer.from("\r\n")
  private part: Part | undefined
  private hasEnded = false

  constructor(type: string) {
    const boundary = /^multipart\/form-data; boundary=([\w'()+,./:=?-]{1,70})$/.exec(type)?.[1]
    refuseUnless(boundary !== undefined, `no form: ${type}`)
    this.delimiter = Buffer.from(`\r\n--${boundary}`)
  }

  push(chunk: Buffer): void {
    this.rest = Buffer.concat([this.rest, chunk])
    for (;;) {
      if (this.hasEnded) return
      const at = this.rest.indexOf(this.delimiter)
      if (at < 0) {
        const safe = this.rest.length - this.delimiter.length
        if (this.part === undefined || safe <= 0) return
        this.take(this.rest.subarray(0, safe))
        this.rest = this.rest.subarray(safe)
        return
      }
      const after = at + this.delimiter.length
      const head = this.rest.indexOf(emptyLine, after)
      const isLast = this.rest.subarray(after, after + 2).toString() === "--"
      if (!isLast && head < 0) return
      if (this.part === undefined) refuseUnless(at === 0 && this.parts.length === 0, "bytes before the form")
      this.take(this.rest.subarray(0, at))
      this.part = undefined
      if (isLast) {
        this.hasEnded = true
        this.rest = this.rest.subarray(after + 2)
        return
      }
      refuseUnless(this.rest.subarray(after, after + 2).toString() === "\r\n", "a boundary does not end")
      this.part = headOf(this.rest.subarray(after + 2, head).toString("utf8"))
      this.parts.push(this.part)
      this.rest = this.rest.subarray(head + emptyLine.length)
    }
  }

  end(): ReadonlyArray<Part> {
    refuseUnless(this.hasEnded && this.rest.toString() === "\r\n", "the form does not end")
    return this.parts
  }

  private take(bytes: Buffer): void {
    const { part } = this
    if (part === undefined) return
    part.digest.update(bytes)
    part.length += bytes.length
    if (part.length <= longestKept) part.chunks.push(Buffer.from(bytes))
  }
}

/** Adds the file of a form; the vendor's description of it. */
const addFile = (vendor: FileVendor, dialect: Dialect, parts: ReadonlyArray<Part>): object => {
  const [file, ...others] = parts.filter(({ filename }) => filename !== undefined)
  refuseUnless(file?.name === "file" && others.length === 0, "a form has one file")
  const fields: Record<string, string> = {}
  for (const { chunks, filename, name } of parts) {
    if (filename !== undefined) continue
    refuseUnless(!Object.hasOwn(fields, name), `the field ${name} is there twice`)
    fields[name] = Buffer.concat(chunks).toString("utf8")
  }
  const { chunks, contentType, digest, filename = "", length } = file
  if (dialect === "openai") {
    refuseUnless(/^(?:assistants|batch|vision|user_data|evals)$/.test(fields.purpose ?? ""), "purpose")
  } else {
    refuseUnless(
      Object.keys(fields).every((name) => name === "expires_in_seconds"),
      "fields of the form"
    )
    refuseUnless(!/[<>:"|?*\\/\r\n]/.test(filename), `filename ${filename}`)
  }
  const id = `${dialect === "openai" ? "file-" : "file_"}${vendor.files.size + 1}x`
  const made = {
    id,
    filename,
    contentType,
    length,
    sha256: digest.digest("hex"),
    content: Buffer.concat(chunks),
    fields
  }
  vendor.files.set(id, made)
  return shown(dialect, made)
}

const shown = (dialect: Dialect, { contentType, fields, filename, id, length }: VendorFile): object =>
  dialect === "openai"
    ? {
        id,
        object: "file",
        bytes: length,
        created_at: 1_790_000_000,
        filename,
        purpose: fields.purpose,
        status: "processed",
        ...(fields["expires_after[seconds]"] && {
          expires_at: 4_000_000_000 + Number(fields["expires_after[seconds]"])
        })
      }
    : {
        id,
        type: "file",
        filename,
        mime_type: contentType,
        size_bytes: length,
        created_at: "2026-11-27T10:00:00Z",
        downloadable: false,
        expires_at: fields.expires_in_seconds === undefined ? null : "2096-11-27T10:00:00Z"
      }

/** The ids of files in a request. */
const filesIn = (value: unknown): ReadonlyArray<string> =>
  [...JSON.stringify(value).matchAll(/"file_ids?":\[?"([^"]*)"/g)].map(([, id = ""]) => id)

const answers: Readonly<Record<string, object>> = {
  "/v1/chat/completions": {
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1,
    model: "up",
    choices: [{ index: 0, message: { role: "assistant", content: "read" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 10, completion_tokens: 1, total_tokens: 11 }
  },
  "/v1/responses": {
    id: "resp_1",
    object: "response",
    created_at: 1,
    model: "up",
    status: "completed",
    output: [
      {
        id: "msg_1",
        type: "message",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text: "read", annotations: [] }]
      }
    ],
    usage: { input_tokens: 10, output_tokens: 1, total_tokens: 11 }
  },
  "/v1/messages": {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "up",
    content: [{ type: "text", text: "read" }],
    stop_reason: "end_turn",
    usage: { input_tokens: 10, output_tokens: 1 }
  }
}

const json = (response: http.ServerResponse, status: number, body: unknown) => {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))
}

const answer = (vendor: FileVendor, dialect: Dialect, request: http.IncomingMessage, response: http.ServerResponse) => {
  const path = (request.url ?? "").split("?")[0] ?? ""
  const isUpload = request.method === "POST" && path === "/v1/files"
  const given = dialect === "openai" ? request.headers.authorization : request.headers["x-api-key"]
  refuseUnless(given === (dialect === "openai" ? `Bearer ${vendorKey}` : vendorKey), "the key is missing")
  const isVersioned = /^[0-9-]{10}$/.test(String(request.headers["anthropic-version"]))
  refuseUnless(dialect === "openai" || isVersioned, "anthropic-version")
  const form = isUpload ? new FormReader(request.headers["content-type"] ?? "") : undefined
  const body: Array<Buffer> = []
  let fault: Error | undefined
  request.on("data", (chunk: Buffer) => {
    try {
      form?.push(chunk)
    } catch (error) {
      fault = error as Error
    }
    if (form === undefined) body.push(chunk)
    else vendor.received += chunk.length
  })
  request.on("close", () => {
    if (isUpload && !request.complete) vendor.broken++
  })
  request.on("end", () =>
    refusing(vendor, response, () => {
      if (vendor.interfere({ method: request.method ?? "", path }, response)) return
      if (fault !== undefined) throw fault
      if (form !== undefined) {
        json(response, 200, addFile(vendor, dialect, form.end()))
        return
      }
      if (Object.hasOwn(answers, path)) {
        const asked = JSON.parse(Buffer.concat(body).toString("utf8"))
        vendor.calls.push(asked)
        const foreign = filesIn(asked).find((id) => !vendor.files.has(id))
        if (foreign === undefined) json(response, 200, answers[path])
        else json(response, 404, { error: { message: `no file ${foreign}`, type: "not_found_error" } })
        return
      }
      const [, id = "", below] = /^\/v1\/files\/([^/]+)(\/content)?$/.exec(path) ?? []
      const file = vendor.files.get(id)
      if (file === undefined) json(response, 404, { error: { message: `No such File ${id}`, type: "not_found_error" } })
      else if (below === "/content") {
        refuseUnless(dialect === "openai" || file.isMade === true, "the file cannot be downloaded")
        response.writeHead(200, { "content-type": "text/html" }).end(file.content)
      } else if (request.method === "DELETE") {
        vendor.files.delete(id)
        json(response, 200, dialect === "openai" ? { id, object: "file", deleted: true } : { id, type: "file_deleted" })
      } else json(response, 200, shown(dialect, file))
    })
  )
}

const refusing = (vendor: FileVendor, response: http.ServerResponse, work: () => void) => {
  try {
    work()
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    vendor.faults.push(error.message)
    json(response, 400, { error: { message: error.message, type: "invalid_request_error" } })
  }
}

/** Starts the stand-in. Ids are of one digit more than there are, so that two stand-ins have the same. */
export const startFileVendor = (dialect: Dialect) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const vendor: FileVendor = {
        url: "",
        files: new Map(),
        log: [],
        faults: [],
        calls: [],
        headers: {},
        broken: 0,
        received: 0,
        interfere: () => false
      }
      const server = http.createServer((request, response) => {
        vendor.log.push(`${request.method} ${request.url}`)
        vendor.headers = request.headers
        // A client may give an upload up.
        request.on("error", () => {})
        refusing(vendor, response, () => answer(vendor, dialect, request, response))
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
