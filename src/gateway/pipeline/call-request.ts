import { Effect } from "effect"
import { type HttpServerRequest } from "effect/http"
import { isUtf8 } from "node:buffer"
import { excessIn, foldedName, repeatedMember } from "../../kernel/json/json-scanner.ts"
import { isJson, type Json, parsedJson } from "../../kernel/json/parsed-json.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import { MalformedJson, PayloadTooLarge, UnsupportedMediaType } from "../../kernel/problems/problems.ts"
import { bytesOf, declaresMoreThan, encoded, exceeds, isEncoded, repeats } from "../../platform/http/request-body.ts"
import { headersOf } from "../../platform/http/request.ts"
import { type GatewayCaller } from "../authentication/gateway-authentication.ts"
import { withBetas } from "../catalog/betas.ts"
import { ProviderRefused } from "../configuration/domain.ts"
import { type ModelTarget } from "../configuration/gateway-snapshot.ts"
import { gatewayError, GatewayError, invalidMember, invalidMembers } from "../errors/gateway-error.ts"
import { type TurnSeals } from "../formats/common-form/turn-state.ts"
import { type DialectError } from "../formats/errors.ts"
import { type GivenBody, type GivenRequest, type WireFormat } from "../formats/format.ts"
import { betaMembers } from "../formats/request-faults.ts"
import { edited, mergePatch } from "../json/json-edits.ts"
import { type Sender } from "../providers/provider.ts"
import { type CallSession } from "../routing/sessions.ts"

/** A request in the format of its caller. */
export interface FormatRequest extends GivenRequest {
  readonly format: WireFormat
  /** What providers want back with their turns, sealed for the caller's tenant. */
  readonly states: TurnSeals
  /** What the call shares with others of its caller; undefined where the caller names no session. */
  readonly session?: CallSession | undefined
}

/** Which ids of a request are sealed depends on no member of it. */
export const noMembers: Json = {}

/** The Idempotency-Key of a call, and the route that it belongs to. */
export interface CallKey {
  readonly route: string
  readonly key: string
}

/** A call of the gateway, on any of its paths. */
export interface Call extends FormatRequest {
  readonly caller: GatewayCaller
  /** Headers that are forwarded to the provider. */
  readonly headers: Readonly<Record<string, string>>
  /** Labels of the caller, stored with the charge. */
  readonly metadata?: Readonly<Record<string, string>> | undefined
  /** Models to try in turn when every target of the first one fails. */
  readonly fallbacks?: ReadonlyArray<string>
  /** Whether to use the response cache; by default the model's configuration decides. */
  readonly cache?: boolean | undefined
  /** The one provider that may be called, because it stores what the request refers to. */
  readonly onlyProvider?: string | undefined
  /** Whether a target is left out, because the same request has failed there in another format, or belongs to another one. */
  readonly isLeftOut?: ((target: ModelTarget) => boolean) | undefined
  /** The connection that the request goes out on; its provider's own ones unless given. */
  readonly via?: Sender | undefined
  /** The ids that a caller gets in the place of a provider's. */
  readonly idsFor?: ((provider: string) => (id: string) => string) | undefined
  readonly idempotency?: CallKey | undefined
  /** Writes an error into a stream that has begun, in the format of the caller. */
  writeError(error: DialectError): string
}

const tooLarge = gatewayError(new PayloadTooLarge({ detail: "The body is larger than the gateway takes." }))
const notJson = gatewayError(new MalformedJson({ detail: "The body is no JSON object." }))

const notPlain = gatewayError(new UnsupportedMediaType({ detail: encoded }))

const decoder = new TextDecoder()
const byteOrderMark = new Uint8Array([0xef, 0xbb, 0xbf])

/** A text without the mark that RFC 8259 §8.1 lets a parser ignore; what edits bytes would read it as a part of them. */
const withoutMark = (bytes: Uint8Array): Uint8Array =>
  bytes[0] === 0xef && byteOrderMark.every((byte, index) => bytes[index] === byte) ? bytes.subarray(3) : bytes

/**
 * The body of a request: a JSON object in UTF-8, in which no object names a member twice, and which is not nested too deep.
 */
export const parseRequest = (
  request: HttpServerRequest.HttpServerRequest,
  maxBytes: number
): Effect.Effect<GivenBody, GatewayError<MalformedJson | PayloadTooLarge | UnsupportedMediaType>> => {
  const headers = headersOf(request)
  if (isEncoded(headers)) return Effect.fail(notPlain)
  if (declaresMoreThan(headers, maxBytes)) return Effect.fail(tooLarge)
  return Effect.matchEffect(bytesOf(request, maxBytes), {
    onFailure: () => Effect.fail(tooLarge),
    onSuccess: (received) => {
      const given = givenBody(received)
      return given instanceof GatewayError ? Effect.fail(given) : Effect.succeed(given)
    }
  })
}

/** The JSON object in these bytes, which {@link parseRequest} asks for. */
export const givenBody = (received: Uint8Array): GivenBody | GatewayError<MalformedJson> => {
  const bytes = withoutMark(received)
  const excess = excessIn(bytes)
  if (excess !== undefined) return gatewayError(new MalformedJson({ detail: exceeds(excess) }))
  const body = isUtf8(bytes) ? parsedJson(decoder.decode(bytes)) : undefined
  if (!isJson(body)) return notJson
  const repeated = repeatedMember(bytes)
  if (repeated === undefined) return { body, bytes }
  return gatewayError(new MalformedJson({ detail: repeats(repeated) }), { param: repeated })
}

const maxBetas = 100
const isBeta = (beta: unknown): boolean => typeof beta === "string" && /^[\x21-\x7e]{0,100}$/.test(beta)

/** A request whose betas are in its headers alone, where all of them are read. */
export const withoutBetaMembers = <R extends Pick<Call, "body" | "bytes" | "format" | "headers">>(
  request: R
): R | GatewayError => {
  const { body, bytes, format } = request
  const given = format.betaHeader === undefined ? [] : betaMembers.filter((name) => Object.hasOwn(body, name))
  if (given.length === 0) return request
  let { headers } = request
  for (const name of given) {
    const betas = body[name] ?? []
    const isList = Array.isArray(betas) && betas.length <= maxBetas && betas.every(isBeta)
    if (!isList) return invalidMember(name, `${name}: Expected a list of up to ${maxBetas} betas`)
    headers = withBetas(headers, format.betaHeader!(name), betas)
  }
  const without = Object.fromEntries(given.map((name) => [name, null]))
  const rest = Object.fromEntries(Object.entries(body).filter(([name]) => !given.includes(name)))
  return { ...request, body: rest, bytes: edited(bytes, mergePatch(bytes, body, without)), headers }
}

/** The errors of a request that is invalid in its own format, limited to the members that metering reads. */
export const validateRequest = ({ body, format }: FormatRequest): GatewayError | undefined => {
  const faults: Array<Fault> = []
  for (const name in body) {
    const small = foldedName(name)
    if (small !== name && format.metered.has(small))
      faults.push({ path: [name], message: `Expected ${small}, in small letters` })
  }
  faults.push(...format.faults(body))
  if (faults.length > 0) return invalidMembers(faults)
  const unserved = format.unserved?.(body)
  if (unserved === undefined) return undefined
  const { message, ...members } = unserved
  return gatewayError(new ProviderRefused({ detail: message }), members)
}
