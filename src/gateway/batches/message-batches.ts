import { Context, Effect, Layer } from "effect"
import { type HttpServerRequest } from "effect/http"
import { isBlank } from "../../kernel/json/json-scanner.ts"
import { isJson } from "../../kernel/json/parsed-json.ts"
import { MalformedJson, PayloadTooLarge, UnsupportedMediaType } from "../../kernel/problems/problems.ts"
import { bytesOf, declaresMoreThan, encoded, isEncoded } from "../../platform/http/request-body.ts"
import { headersOf } from "../../platform/http/request.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { gatewayError, GatewayError, type GatewayProblem, invalidMember } from "../errors/gateway-error.ts"
import { edited, placesIn } from "../json/json-edits.ts"
import { givenBody } from "../pipeline/call-request.ts"
import { type BatchCaller, type BatchInput, BatchInputs, failureAt } from "./batch-input.ts"
import { Batches, type MadeThing } from "./service.ts"

type Failure = GatewayError<GatewayProblem>

const utf8 = new TextEncoder()
const url = "/v1/messages"

const tooLarge = gatewayError(
  new PayloadTooLarge({ detail: "The body is larger than the gateway takes (Llm:Gateway:MaxBatchBytes)." })
)
const notPlain = gatewayError(new UnsupportedMediaType({ detail: encoded }))
const malformed = gatewayError(new MalformedJson({ detail: "The body is no JSON object with a list of requests." }))
const noRequests = invalidMember("requests", "requests: Expected at least one request")
const noParams = invalidMember("params", "params: Expected an object")

const brackets = { open: 0x5b, close: 0x5d, closeBrace: 0x7d }

/**
 * The texts of the requests in a body, which is not parsed as a whole: it may have more values than fit into memory. What stands
 * between them is looked at here, and they themselves are parsed one by one.
 */
const requestsIn = (bytes: Uint8Array): ReadonlyArray<Uint8Array> | Failure => {
  const members = placesIn(bytes)
  const [list, ...others] = members
  const last = bytes.findLastIndex((byte) => !isBlank(byte))
  if (list === undefined || bytes[last] !== brackets.closeBrace) return malformed
  const other = [list, ...others].find(({ name }) => name !== "requests")
  if (other !== undefined)
    return invalidMember(other.name, `${other.name}: The gateway does not know this member of a batch`)
  const isList = bytes[list.value] === brackets.open && bytes[list.end - 1] === brackets.close
  if (others.length > 0 || !isList) return malformed
  return placesIn(bytes, list.value).map(({ end, value }) => bytes.subarray(value, end))
}

/** A request as its provider gets it. */
const written = Effect.fnUntraced(function* (
  input: BatchInput,
  given: Uint8Array
): Effect.fn.Return<Uint8Array, Failure> {
  const request = givenBody(given)
  if (request instanceof GatewayError) return yield* request
  const { body: members, bytes } = request
  const body = members.params
  const place = placesIn(bytes).find(({ name }) => name === "params")
  if (!isJson(body) || place === undefined) return yield* noParams
  const own = { body, bytes: bytes.subarray(place.value, place.end), customId: members.custom_id, url }
  const sent = yield* input.add(own)
  return typeof sent === "string"
    ? edited(bytes, [{ start: place.value, end: place.end, text: sent }])
    : Buffer.concat([bytes.subarray(0, place.value), sent, bytes.subarray(place.end)])
})

/** Batches that are made with their requests in one body, and not by a file. */
export class MessageBatches extends Context.Service<MessageBatches>()("app/gateway/MessageBatches", {
  make: Effect.gen(function* () {
    const batches = yield* Batches
    const inputs = yield* BatchInputs
    const { maxBatchBytes } = (yield* Settings).llm.gateway
    return {
      create: Effect.fn("MessageBatches.create")(function* (
        request: HttpServerRequest.HttpServerRequest,
        of: BatchCaller
      ): Effect.fn.Return<MadeThing, Failure> {
        const headers = headersOf(request)
        const maxBytes = Math.min(maxBatchBytes, of.api.maxBytes)
        if (isEncoded(headers)) return yield* notPlain
        if (declaresMoreThan(headers, maxBytes)) return yield* tooLarge
        const bytes = yield* Effect.mapError(bytesOf(request, maxBytes), () => tooLarge)
        const requests = requestsIn(bytes)
        if (requests instanceof GatewayError) return yield* requests
        const input = inputs.begin(of)
        const parts: Array<Uint8Array> = []
        for (const [index, given] of requests.entries()) {
          const sent = yield* Effect.mapError(written(input, given), (failure) =>
            failureAt(failure, `requests.${index}`)
          )
          parts.push(utf8.encode(index === 0 ? '{"requests":[' : ","), sent)
        }
        const { provider } = input
        if (provider === undefined) return yield* noRequests
        const body = Buffer.concat([...parts, utf8.encode("]}")])
        const { headers: sent, omitted } = input.sent
        const made = yield* batches.submit({
          ...of,
          headers: sent,
          provider,
          terms: input.terms,
          places: input.modelPlaces,
          bytes,
          body: () => body
        })
        return omitted.length === 0
          ? made
          : { ...made, headers: { ...made.headers, "x-omitted-betas": omitted.join(", ") } }
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
