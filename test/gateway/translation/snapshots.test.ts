import { assert, describe, expect, it } from "@effect/vitest"
import { Effect, Result, Schema } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { isDeepStrictEqual } from "node:util"
import { gatewaySnapshot } from "../../../src/gateway/configuration/gateway-snapshot.ts"
import { readEvent } from "../../../src/gateway/formats/anthropic-messages/domain.ts"
import { anthropicErrors } from "../../../src/gateway/formats/anthropic-messages/errors.ts"
import { anthropicMessages } from "../../../src/gateway/formats/anthropic-messages/format.ts"
import { readChunk, readCompletion } from "../../../src/gateway/formats/common-form/domain.ts"
import { sealedIn } from "../../../src/gateway/formats/common-form/turn-state.ts"
import { usageOfCompletion } from "../../../src/gateway/formats/common-form/usage.ts"
import { type BilledTool, type Dialect, noUsage } from "../../../src/gateway/formats/domain.ts"
import { type DialectError, errorInEvent, readErrorIn } from "../../../src/gateway/formats/errors.ts"
import { EventReader } from "../../../src/gateway/formats/event-reader.ts"
import { type WireFormat } from "../../../src/gateway/formats/format.ts"
import { geminiErrors } from "../../../src/gateway/formats/gemini/errors.ts"
import { openAiErrors } from "../../../src/gateway/formats/openai-chat/errors.ts"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { ChunksToResponse, type ResponseEvent } from "../../../src/gateway/formats/openai-responses/chunks-to-events.ts"
import { commonFormat } from "../../../src/gateway/formats/openai-responses/common-format.ts"
import { ResponsesRequest } from "../../../src/gateway/formats/openai-responses/domain.ts"
import { responsesToChat } from "../../../src/gateway/formats/openai-responses/to-chat.ts"
import { streamedResponse } from "../../../src/gateway/formats/openai-responses/whole-to-stream.ts"
import { GatheredStream } from "../../../src/gateway/pipeline/gathered-stream.ts"
import { providerRequest } from "../../../src/gateway/pipeline/provider-request.ts"
import { StreamTransformer } from "../../../src/gateway/pipeline/stream-transformer.ts"
import { NativeEvents } from "../../../src/gateway/wire/native/native-events.ts"
import { LlmRequest } from "../../../src/gateway/wire/native/request-domain.ts"
import { chatOf, saidIn } from "../../../src/gateway/wire/native/translation.ts"
import { isJson, type Json, parsedJson } from "../../../src/kernel/json/parsed-json.ts"
import { chatFormats, knownModel, spokenDialects } from "../../support/formats.ts"
import { runningLoopback } from "../../support/loopback.ts"
import { readableSeal, readableSeals } from "../../support/turn-seals.ts"
import { chatFault, messageFault } from "../../support/vendor-rules.ts"
import { answers } from "./examples/answers.ts"
import { type Examples } from "./examples/domain.ts"
import { errors } from "./examples/errors.ts"
import { requests } from "./examples/requests.ts"
import { streams } from "./examples/streams.ts"

const utf8 = new TextEncoder()
const pretty = (value: unknown): string => `${inLines(value)}\n`

/** JSON that begins a line only where it would be longer than 128 characters. */
const inLines = (value: unknown, indent = ""): string => {
  const line = JSON.stringify(value)
  if (typeof value !== "object" || value === null || indent.length + line.length <= 128) return line
  const within = `${indent}  `
  const items = Array.isArray(value)
    ? value.map((item) => within + inLines(item, within))
    : Object.entries(value).map(([name, member]) => `${within}${JSON.stringify(name)}: ${inLines(member, within)}`)
  const [open, close] = Array.isArray(value) ? "[]" : "{}"
  return `${open}\n${items.join(",\n")}\n${indent}${close}`
}

