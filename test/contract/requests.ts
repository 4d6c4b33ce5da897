import { type Dice } from "./dice.ts"
import { bodySchemaOf, type Operation } from "./document.ts"
import { changed, valueOf } from "./generated-values.ts"
import { hostileBodies, hostileMediaTypes, hostileTexts, jsonTextOf, spoiled } from "./hostile-values.ts"
import { type KnownValues } from "./known-values.ts"
import { type WireRequest } from "./wire.ts"

type Changeable = { -readonly [Member in keyof WireRequest]: WireRequest[Member] }

/** One hostile change to a request, where it can be made. */
type Spoil = (request: Changeable, dice: Dice, operation: Operation, known: KnownValues) => void

const headerTexts = hostileTexts.filter((text) => /^[\x20-\x7e]{0,300}$/.test(text))

// The router's own treatment of `.` and `..` makes another path of them, and so another operation.
const pathTexts = hostileTexts.filter((text) => text !== "")

/** Percent-encoded as UTF-8; a lone surrogate goes as the three bytes that it would have. */
const encoded = (text: string): string =>
  encodeURIComponent(text.toWellFormed()).replaceAll("%EF%BF%BD", text.isWellFormed() ? "%EF%BF%BD" : "%ED%A0%80")

const targetOf = (
  operation: Pick<Operation, "path">,
  parameter: (name: string) => string,
  query: ReadonlyArray<string>
): string => {
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name: string) => parameter(name))
  return query.length === 0 ? path : `${path}?${query.join("&")}`
}

const pathValue = (dice: Dice, operation: Operation, known: KnownValues, name: string): string => {
  const existing = known.forPath(operation, name)
  // The newest are the likeliest to be neither ended nor deleted.
  const candidates = dice.chance(0.5) ? existing.slice(-6) : existing
  if (candidates.length > 0 && dice.chance(0.8)) return encoded(String(dice.pickOr(candidates, "")))
  const schema = operation.parameters.find((parameter) => parameter.name === name)?.schema ?? {}
  return encoded(String(valueOf(dice, schema, known, name)) || "x")
}

/** What names one thing only together is mostly taken from one, as its own members say it. */
const namedTogether = (dice: Dice, operation: Operation, known: KnownValues): Readonly<Record<string, unknown>> => {
  const names = operation.parameters.flatMap(({ in: place, name, required }) =>
    place === "query" && required ? [name] : []
  )
  return names.length > 1 && dice.chance(0.6) ? dice.pickOr(known.thingsWith(names).slice(-6), {}) : {}
}

const queryOf = (dice: Dice, operation: Operation, known: KnownValues): ReadonlyArray<string> => {
  const together = namedTogether(dice, operation, known)
  return operation.parameters.flatMap(({ in: place, name, required, schema }) =>
    place === "query" && (required || dice.chance(0.25))
      ? [`${encoded(name)}=${encoded(String(together[name] ?? valueOf(dice, schema, known, name)))}`]
      : []
  )
}

const jsonBody = (request: Changeable, value: unknown): void => {
  request.body = Buffer.from(jsonTextOf(value))
  request.headers = { ...request.headers, "content-type": "application/json" }
}

/** The path of a thing that is there, below what it belongs to; none when none is known. */
const placeOf = (dice: Dice, operation: Operation, known: KnownValues): string | undefined => {
  const end = operation.path.lastIndexOf("}") + 1
  const places = known.placesOf(operation.path.slice(0, end))
  const candidates = dice.chance(0.5) ? places.slice(-6) : places
  return candidates.length > 0 && dice.chance(0.7)
    ? `${dice.pickOr(candidates, "")}${operation.path.slice(end)}`
    : undefined
}

const targetAtRandom = (dice: Dice, operation: Operation, known: KnownValues): string =>
  targetOf(
    { path: placeOf(dice, operation, known) ?? operation.path },
    (name) => pathValue(dice, operation, known, name),
    queryOf(dice, operation, known)
  )

/** A request that conforms to the document: made at random, or one that succeeded before with some of it made anew. */
export const conforming = (dice: Dice, operation: Operation, known: KnownValues): WireRequest => {
  const worked = known.requestsOf(operation.operationId)
  const before = dice.chance(0.5) ? dice.pickOr(dice.chance(0.5) ? worked.slice(-6) : worked, undefined) : undefined
  const target = before !== undefined && dice.chance(0.3) ? before.target : targetAtRandom(dice, operation, known)
  const request: Changeable = { method: operation.method, target, headers: {}, body: undefined }
  const schema = bodySchemaOf(operation)
  if (schema !== undefined) {
    jsonBody(request, before === undefined ? valueOf(dice, schema, known) : changed(dice, schema, before.body, known))
  }
  const repeatable = operation.parameters.some(({ name }) => name === "Idempotency-Key")
  if (repeatable && dice.chance(0.3)) {
    request.headers = { ...request.headers, "idempotency-key": `key ${dice.below(dice.chance(0.5) ? 3 : 2 ** 31)}` }
  }
  return request
}

const withHeader = (request: Changeable, name: string, value: string): void => {
  request.headers = { ...request.headers, [name]: value }
}

const appended = (target: string, part: string): string => `${target}${target.includes("?") ? "&" : "?"}${part}`

const rawPaths = ["%", "%zz", "%ff", "%00", "a%2Fb", "%25", "%2e%2e%2f", "a+b", "*", "~"] as const

const spoilPath: Spoil = (request, dice, operation) => {
  const search = request.target.split("?")[1]
  const value = () => (dice.chance(0.2) ? dice.deal(rawPaths) : encoded(dice.pickOr(pathTexts, "x")))
  request.target = targetOf(operation, value, search === undefined ? [] : [search])
}

