import Anthropic, { toFile as anthropicFile } from "@anthropic-ai/sdk"
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { createHash, randomBytes } from "node:crypto"
import * as http from "node:http"
import { toFile } from "openai"
import { makeAgent, tokenOf } from "../../support/agents.ts"
import { makeKey } from "../../support/authority.ts"
import { vendorKey } from "../../support/batch-vendor.ts"
import { line, openAiClient, refusalOf } from "../../support/batches.ts"
import { type FileVendor, startFileVendor } from "../../support/file-vendor.ts"
import { configure, prices, spender } from "../../support/gateway.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

const maxUploadBytes = 300_000

type Dialect = "openai" | "anthropic"

const providerOf = (id: string, dialect: Dialect, { url }: FileVendor) => ({
  id,
  dialect,
  baseUrl: dialect === "openai" ? `${url}/v1` : url,
  apiKey: vendorKey,
  ...(dialect === "openai" && { apis: ["chat", "responses"] })
})

const modelOf = (id: string, provider: string, members: object = {}) => ({
  id,
  kind: "chat",
  prices,
  contextTokens: 1000,
  maxOutputTokens: 100,
  targets: [{ provider, model: "up" }],
  ...members
})

/** A stand-in of each vendor, and a tenant. */
const setting = Effect.fnUntraced(function* (service: TestService["Service"]) {
  const openai = yield* startFileVendor("openai")
  const anthropic = yield* startFileVendor("anthropic")
  yield* configure(
    service,
    [providerOf("oa", "openai", openai), providerOf("an", "anthropic", anthropic)],
    [modelOf("gpt", "oa"), modelOf("claude", "an")]
  )
  const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
  return { openai, anthropic, key, tenantId, client: openAiClient(service, key), claude: claudeClient(service, key) }
})

const claudeClient = ({ url }: Pick<TestService["Service"], "url">, key: string) =>
  new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 })

const sha256 = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex")

/** Bytes of any value, with what ends the parts of forms among them. */
const bytesOf = (length: number): Buffer =>
  Buffer.concat([
    Buffer.from("%PDF-1.7\r\n--\r\n--gateway-\r\n\r\n\0"),
    randomBytes(length),
    Buffer.from('\r\n--b--\r\n\r\n{"a"')
  ])

const listed = async (pages: AsyncIterable<{ readonly id: string }>) => {
  const ids: Array<string> = []
  for await (const { id } of pages) ids.push(id)
  return ids
}

const upload = (client: ReturnType<typeof openAiClient>, content: string | Buffer, name = "notes.txt") =>
  Effect.promise(async () =>
    client.files.create({ file: await toFile(Buffer.from(content), name), purpose: "user_data" })
  )

const uploadClaude = (client: Anthropic, content: string | Buffer, type = "text/plain") =>
  Effect.promise(async () =>
    client.files.upload({ file: await anthropicFile(Buffer.from(content), "notes.txt", { type }) })
  )

/** Sends a form by hand, and closes the connection where it says so. */
const send = (
  service: Pick<TestService["Service"], "url">,
  headers: Record<string, string>,
  write: (request: http.ClientRequest) => void
) =>
  Effect.callback<number | "closed">((resume) => {
    const request = http.request(`${service.url}/v1/files`, {
      method: "POST",
      headers: { "content-type": "multipart/form-data; boundary=b", ...headers }
    })
    request.on("response", (response) => {
      request.destroy()
      resume(Effect.succeed(response.statusCode ?? 0))
    })
    request.on("error", () => resume(Effect.succeed("closed")))
    write(request)
  })

const aBatch = () => toFile(Buffer.from(line("a")), "a.jsonl")
const aText = () => toFile(Buffer.from("text"), "a.txt")

const fieldOf = (name: string, value: string) =>
  `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`
const fileHead = (parameters: string) => `--b\r\nContent-Disposition: form-data; ${parameters}\r\n\r\n`