/** One file for each example and direction; a direction is named after the dialect that it begins with. */
const snapshots = <Given>(
  folder: string,
  examples: Examples<Given>,
  directions: Readonly<
    Record<string, (given: Given, example: Readonly<Record<string, Given>>) => string | Promise<string>>
  >
) => {
  const home = path.join(import.meta.dirname, "snapshots", folder)
  const cases = Object.entries(examples).flatMap(([name, example]) =>
    Object.entries(directions).flatMap(([direction, translate]) => {
      const given = example[direction.split("-")[0] ?? ""]
      const file = `${name.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-")}.${direction}.snap`
      return given === undefined ? [] : [[file, () => translate(given, example)] as const]
    })
  )
  describe(folder, () => {
    it.each(cases)("%s", async (file, translated) => {
      await expect(await translated()).toMatchFileSnapshot(path.join(home, file))
    })

    it("have no snapshot that no example writes", () => {
      const known = new Set(cases.map(([file]) => file))
      assert.deepStrictEqual(
        fs.readdirSync(home).filter((file) => !known.has(file)),
        []
      )
    })
  })
}

const [target] = gatewaySnapshot({}, null, runningLoopback, [], []).models.flatMap(({ targets }) => targets)

const limits = { limit: undefined, outputTokens: 4096, toolLimit: undefined }

/** The request as its provider gets it, who must not refuse it. */
const sent = async (body: Json, from: WireFormat, to: Dialect): Promise<string> => {
  assert.isDefined(target)
  const model = to === "openai" ? "gpt" : body.model === "m" ? "claude-sonnet-4-5" : String(body.model)
  const provider = { ...target.provider, vendor: undefined, speaks: spokenDialects[to] }
  const bytes = utf8.encode(JSON.stringify(body))
  const request = { format: from, model: body.model, streams: false, body, bytes, states: readableSeals }
  const out = await Effect.runPromise(providerRequest(request, { ...target, ...knownModel(model), provider }, limits))
  const received = JSON.parse(typeof out === "string" ? out : Buffer.from(out).toString("utf8"))
  const headers = { "anthropic-version": "2023-06-01" }
  const fault = to === "openai" ? chatFault : messageFault
  assert.isUndefined(fault({ method: "POST", path: "/v1/messages", headers, body: received }))
  return pretty(received)
}

const chatOfResponses = (given: Json, ownTools: ReadonlyArray<BilledTool>): Json => {
  const request = Schema.decodeUnknownSync(ResponsesRequest)({ model: "m", ...given })
  const items =
    typeof request.input === "object" && request.input !== null
      ? request.input
      : [{ role: "user" as const, content: request.input ?? "Hello" }]
  return Result.getOrThrow(responsesToChat(request, items, new Set(ownTools))).body
}

const hello = [{ role: "user", content: "Hello" }]
const chatOfNative = (given: Json): Json =>
  chatOf(Schema.decodeUnknownSync(LlmRequest)({ model: "m", messages: hello, ...given }))

snapshots("requests", requests, {
  "chat-to-messages": (given) => sent({ model: "m", messages: hello, ...given }, openAiChat, "anthropic"),
  "messages-to-chat": (given) =>
    sent({ model: "m", max_tokens: 100, messages: hello, ...given }, anthropicMessages, "openai"),
  "native-to-chat": (given) => sent(chatOfNative(given), openAiChat, "openai"),
  "native-to-messages": (given) => sent(chatOfNative(given), openAiChat, "anthropic"),
  "responses-to-chat": (given) => sent(chatOfResponses(given, []), commonFormat, "openai"),
  "responses-to-messages": (given) =>
    sent(chatOfResponses(given, ["webSearch", "codeExecution"]), commonFormat, "anthropic")
})

const head = { model: "asked", id: "made", createdSeconds: 17 }
const decodeCompletion = (given: unknown) => readCompletion(given) ?? {}

const responseOf = (request: Json = { model: "asked" }): ChunksToResponse => {
  const asked = Schema.decodeUnknownSync(ResponsesRequest)(request)
  return new ChunksToResponse({
    id: "resp_made",
    createdSeconds: 17,
    request: asked,
    tools: Result.getOrThrow(responsesToChat(asked, [])).tools,
    itemId: (prefix, place) => `${prefix}_made_${place}`
  })
}

const emptyResponse = responseOf().end(noUsage).response