const spoilQuery: Spoil = (request, dice, operation) => {
  const names = operation.parameters.flatMap(({ in: place, name }) => (place === "query" ? [name] : []))
  const name = dice.chance(0.7)
    ? dice.pickOr(names, "unknown")
    : dice.pick(["unknown", "__proto__", "constructor", "", "a[b]"])
  const raw = () =>
    dice.pick(["%", `${name}=%zz`, `${name}=%ff`, "&&&", `${name}`, `${name}[]=1`, `${name}.a=1`, `=${name}`])
  const parts = dice.chance(0.2) ? [raw()] : [`${encoded(name)}=${encoded(dice.deal(hostileTexts))}`]
  if (dice.chance(0.2)) parts.push(...parts)
  for (const part of parts) request.target = appended(request.target, part)
}

const spoilMember: Spoil = (request, dice, operation, known) => {
  const schema = bodySchemaOf(operation)
  if (schema === undefined) return spoilBody(request, dice, operation, known)
  let value = valueOf(dice, schema, known)
  for (let times = 1 + dice.below(3); times > 0; times--) value = spoiled(dice, value)
  jsonBody(request, value)
}

const spoilBody: Spoil = (request, dice) => {
  request.body = dice.deal(hostileBodies)
  withHeader(request, "content-type", "application/json")
}

const spoilMediaType: Spoil = (request, dice) => {
  if (dice.chance(0.2)) {
    const { "content-type": _, ...rest } = request.headers
    request.headers = rest
  } else withHeader(request, "content-type", dice.deal(hostileMediaTypes))
  if (request.body === undefined && dice.chance(0.5)) request.body = dice.deal(hostileBodies)
}

const headerNames = [
  "accept",
  "accept-encoding",
  "accept-language",
  "authorization",
  "content-encoding",
  "cookie",
  "forwarded",
  "idempotency-key",
  "if-match",
  "origin",
  "range",
  "traceparent",
  "tracestate",
  "user-agent",
  "x-forwarded-for",
  "x-http-method-override",
  "x-request-id"
] as const

const wellKnownHeaders: readonly [readonly [string, string], ...ReadonlyArray<readonly [string, string]>] = [
  ["accept", "text/html"],
  ["accept", "application/json;q=0, */*"],
  ["accept", "*/*;q=0.1"],
  ["accept", "application/problem+json"],
  ["accept", ",;=,"],
  ["content-encoding", "gzip"],
  ["idempotency-key", "é"],
  ["idempotency-key", "k".repeat(256)],
  ["if-match", '"1"'],
  ["traceparent", "00-00000000000000000000000000000000-0000000000000000-01"],
  ["traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
  ["user-agent", "ÿ".repeat(1000)],
  ["x-request-id", "x".repeat(129)]
]

const spoilHeader: Spoil = (request, dice) => {
  const [name, value] = dice.chance(0.5)
    ? ([dice.deal(headerNames), dice.pickOr(headerTexts, "")] as const)
    : dice.deal(wellKnownHeaders)
  withHeader(request, name, value)
}

const spoils = [
  spoilPath,
  spoilQuery,
  spoilMember,
  spoilMember,
  spoilMember,
  spoilBody,
  spoilMediaType,
  spoilHeader
] as const

const unknownPath: Spoil = (request, dice, operation, known) => {
  const search = request.target.split("?")[1]
  const schemaOf = (name: string) => operation.parameters.find((parameter) => parameter.name === name)?.schema ?? {}
  const value = (name: string) => encoded(String(valueOf(dice, schemaOf(name), known)) || "x")
  request.target = targetOf(operation, value, search === undefined ? [] : [search])
}

const repeated: Spoil = (request) => withHeader(request, "idempotency-key", "edge")

const mediaTyped: Spoil = (request) => withHeader(request, "content-type", "text/plain")

const json =
  (body: Buffer): Spoil =>
  (request) => {
    request.body = body
    withHeader(request, "content-type", "application/json")
  }

/** What chance brings to few operations only, one change each: every operation gets each of them. */
const edges: ReadonlyArray<Spoil> = [
  repeated,
  repeated,
  unknownPath,
  mediaTyped,
  json(Buffer.from("{")),
  json(Buffer.from(`{"a":"${"x".repeat(1_100_000)}"}`)),
  (request) => withHeader(request, "accept", "text/html"),
  (request) => withHeader(request, "idempotency-key", "é"),
  (request) => (request.target = appended(request.target, "a=%zz")),
  (request) => (request.target = appended(request.target, "unknown=1")),
  // By now the first is answered, and this is mostly another one under its key.
  repeated
]

/** A request that conforms but for one change. */
const nearlyConforming = (edge: Spoil, ...[dice, operation, known]: Parameters<typeof conforming>): WireRequest => {
  const request: Changeable = { ...conforming(dice, operation, known) }
  edge(request, dice, operation, known)
  return request
}

/** Requests that conform but for one change each. */
export const allNearlyConforming = (...about: Parameters<typeof conforming>): ReadonlyArray<WireRequest> =>
  edges.map((edge) => nearlyConforming(edge, ...about))

/** A request that does one to three things that the document does not provide for. */
export const hostile = (dice: Dice, operation: Operation, known: KnownValues): WireRequest => {
  const request: Changeable = { ...conforming(dice, operation, known) }
  for (let times = 1 + dice.below(3); times > 0; times--) dice.deal(spoils)(request, dice, operation, known)
  return request
}