layer(
  serviceLayer({
    Llm__Gateway__MaxUploadBytes: String(maxUploadBytes),
    Llm__Gateway__MaxBatchBytes: String(maxUploadBytes)
  }),
  { excludeTestServices: true, timeout: "120 seconds" }
)("/v1/files", (it) => {
  it.effect("are kept by OpenAI to the last byte, and named in later requests, with its SDK unchanged", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { anthropic, client, openai } = yield* setting(service)
      const content = bytesOf(200_000)
      const file = yield* Effect.promise(async () =>
        client.files.create({
          file: await toFile(content, 'a "quoted"\r\nname; filename="b".pdf', { type: "application/pdf" }),
          purpose: "user_data",
          expires_after: { anchor: "created_at", seconds: 3600 }
        })
      )
      const kept = openai.files.get("file-1x")
      assert.deepStrictEqual(
        [kept?.sha256, kept?.length, kept?.contentType],
        [sha256(content), content.length, "application/pdf"]
      )
      assert.strictEqual(kept?.filename, "a %22quoted%22%0D%0Aname; filename=%22b%22.pdf")
      assert.deepStrictEqual(kept?.fields, {
        purpose: "user_data",
        "expires_after[anchor]": "created_at",
        "expires_after[seconds]": "3600"
      })
      assert.deepInclude(file, { object: "file", purpose: "user_data", bytes: content.length })
      assert.match(file.id, /^file-1x[0-9a-f]{36}$/)

      const answer = yield* Effect.promise(() =>
        client.responses.create({
          model: "gpt",
          store: false,
          input: [
            { role: "user", content: [{ type: "input_file", file_id: file.id }] },
            { role: "user", content: [{ type: "input_image", file_id: file.id, detail: "auto" }] }
          ]
        })
      )
      assert.strictEqual(answer.output_text, "read")
      const chat = yield* Effect.promise(() =>
        client.chat.completions.create({
          model: "gpt",
          messages: [{ role: "user", content: [{ type: "file", file: { file_id: file.id } }] }]
        })
      )
      assert.strictEqual(chat.choices[0]?.message.content, "read")
      assert.lengthOf(openai.calls, 2)
      assert.match(JSON.stringify(openai.calls), /"file_id":"file-1x"/)

      const other = yield* upload(client, "more")
      assert.deepInclude(yield* Effect.promise(() => client.files.retrieve(file.id)), {
        id: file.id,
        status: "processed"
      })
      const bytes = yield* Effect.promise(() => client.files.content(file.id))
      assert.strictEqual(bytes.headers.get("content-type"), "application/octet-stream")
      assert.strictEqual(sha256(Buffer.from(yield* Effect.promise(() => bytes.arrayBuffer()))), sha256(content))
      assert.deepStrictEqual(yield* Effect.promise(() => listed(client.files.list({ limit: 1 }))), [other.id, file.id])
      assert.deepStrictEqual(yield* Effect.promise(() => listed(client.files.list({ order: "asc", limit: 1 }))), [
        file.id,
        other.id
      ])
      assert.deepStrictEqual(yield* Effect.promise(() => listed(client.files.list({ purpose: "vision" }))), [])
      const removed = yield* Effect.promise(() => client.files.delete(file.id))
      assert.deepStrictEqual(removed, { id: file.id, object: "file", deleted: true })
      assert.deepStrictEqual([...openai.files.keys()], ["file-2x"])
      assert.deepStrictEqual(yield* Effect.promise(() => listed(client.files.list())), [other.id])
      const gone = yield* refusalOf(() => client.files.retrieve(file.id))
      assert.deepInclude(gone, { status: 404, code: "file_not_found" })
      assert.notInclude(gone.message, "file-1x:")
      assert.deepStrictEqual([openai.faults, anthropic.log], [[], []])
    }).pipe(Effect.scoped)
  )

  it.effect("are kept by Anthropic to the last byte, and named in messages, with its SDK unchanged", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { anthropic, claude, key, openai } = yield* setting(service)
      const content = bytesOf(100_000)
      const file = yield* Effect.promise(async () =>
        claude.files.upload({
          file: await anthropicFile(content, "paper.pdf", { type: "application/pdf" }),
          expires_in_seconds: 3600
        })
      )
      const kept = anthropic.files.get("file_1x")
      assert.deepStrictEqual(
        [kept?.sha256, kept?.filename, kept?.contentType, kept?.fields],
        [sha256(content), "paper.pdf", "application/pdf", { expires_in_seconds: "3600" }]
      )
      assert.deepInclude(file, { type: "file", mime_type: "application/pdf", size_bytes: content.length })
      assert.match(file.id, /^file_1x[0-9a-f]{36}$/)
      const document = { type: "document", source: { type: "file", file_id: file.id } } as const
      const message = yield* Effect.promise(() =>
        claude.beta.messages.create({
          model: "claude",
          max_tokens: 10,
          messages: [{ role: "user", content: [document] }]
        })
      )
      assert.deepInclude(message.content[0], { type: "text", text: "read" })
      assert.match(JSON.stringify(anthropic.calls), /"file_id":"file_1x"/)

      const others = [yield* uploadClaude(claude, "one"), yield* uploadClaude(claude, "two")].map(({ id }) => id)
      const all = [...others, file.id]
      const newestFirst = [others[1], others[0], file.id]
      assert.deepStrictEqual(yield* Effect.promise(() => listed(claude.files.list({ limit: 1 }))), newestFirst)
      assert.deepStrictEqual(yield* Effect.promise(() => listed(claude.beta.files.list({ limit: 2 }))), newestFirst)
      const named = yield* Effect.promise(() => listed(claude.files.list({ ids: [file.id, "file_1x", "made-up"] })))
      assert.deepStrictEqual(named, [file.id])
      const beta = { "anthropic-version": "2023-06-01", "anthropic-beta": "files-api-2025-04-14" }
      const pageOf = Effect.fnUntraced(function* (query: string) {
        const { body, text } = yield* service.call("GET", `/v1/files?${query}`, { key, headers: beta })
        assert.deepStrictEqual(Object.keys(body), ["data", "first_id", "last_id", "has_more"], text)
        return [body.data.map(({ id }: { readonly id: string }) => id), body.has_more]
      })
      assert.deepStrictEqual(yield* pageOf("limit=2"), [[others[1], others[0]], true])
      assert.deepStrictEqual(yield* pageOf(`after_id=${others[0]}`), [[file.id], false])
      assert.deepStrictEqual(yield* pageOf(`limit=1&before_id=${file.id}`), [[others[0]], true])
      for (const query of ["page=page_1", "page=1", "ids=a&limit=3", "scope_id=sesn_1"]) {
        const { status } = yield* service.call("GET", `/v1/files?${query}`, {
          key,
          headers: { "anthropic-version": "1" }
        })
        assert.strictEqual(status, 400, query)
      }

      const metadata = yield* Effect.promise(() => claude.files.retrieveMetadata(file.id))
      assert.deepInclude(metadata, { id: file.id, filename: "paper.pdf" })
      const refused = yield* refusalOf(() => claude.files.download(file.id))
      assert.deepInclude(refused, { status: 400, type: "invalid_request_error" })
      assert.deepStrictEqual(anthropic.faults.splice(0), ["the file cannot be downloaded"])
      for (const id of all) {
        const removed = yield* Effect.promise(() => claude.beta.files.delete(id))
        assert.deepStrictEqual(removed, { id, type: "file_deleted" })
      }
      assert.strictEqual(anthropic.files.size, 0)
      assert.deepStrictEqual(yield* Effect.promise(() => listed(claude.files.list())), [])
      assert.deepStrictEqual([anthropic.faults, openai.log], [[], []])
    }).pipe(Effect.scoped)
  )

  it.effect("of answers are read and deleted by the ids in these, and not listed", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { anthropic, claude, client } = yield* setting(service)
      const content = bytesOf(1000)
      const kept = { filename: "plot.png", contentType: "image/png", length: content.length, sha256: "", fields: {} }
      anthropic.files.set("file_made", { ...kept, id: "file_made", content, isMade: true })
      anthropic.interfere = ({ path }, response) => {
        if (path !== "/v1/messages") return false
        const output = { type: "bash_code_execution_output", file_id: "file_made" }
        const result = { type: "bash_code_execution_result", stdout: "", stderr: "", return_code: 0, content: [output] }
        const block = { type: "bash_code_execution_tool_result", tool_use_id: "srvtoolu_1", content: result }
        const usage = { input_tokens: 10, output_tokens: 1 }
        const message = { id: "msg_1", type: "message", role: "assistant", model: "up", stop_reason: "end_turn", usage }
        response.writeHead(200, { "content-type": "application/json" })
        response.end(JSON.stringify({ ...message, content: [block] }))
        return true
      }
      const { content: blocks } = yield* Effect.promise(() =>
        claude.messages.create({ model: "claude", max_tokens: 10, messages: [{ role: "user", content: "Plot it" }] })
      )
      const id = /"file_id":"([^"]*)"/.exec(JSON.stringify(blocks))?.[1] ?? ""
      assert.match(id, /^file_made[0-9a-f]{36}$/)
      const download = yield* Effect.promise(() => claude.files.download(id))
      assert.strictEqual(sha256(Buffer.from(yield* Effect.promise(() => download.arrayBuffer()))), sha256(content))
      assert.deepStrictEqual(yield* Effect.promise(() => listed(claude.files.list())), [])
      // Without a version, the beta tells whose client asks.
      const beta = { "anthropic-version": null, "anthropic-beta": "files-api-2025-04-14" }
      const found = yield* Effect.promise(() => claude.files.retrieveMetadata(id, {}, { headers: beta }))
      assert.deepInclude(found, { id, filename: "plot.png" })
      assert.strictEqual((yield* refusalOf(() => client.files.content(id))).status, 404)
      yield* Effect.promise(() => claude.files.delete(id))
      assert.strictEqual(anthropic.files.size, 0)
      assert.deepStrictEqual(anthropic.faults, [])
    }).pipe(Effect.scoped)
  )

  it.effect(
    "belong to their maker alone, not to another tenant, agent, provider or API, and no id can be guessed",
    () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { anthropic, claude, client, openai, tenantId } = yield* setting(service)
        const file = yield* upload(client, "secret")
        const paper = yield* uploadClaude(claude, "secret")
        const stranger = yield* spender(service, [])
        const agentOf = Effect.gen(function* () {
          const agent = yield* makeAgent(service, { tenantId })
          return (yield* tokenOf(service, agent)).accessToken
        })
        const before = [openai.log.length, anthropic.log.length]
        const keys = [stranger.key, yield* agentOf]
        for (const key of keys) {
          const theirs = openAiClient(service, key)
          const messages = [
            {
              role: "user" as const,
              content: [{ type: "document" as const, source: { type: "file" as const, file_id: paper.id } }]
            }
          ]
          for (const request of [
            () => theirs.files.retrieve(file.id),
            () => theirs.files.content(file.id),
            () => theirs.files.delete(file.id),
            () => theirs.files.list({ after: file.id }),
            () =>
              theirs.responses.create({
                model: "gpt",
                input: [{ role: "user", content: [{ type: "input_file", file_id: file.id }] }]
              }),
            () => claudeClient(service, key).files.retrieveMetadata(paper.id),
            () => claudeClient(service, key).files.delete(paper.id),
            () => claudeClient(service, key).beta.messages.create({ model: "claude", max_tokens: 1, messages })
          ]) {
            assert.strictEqual((yield* refusalOf(request)).status, 404)
          }
          assert.deepStrictEqual(yield* Effect.promise(() => listed(theirs.files.list())), [])
          assert.deepStrictEqual(
            yield* Effect.promise(() => listed(claudeClient(service, key).files.list({ ids: [paper.id] }))),
            []
          )
        }
        const [head, seal] = [file.id.slice(0, -36), file.id.slice(-36)]
        for (const id of [
          "file-1x",
          `file-2x${seal}`,
          `${head}${"0".repeat(36)}`,
          `${head}${seal.toUpperCase()}x`,
          paper.id,
          `file_1x${seal}`,
          "../models",
          "..%2Fmodels"
        ]) {
          assert.strictEqual((yield* refusalOf(() => client.files.retrieve(id))).status, 404, id)
        }
        assert.strictEqual((yield* refusalOf(() => claude.files.retrieveMetadata(file.id))).status, 404)
        // A model of another provider cannot read it.
        const elsewhere = yield* refusalOf(() =>
          client.responses.create({
            model: "claude",
            input: [{ role: "user", content: [{ type: "input_file", file_id: file.id }] }]
          })
        )
        assert.strictEqual(elsewhere.status, 400, elsewhere.message)
        const asBatch = yield* refusalOf(() =>
          client.batches.create({ input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" })
        )
        assert.deepInclude(asBatch, { status: 400, param: "input_file_id" })
        assert.deepStrictEqual([openai.log.length, anthropic.log.length], before)
      }).pipe(Effect.scoped)
  )

  it.effect("are refused over the limit, and of purposes that are not served, wherever the purpose stands", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { claude, client, key, openai } = yield* setting(service)
      const large = Buffer.alloc(maxUploadBytes + 1, 0x41)
      assert.strictEqual((yield* upload(client, large.subarray(1))).bytes, maxUploadBytes)
      for (const request of [
        async () => client.files.create({ file: await toFile(large, "a.txt"), purpose: "user_data" }),
        async () => client.files.create({ purpose: "user_data", file: await toFile(large, "a.txt") }),
        async () => claude.files.upload({ file: await anthropicFile(large, "a.txt") })
      ]) {
        const refused = yield* refusalOf(request)
        assert.strictEqual(refused.status, 413, refused.message)
      }
      // One that would never end is refused as soon as it is known to be too large, declared or not.
      const declared = { "x-api-key": key, "content-length": "1000000000000" }
      assert.strictEqual(yield* send(service, declared, (request) => request.flushHeaders()), 413)
      const endless = (request: http.ClientRequest) => {
        request.write(`${fieldOf("purpose", "vision")}${fileHead('name="file"; filename="a.png"')}`)
        const more = (error?: Error | null) => {
          if (error == null && !request.destroyed) request.write(large, more)
        }
        more()
      }
      assert.oneOf(yield* send(service, { "x-api-key": key }, endless), [413, "closed"])

      const fine = /fine-tuning/
      for (const [purpose, content, param, message, known = message] of [
        ["fine-tune", "text", "purpose", fine],
        ["", "text", "purpose", /what the file is for/],
        ['a"b', "text", "purpose", /Expected a purpose/],
        ["batch", "text", null, /Line 1: The body is no JSON/],
        ["batch", '\n\n{"custom_id":"a"}', "file", /Line 3: Expected a request/, /Line 3: body/],
        ["batch", " \n", "file", /at least one request/],
        ["user_data", line("a"), "purpose", /send the purpose before/]
      ] as const) {
        const given = purpose === "" ? "" : fieldOf("purpose", purpose)
        const file = fileHead('name="file"; filename="a.txt"')
        const answerOf = (form: string) =>
          service.call("POST", "/v1/files", {
            key,
            headers: { "content-type": "multipart/form-data; boundary=b" },
            body: `${form}--b--\r\n`
          })
        // What comes after a long file is known after it alone.
        const late = yield* answerOf(`${file}${content}${"\n".repeat(250_000)}\r\n${given}`)
        assert.deepInclude(late.body.error, { param }, `${content}: ${late.text}`)
        assert.strictEqual(late.status, 400)
        assert.match(late.body.error.message, message)
        if (purpose === "user_data") continue
        const early = yield* answerOf(`${given}${file}${content}\r\n`)
        assert.strictEqual(early.status, 400)
        assert.match(early.body.error.message, known)
      }
      // A file that looks like the requests of a batch is none where its purpose says so in time.
      const early = yield* Effect.promise(async () => client.files.create({ purpose: "evals", file: await aBatch() }))
      assert.strictEqual(early.purpose, "evals")
      // JSON that is no request goes on as it is.
      const rows = `${"\n".repeat(100)}{"item":{"question":"a"}}\n{"item":{"question":"b"}}`
      const late = `${fileHead('name="file"; filename="rows.jsonl"')}${rows}\r\n${fieldOf("purpose", "user_data")}--b--\r\n`
      assert.strictEqual(yield* send(service, { "x-api-key": key }, (request) => request.end(late)), 200)
      assert.deepStrictEqual([...openai.files.values()].at(-1)?.content.toString(), rows)
      yield* upload(client, "")
      const long = `{"one":"line","of":"${"x".repeat(200_000)}"`
      const longLate = `${fileHead('name="file"; filename="a.json"')}${long}\r\n${fieldOf("purpose", "user_data")}--b--\r\n`
      assert.strictEqual(yield* send(service, { "x-api-key": key }, (request) => request.end(longLate)), 200)
      assert.deepStrictEqual(
        [...openai.files.values()].map(({ length }) => length),
        [maxUploadBytes, line("a").length, rows.length, 0, long.length]
      )
      assert.lengthOf(yield* Effect.promise(() => listed(client.files.list())), 5)
      assert.deepStrictEqual(openai.faults, [])
    }).pipe(Effect.scoped)
  )

  it.effect("have names and types as their sender wrote them, and no header of their own", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { client, key, openai } = yield* setting(service)
      for (const [parameters, name] of [
        [String.raw`name="file"; filename="a\"; name=\"purpose.txt"`, String.raw`a\%22; name=\%22purpose.txt`],
        ['name="file"; filename="ä b\tc.txt"', "ä b\tc.txt"],
        ["name=\"file\"; filename*=UTF-8''%0D%0AX-Evil%3A%201", "%0D%0AX-Evil: 1"],
        ['name="file"; filename="a%0D%0A%22.txt"\r\nContent-Type: text/plain;\tcharset="b\\"', "a%0D%0A%22.txt"]
      ] as const) {
        const body = `${fieldOf("purpose", "user_data")}${fileHead(parameters)}text\r\n--b--\r\n`
        const status = yield* send(service, { "x-api-key": key }, (request) => request.end(body))
        assert.strictEqual(status, 200, parameters)
        assert.strictEqual([...openai.files.values()].at(-1)?.filename, name)
        assert.strictEqual([...openai.files.values()].at(-1)?.content.toString(), "text")
      }
      const field = 'na"me\r\nX-Evil: 1'
      yield* refusalOf(async () =>
        client.files
          .create({
            file: await toFile(Buffer.from("text"), "a.txt"),
            purpose: "user_data",
            [field]: "--gateway-\r\n"
          } as never)
          .then(() => Promise.reject(new Error("kept")))
      )
      assert.deepStrictEqual([...openai.files.values()].at(-1)?.fields, {
        purpose: "user_data",
        "na%22me%0D%0AX-Evil: 1": "--gateway-\r\n"
      })
      for (const form of [
        `${fileHead('name="other"; filename="a"')}text\r\n--b--\r\n`,
        `${fileHead('name="file"; filename="a"')}a\r\n${fileHead('name="file"; filename="b"')}b\r\n--b--\r\n`,
        `${fileHead('name="file"; filename="a\0.txt"')}text\r\n--b--\r\n`,
        fieldOf("purpose", "user_data"),
        "no form"
      ]) {
        const body = `${fieldOf("purpose", "user_data")}${form}`
        assert.strictEqual(yield* send(service, { "x-api-key": key }, (request) => request.end(body)), 400, form)
      }
      assert.strictEqual(openai.files.size, 5)
      assert.deepStrictEqual(openai.faults, [])
    }).pipe(Effect.scoped)
  )

  it.effect("are nowhere if their sender leaves before the end, and here if it leaves later", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { client, key, openai } = yield* setting(service)
      const head = `${fieldOf("purpose", "user_data")}${fileHead('name="file"; filename="a.pdf"')}`
      const half = Buffer.alloc(100_000, 0x42)
      const begun = yield* Effect.forkScoped(
        send(service, { "x-api-key": key, "content-length": "250000" }, (request) => {
          request.write(head)
          request.write(half)
          const leaving = setInterval(() => {
            if (openai.received < half.length) return
            clearInterval(leaving)
            request.destroy()
          }, 5)
        })
      )
      assert.strictEqual(yield* Fiber.join(begun), "closed")
      yield* eventually(
        Effect.sync(() => openai.broken),
        (broken) => broken === 1
      )
      assert.strictEqual(openai.files.size, 0)
      assert.deepStrictEqual(yield* Effect.promise(() => listed(client.files.list())), [])

      let answer: (() => void) | undefined
      openai.interfere = (_, response) => {
        openai.interfere = () => false
        const id = "file-late"
        const file = { id, filename: "", contentType: "", length: 0, sha256: "", content: Buffer.from(""), fields: {} }
        answer = () => {
          openai.files.set(id, file)
          response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ id, object: "file" }))
        }
        return true
      }
      yield* send(service, { "x-api-key": key }, (request) => {
        request.end(`${head}whole\r\n--b--\r\n`)
        const leaving = setInterval(() => {
          if (answer === undefined) return
          clearInterval(leaving)
          request.destroy()
        }, 5)
      })
      answer?.()
      const [late] = yield* eventually(
        Effect.promise(() => listed(client.files.list())),
        ({ length }) => length === 1
      )
      yield* Effect.promise(() => client.files.delete(late ?? ""))
      assert.strictEqual(openai.files.size, 0)
    }).pipe(Effect.scoped)
  )

  it.effect("go to the vendor's own provider that is listed first, or to that of a model", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const vendors = [
        yield* startFileVendor("openai"),
        yield* startFileVendor("openai"),
        yield* startFileVendor("openai")
      ] as const
      const [other, own, second] = vendors
      yield* configure(
        service,
        [
          providerOf("other", "openai", other),
          providerOf("openai", "openai", own),
          providerOf("second", "openai", second)
        ],
        [
          modelOf("gpt", "openai", {
            targets: [
              { provider: "loopback", model: "l" },
              { provider: "second", model: "up" }
            ]
          }),
          modelOf("both", "other", { targets: ["other", "second"].map((provider) => ({ provider, model: "up" })) }),
          modelOf("none", "loopback", { targets: [{ provider: "loopback", model: "l" }] })
        ]
      )
      const { key } = yield* spender(service, [])
      const client = openAiClient(service, key)
      yield* upload(client, "a")
      assert.deepStrictEqual(
        vendors.map(({ files }) => files.size),
        [0, 1, 0]
      )
      const withModel = (model: string) =>
        toFile(Buffer.from("b"), "b.txt").then((file) =>
          client.files.create({ file, purpose: "user_data" }, { headers: { "x-model": model } })
        )
      const file = yield* Effect.promise(() => withModel("gpt"))
      assert.deepStrictEqual(
        vendors.map(({ files }) => files.size),
        [0, 1, 1]
      )
      // The other provider of the model has another file of this id.
      yield* Effect.promise(() => withModel("both"))
      yield* Effect.promise(() =>
        client.responses.create({
          model: "both",
          store: false,
          input: [{ role: "user", content: [{ type: "input_file", file_id: file.id }] }]
        })
      )
      assert.deepStrictEqual(
        vendors.map(({ calls }) => calls.length),
        [0, 0, 1]
      )
      yield* Effect.promise(() => client.files.delete(file.id))
      assert.deepStrictEqual(
        vendors.map(({ files }) => files.size),
        [1, 1, 0]
      )
      assert.deepInclude(yield* refusalOf(() => withModel("x".repeat(501))), { status: 400, param: "x-model" })
      for (const [model, code] of [
        ["nope", "model_not_found"],
        ["none", "no_file_provider"]
      ] as const) {
        assert.deepInclude(yield* refusalOf(() => withModel(model)), { status: 404, code })
      }
      const claude = yield* refusalOf(async () =>
        claudeClient(service, key).files.upload({ file: await anthropicFile(Buffer.from("c"), "c.txt") })
      )
      assert.deepInclude(claude, { status: 404, type: "not_found_error" })
    }).pipe(Effect.scoped)
  )

  it.effect("need a caller who may complete, and are listed until they expire or their provider has removed them", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { client, openai, tenantId } = yield* setting(service)
      const embedder = openAiClient(service, (yield* makeKey(service, ["llm:embed"], { tenantId })).key)
      for (const request of [
        async () => embedder.files.create({ file: await aText(), purpose: "user_data" }),
        async () => embedder.files.create({ purpose: "vision", file: await aText() })
      ]) {
        assert.strictEqual((yield* refusalOf(request)).status, 403)
      }
      const reader = openAiClient(service, (yield* makeKey(service, ["llm:read"], { tenantId })).key)
      assert.strictEqual((yield* refusalOf(() => reader.files.list())).status, 403)
      assert.strictEqual(openai.files.size, 0)

      const [first, second, third] = [
        yield* upload(client, "1"),
        yield* upload(client, "2"),
        yield* upload(client, "3")
      ]
      yield* asSuperuser(
        service.database,
        (sql) => sql`
          UPDATE gateway_files SET expires_at = now() - interval '1 second'
          WHERE tenant_id = ${tenantId} AND provider_id = 'file-1x'`
      )
      openai.files.delete("file-2x")
      assert.deepStrictEqual(yield* Effect.promise(() => listed(client.files.list())), [third.id, second.id])
      assert.strictEqual((yield* refusalOf(() => client.files.delete(second.id))).status, 404)
      assert.deepStrictEqual(yield* Effect.promise(() => listed(client.files.list())), [third.id])
      // What is not listed can still be deleted.
      assert.strictEqual((yield* Effect.promise(() => client.files.delete(first.id))).deleted, true)
      const late = yield* refusalOf(() => client.files.list({ after: second.id }))
      assert.strictEqual(late.status, 404)
    }).pipe(Effect.scoped)
  )
})

layer(serviceLayer({ Api__RequestTimeoutSeconds: "1" }), { excludeTestServices: true, timeout: "60 seconds" })(
  "/v1/files of a sender who stops",
  (it) => {
    it.effect("are given up at the time that a request may take, also at the provider", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { client, key, openai } = yield* setting(service)
        const status = yield* send(service, { "x-api-key": key }, (request) =>
          request.write(`${fieldOf("purpose", "user_data")}${fileHead('name="file"; filename="a.pdf"')}half`)
        )
        assert.strictEqual(status, 408)
        yield* eventually(
          Effect.sync(() => openai.broken),
          (broken) => broken === 1
        )
        assert.strictEqual(openai.files.size, 0)
        assert.deepStrictEqual(yield* Effect.promise(() => listed(client.files.list())), [])
      }).pipe(Effect.scoped)
    )
  }
)