/** The members of a response that differ from those of an empty one, which has a snapshot of its own. */
const ownMembers = (response: Json): Json => {
  assert.deepStrictEqual(Object.keys(response), Object.keys(emptyResponse))
  return Object.fromEntries(
    Object.entries(response).filter(([name, value]) => !isDeepStrictEqual(value, emptyResponse[name]))
  )
}

it("writes an empty response", () =>
  expect(pretty(emptyResponse)).toMatchFileSnapshot(path.join(import.meta.dirname, "snapshots/empty-response.snap")))

/** An answer as the common form has it, and the usage that it reports. */
const common = (answer: Json, from: WireFormat) => ({
  completion: sealedIn(from.translation!.answerToCommon!(answer, head), readableSeal),
  usage: from.usageIn(answer) ?? noUsage
})

const translatedAnswer = (answer: Json, from: WireFormat, to: WireFormat): string => {
  const { completion, usage } = common(answer, from)
  return pretty(to.translation!.answerFromCommon!(completion, head, usage))
}

const wholeResponse = (answer: Json, from: WireFormat, request: Json | undefined): string => {
  const completion = decodeCompletion(common(answer, from).completion)
  const chunks = responseOf(request)
  chunks.pushWhole(completion)
  return pretty(ownMembers(chunks.end(usageOfCompletion(completion.usage)).response))
}

/** The events of a stream, one a line. */
const lines = (stream: string | undefined): string =>
  `${(stream ?? "").trimEnd().replaceAll("\n\n", "\0").replaceAll("\n", " ").replaceAll("\0", "\n")}\n`

snapshots("answers", answers, {
  "completion-to-message": (given) => translatedAnswer(given, openAiChat, anthropicMessages),
  "completion-to-response": (given, { request }) => wholeResponse(given, openAiChat, request),
  "completion-to-native": (given) => pretty(saidIn(utf8.encode(JSON.stringify(given))) ?? null),
  "completion-to-chunks": (given) => lines(chatFormats.openai.streamed(JSON.stringify(given), noUsage)),
  "message-to-completion": (given) => translatedAnswer(given, anthropicMessages, openAiChat),
  "message-to-response": (given, { request }) => wholeResponse(given, anthropicMessages, request),
  "message-to-events": (given) => wellFormed(lines(chatFormats.anthropic.streamed(JSON.stringify(given), undefined))),
  "response-to-events": (given) => lines(streamedResponse(JSON.stringify(given)))
})

const decodeEvent = (data: string | undefined) => readEvent(parsedJson(data ?? "")) ?? {}

/** The events of a message, which has one start, and blocks without gaps that are open one at a time. */
const wellFormed = (stream: string): string => {
  const open = new Set<number>()
  let blocks = 0
  const events = Array.from(stream.matchAll(/data: (.*)$/gm), ([, data]) => decodeEvent(data))
  for (const [place, { index, type }] of events.entries()) {
    assert.strictEqual(type === "message_start", place === 0, "one start")
    if (type === "content_block_start") {
      assert.strictEqual(index, blocks++, "a gap between blocks")
      assert.strictEqual(open.size, 0, "a block that starts before another one stops")
      open.add(index ?? 0)
    }
    if (type === "content_block_delta") assert.isTrue(open.has(index ?? 0), "a delta of a block that is not open")
    if (type === "content_block_stop") assert.isTrue(open.delete(index ?? 0), "a stop of a block that is not open")
    if (type === "message_delta") assert.strictEqual(open.size, 0, "open blocks at the end")
  }
  assert.include(["message_stop", "error"], events.at(-1)?.type)
  return stream
}

const writers = { openai: openAiErrors, anthropic: anthropicErrors, gemini: geminiErrors }

/** A provider's stream; one that breaks off has no last event. */
const streamOf = (dialect: Dialect, events: ReadonlyArray<Json>): string => {
  const isWhole = /"(?:finish|stop)_reason":"/.test(JSON.stringify(events))
  const written = events.map((event) => {
    const name = dialect === "anthropic" ? `event: ${String(event.type)}\n` : ""
    return `${name}data: ${JSON.stringify(event)}\n\n`
  })
  return written.join("") + (dialect === "openai" && isWhole ? "data: [DONE]\n\n" : "")
}

