import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import { ChatRequest, readChunk, readCompletion } from "../../../../src/gateway/formats/common-form/domain.ts"
import { EventReader } from "../../../../src/gateway/formats/event-reader.ts"
import { answerToCompletion, completionToAnswer } from "../../../../src/gateway/formats/gemini/answers.ts"
import { chatToRequest } from "../../../../src/gateway/formats/gemini/chat-to-request.ts"
import { camelCasedRequest, GenerateRequest, readAnswer } from "../../../../src/gateway/formats/gemini/domain.ts"
import { requestToChat } from "../../../../src/gateway/formats/gemini/request-to-chat.ts"
import {
  AnswerReader,
  AnswersToChunks,
  AnswerWriter,
  ChunksToAnswers
} from "../../../../src/gateway/formats/gemini/stream.ts"
import { openAiChat } from "../../../../src/gateway/formats/openai-chat/format.ts"
import { GatheredStream } from "../../../../src/gateway/pipeline/gathered-stream.ts"
import { parsedJson } from "../../../../src/kernel/json/parsed-json.ts"
import { knownModel } from "../../../support/formats.ts"
import { hasRecorded, readRecorded, recordedFile } from "../../../support/recorded.ts"
import { type Any } from "./forms.ts"

const exchanges = hasRecorded ? readRecorded().filter(({ dialect }) => dialect === "openai-chat") : []
const head = { model: "m", id: "id", createdSeconds: 17, includesThoughts: true }

const decodeCommon = Schema.decodeUnknownResult(ChatRequest)
const decodeGenerate = Schema.decodeUnknownSync(GenerateRequest)

/** What has to survive: who says what, calls, and results. */
const gist = (messages: ReadonlyArray<Any>) =>
  messages
    .map(({ content, role, tool_call_id: id, tool_calls: calls }) => ({
      role: role === "developer" ? "system" : role,
      text: typeof content === "string" ? content : (content ?? []).map(({ text }: Any) => text ?? "").join(""),
      calls: (calls ?? []).map((call: Any) => [
        call.id,
        call.function.name,
        parsedJson(call.function.arguments || "{}")
      ]),
      id
    }))
    .filter(({ calls, role, text }) => role === "tool" || text !== "" || calls.length > 0)

/** Turns of one role in sequence are one to Gemini; instructions come first. */
const merged = (messages: ReturnType<typeof gist>) => {
  const of = (role: string) => messages.filter((message) => message.role === role)
  return {
    system: of("system")
      .map(({ text }) => text)
      .join(""),
    user: of("user")
      .map(({ text }) => text)
      .join(""),
    assistant: of("assistant")
      .map(({ text }) => text)
      .join(""),
    calls: messages.flatMap(({ calls }) => calls),
    results: of("tool").map(({ id, text }) => [id, parsedJson(text) ?? text])
  }
}

const said = (choice: Any) => ({
  text: (choice?.message?.content ?? "") + (choice?.message?.refusal ?? ""),
  thought: choice?.message?.reasoning_content || (choice?.message?.reasoning ?? ""),
  calls: (choice?.message?.tool_calls ?? []).map(({ function: called }: Any) => [
    called?.name,
    parsedJson(called?.arguments || "{}")
  ])
})

describe.skipIf(!hasRecorded)(`recorded chat completions (${recordedFile})`, () => {
  it("requests keep their words, calls and results by way of Gemini, or are refused by path", () => {
    let kept = 0
    let kindsRefused = 0
    for (const { id, ...exchange } of exchanges) {
      const { request } = exchange as Any
      const read = decodeCommon(request)
      if (Result.isFailure(read)) continue
      const translated = chatToRequest(read.success, knownModel("gemini-3-flash"))
      if (Result.isFailure(translated)) {
        assert.isNotEmpty(translated.failure[0]?.path, id)
        kindsRefused++
        continue
      }
      const body: Any = JSON.parse(JSON.stringify(translated.success))
      for (const [index, { role }] of body.contents.entries())
        assert.notStrictEqual(role, body.contents[index - 1]?.role, id)
      const again = requestToChat(decodeGenerate(camelCasedRequest(body).body), { model: "m", stream: false })
      if (Result.isFailure(again)) assert.fail(`${id}: ${JSON.stringify(again.failure)}`)
      else if (request.messages.some(({ role }: Any) => role !== "system" && role !== "developer")) {
        const expected = merged(gist(request.messages))
        const actual = merged(gist((again.success as Any).messages))
        assert.deepStrictEqual(
          // A conversation that the model begins has a turn of the user before it.
          { ...actual, system: actual.system.replaceAll("\n\n", ""), user: actual.user.replace(/^Begin\./, "") },
          { ...expected, system: expected.system.replaceAll("\n\n", "") },
          id
        )
        kept++
      }
    }
    assert.isAbove(kept, 100)
    assert.isAbove(kindsRefused, 0)
  })

  it("whole answers keep their words, thoughts and calls by way of Gemini", () => {
    let kept = 0
    for (const { body, id, status, streamed } of exchanges) {
      const completion: Any = parsedJson(body)
      if (streamed || status !== 200 || readCompletion(completion)?.choices === undefined) continue
      const answer = completionToAnswer(readCompletion(completion) ?? {}, head)
      const again: Any = answerToCompletion(readAnswer(JSON.parse(JSON.stringify(answer))) ?? {}, head)
      const read: Any = readCompletion(completion)
      assert.deepStrictEqual(again.choices.map(said), read.choices.map(said), id)
      kept++
    }
    assert.isAbove(kept, 50)
  })

  it("streams keep them by way of Gemini's elements, in both frames", () => {
    let kept = 0
    for (const { body, id, status, streamed } of exchanges) {
      if (!streamed || status !== 200) continue
      const chunks = new EventReader()
        .push(new TextEncoder().encode(`${body}\n\n`))
        .flatMap(({ data }) => readChunk(parsedJson(data)) ?? [])
      for (const framing of ["sse", "array"] as const) {
        const machine = new ChunksToAnswers(head)
        const writer = new AnswerWriter(framing)
        const text =
          chunks.map((chunk) => writer.write(machine.push(chunk))).join("") + writer.write(machine.end()) + writer.end()
        const back = new AnswersToChunks(head)
        const reader = new AnswerReader()
        const answers = [...reader.push(new TextEncoder().encode(text)), ...reader.end()]
        const whole = [...answers.flatMap((answer) => back.push(readAnswer(answer) ?? {})), ...back.end()]
        assert.deepStrictEqual(said(joined(whole)), said(joined(chunks)), id)
        kept++
      }
    }
    assert.isAbove(kept, 20)
  })
})

const joined = (chunks: ReadonlyArray<object>): Any => {
  const whole = new GatheredStream(openAiChat)
  for (const chunk of chunks) whole.push(new TextEncoder().encode(`data: ${JSON.stringify(chunk)}\n\n`))
  return readCompletion(whole.end())?.choices?.[0]
}

if (!hasRecorded) it.skip(`there are no recorded exchanges at ${recordedFile}`, () => {})
