import { assert } from "@effect/vitest"
import { Result, Schema } from "effect"
import { ChatRequest } from "../../../../src/gateway/formats/common-form/domain.ts"
import { openedIn } from "../../../../src/gateway/formats/common-form/turn-state.ts"
import { chatToRequest } from "../../../../src/gateway/formats/gemini/chat-to-request.ts"
import { camelCasedRequest, GenerateRequest } from "../../../../src/gateway/formats/gemini/domain.ts"
import { requestToChat } from "../../../../src/gateway/formats/gemini/request-to-chat.ts"
import { type Json } from "../../../../src/kernel/json/parsed-json.ts"
import { knownModel } from "../../../support/formats.ts"
import { readableSeals } from "../../../support/turn-seals.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- requests of every shape
export type Any = any

const decodeGenerate = Schema.decodeUnknownSync(GenerateRequest)
const decodeCommon = Schema.decodeUnknownSync(ChatRequest)

/** A request as the gateway reads it. */
export const read = (body: object): GenerateRequest => decodeGenerate(camelCasedRequest(body as Json).body)

const whole = (value: unknown): Any => JSON.parse(JSON.stringify(value))

/** A request of a caller as a provider's format gets it. */
export const toChat = (body: object, stream = false): Any => {
  const result = requestToChat(read(body), { model: "m", stream })
  assert.isTrue(Result.isSuccess(result), Result.isFailure(result) ? JSON.stringify(result.failure) : "")
  return Result.isSuccess(result)
    ? whole(openedIn(result.success, (sealed) => readableSeals.open("", sealed)))
    : undefined
}

export const toGemini = (body: object, model = "gemini-3-flash"): Any => {
  const result = chatToRequest(decodeCommon(body), knownModel(model))
  assert.isTrue(Result.isSuccess(result), Result.isFailure(result) ? JSON.stringify(result.failure) : "")
  return Result.isSuccess(result) ? whole(result.success) : undefined
}

const paths = (result: Result.Result<unknown, ReadonlyArray<{ readonly path: ReadonlyArray<string | number> }>>) =>
  Result.isFailure(result) ? result.failure.map(({ path }) => path.join(".")) : []

/** The paths of what a request of a caller has that is not translated. */
export const refusedOfGemini = (body: object) => paths(requestToChat(read(body), { model: "m", stream: false }))

/** The paths of what a chat request has that Gemini does not take. */
export const refusedOfChat = (body: object) => paths(chatToRequest(decodeCommon(body), knownModel("gemini-3-flash")))

export const weather = {
  type: "function",
  function: {
    name: "weather",
    description: "Of a place",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] }
  }
}
export const clock = { type: "function", function: { name: "clock", parameters: { type: "object", properties: {} } } }

export const usage = { promptTokenCount: 10, candidatesTokenCount: 5, thoughtsTokenCount: 7, totalTokenCount: 22 }

/** An answer of Gemini 3 with thoughts, a text, and parallel calls of which the first one is signed. */
export const calling = {
  candidates: [
    {
      content: {
        role: "model",
        parts: [
          { thought: true, text: "Two " },
          { thought: true, text: "places." },
          { text: "I look." },
          { functionCall: { id: "a", name: "weather", args: { city: "Köln" } }, thoughtSignature: "SIG-A" },
          { functionCall: { id: "b", name: "weather", args: { city: "Bonn" } } }
        ]
      },
      finishReason: "STOP",
      index: 0
    }
  ],
  usageMetadata: usage,
  modelVersion: "gemini-3-flash",
  responseId: "r1"
}

/** An answer whose text is signed in an empty part at its end, as streams have it. */
export const signedText = {
  candidates: [
    {
      content: {
        role: "model",
        parts: [
          { thought: true, text: "Hm." },
          { text: "Fine" },
          { text: "." },
          { text: "", thoughtSignature: "SIG-T" }
        ]
      },
      finishReason: "STOP",
      index: 0
    }
  ],
  usageMetadata: usage,
  responseId: "r2"
}