const relayed = (stream: string, from: Dialect, to: WireFormat): string => {
  const transformer = new StreamTransformer({
    from: chatFormats[from],
    to,
    head,
    seal: readableSeal,
    includeUsage: true,
    keepsWords: false,
    writeError: (error) => writers[to.dialect].event(error, "req_1")
  })
  const begun = transformer.push(utf8.encode(stream))
  return Buffer.concat([begun, transformer.end(transformer.usage ?? noUsage, undefined)]).toString("utf8")
}

const decodeChunk = (value: unknown) => readChunk(value) ?? {}

const withOwnMembers = (name: string, value: unknown) =>
  name === "response" && isJson(value) ? ownMembers(value) : value

/** What `wire/openai-responses` makes of the chunks of a completion. */
const responseEvents = (stream: string, request: Json | undefined): string => {
  const chunks = responseOf(request)
  const events: Array<ResponseEvent> = []
  let usage = noUsage
  for (const { data } of new EventReader().push(utf8.encode(stream))) {
    const value = parsedJson(data)
    const failure = errorInEvent(value)
    if (failure !== undefined) events.push(...chunks.fail({ code: failure.code ?? "", message: failure.message }))
    else if (data === "[DONE]") events.push(...chunks.end(usage).events)
    else {
      const chunk = decodeChunk(value)
      if (chunk.usage) usage = usageOfCompletion(chunk.usage)
      events.push(...chunks.push(chunk))
    }
  }
  return events.map((event) => `event: ${event.type} data: ${JSON.stringify(event, withOwnMembers)}\n`).join("")
}

const native = (stream: string): string => {
  const events = new NativeEvents(() => ({ costUsd: 0 }))
  return lines(events.push(utf8.encode(stream)) + events.end())
}

const gathered = (dialect: Dialect, events: ReadonlyArray<Json>): string => {
  const whole = new GatheredStream(chatFormats[dialect])
  whole.push(utf8.encode(streamOf(dialect, events)))
  const answer = whole.end()
  return pretty(whole.isComplete ? answer : null)
}

snapshots("streams", streams, {
  "chunks-to-events": (given) => wellFormed(lines(relayed(streamOf("openai", given), "openai", anthropicMessages))),
  "chunks-to-response": (given, { request }) =>
    responseEvents(relayed(streamOf("openai", given), "openai", commonFormat), request?.[0]),
  "chunks-to-native": (given) => native(relayed(streamOf("openai", given), "openai", openAiChat)),
  "chunks-to-completion": (given) => gathered("openai", given),
  "events-to-chunks": (given) => lines(relayed(streamOf("anthropic", given), "anthropic", openAiChat)),
  "events-to-response": (given, { request }) =>
    responseEvents(relayed(streamOf("anthropic", given), "anthropic", commonFormat), request?.[0]),
  "events-to-native": (given) => native(relayed(streamOf("anthropic", given), "anthropic", openAiChat)),
  "events-to-message": (given) => gathered("anthropic", given)
})

const errorBody = (to: Dialect, error: DialectError): string => {
  const { body, status } = writers[to].answer(error, undefined, "req_1", 0)
  return pretty({ status, body })
}
const providerError = (dialect: Dialect, { status, ...body }: Json) => readErrorIn(dialect, Number(status), body)
const ownError = ({ status, message, code }: Json) => ({
  status: Number(status),
  message: String(message),
  code: code === null ? null : String(code)
})

snapshots("errors", errors, {
  "own-to-openai": (given) => errorBody("openai", ownError(given)),
  "own-to-anthropic": (given) => errorBody("anthropic", ownError(given)),
  "openai-to-openai": (given) => errorBody("openai", providerError("openai", given)),
  "openai-to-anthropic": (given) => errorBody("anthropic", providerError("openai", given)),
  "anthropic-to-openai": (given) => errorBody("openai", providerError("anthropic", given)),
  "anthropic-to-anthropic": (given) => errorBody("anthropic", providerError("anthropic", given))
})
