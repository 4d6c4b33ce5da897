import { Effect, Schema } from "effect"
import { Instant } from "../../kernel/instant.ts"
import { repeatedMember } from "../../kernel/json/json-scanner.ts"
import { expectedExactIntegers, hasInexactInteger, isJson, parsedJson } from "../../kernel/json/parsed-json.ts"
import { isStorableJson } from "../../kernel/json/storable-json.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import {
  MalformedJson,
  PayloadTooLarge,
  UnsupportedMediaType,
  ValidationFailed
} from "../../kernel/problems/problems.ts"
import { batchType, type CloudEvent, structuredType } from "./domain.ts"
import { isJsonType, isTextType } from "./media-type.ts"

/** What an event may have at most. */
const maxEventBytes = 65_536
const maxDepth = 64
/** The audit log is one chain for all tenants: those of a batch are linked together, and what comes after them waits. */
const maxBatchEvents = 1000
/** A batch may have thousands of faults; more than these are not mended at a time. */
export const maxFaults = 100

/** Attributes that this service sets. */
const overwritten = new Set(["tenantid", "sequence", "authtype", "authid"])
const longest: Readonly<Record<string, number>> = { id: 255, source: 2048, type: 255 }

/** A request to take events, in one of the modes of the HTTP binding. */
export interface EventRequest {
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly bytes: Uint8Array
}

/** An event of a request, and where it stands in that. */
export interface GivenEvent {
  readonly event: CloudEvent
  readonly path: Fault["path"]
}

/** The events of a request, without the attributes that this service sets; the first hundred faults are reported. */
export const receivedEvents = Effect.fnUntraced(function* ({ bytes, headers }: EventRequest) {
  const contentType = (headers["content-type"] ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? ""
  if (contentType === batchType) {
    const batch = yield* parsed(bytes)
    if (!Array.isArray(batch))
      return yield* invalidEvents([{ path: ["payload"], message: "Expected an array of events" }])
    if (batch.length > maxBatchEvents) {
      return yield* new PayloadTooLarge({ detail: `A batch may have ${maxBatchEvents} events at most.` })
    }
    return yield* validated(batch, (index) => ["payload", index])
  }
  if (contentType === structuredType) return yield* validated([yield* parsed(bytes)], () => ["payload"])
  // Of events in formats that are not JSON there is no reader (HTTP binding §3).
  if (contentType.startsWith("application/cloudevents")) return yield* new UnsupportedMediaType({})
  // Without one attribute in a header it is no event of the binary mode; without the required ones it is a faulty one.
  if (!Object.keys(headers).some((name) => name.startsWith("ce-"))) return yield* new UnsupportedMediaType({})
  return yield* validated([yield* inBinaryMode(headers, bytes)], () => ["headers"])
})

/** Names the first faults in words. */
export const invalidEvents = (errors: ReadonlyArray<Fault>) => {
  const shown = errors.slice(0, 3).map(({ message, path }) => `${path.join(".")}: ${message}`)
  return Effect.fail(
    new ValidationFailed({
      errors,
      detail: `${shown.join("; ")}${errors.length > shown.length ? `; and ${errors.length - shown.length} more` : ""}`
    })
  )
}

const textOf = (bytes: Uint8Array, ignoreBOM = true): string | undefined => {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM }).decode(bytes)
  } catch {
    return undefined
  }
}

const parsed = Effect.fnUntraced(function* (bytes: Uint8Array) {
  // A byte order mark before JSON may be ignored (RFC 8259 §8.1); in text it is a character.
  const text = textOf(bytes, false)
  const value = text === undefined ? undefined : parsedJson(text)
  if (value === undefined) return yield* new MalformedJson({})
  const repeated = repeatedMember(bytes)
  return repeated === undefined ? value : yield* new MalformedJson({ detail: `${repeated}: The member is there twice` })
})

/** What the binary mode has in the body or in Content-Type. */
const ofBody = new Set(["ce-data", "ce-data_base64", "ce-datacontenttype"])

/** A value without the quotation marks of what is quoted in it, as older versions of the binding wrote spaces (§3.1.3.2). */
const unquoted = (value: string): string =>
  // One that is never closed is read to its end once, and stays as it is.
  value.replaceAll(/"((?:[^"\\]|\\.)*)\\?(?:"|$)/gs, (quoted: string, text: string) =>
    quoted.endsWith(`"`) && quoted.length === text.length + 2 ? text.replaceAll(/\\(.)/gs, "$1") : quoted
  )

/** Attributes in headers, percent-encoded, and the data as the body. */
const inBinaryMode = Effect.fnUntraced(function* (headers: EventRequest["headers"], bytes: Uint8Array) {
  const given: Array<readonly [name: string, value: string]> = []
  for (const [name, value] of Object.entries(headers)) {
    if (!name.startsWith("ce-") || value === undefined) continue
    if (ofBody.has(name)) {
      return yield* new ValidationFailed({ errors: [{ path: ["headers", name], message: "Expected it in the body" }] })
    }
    const decoded = yield* Effect.try({
      try: () => decodeURIComponent(unquoted(value)),
      catch: () =>
        new ValidationFailed({ errors: [{ path: ["headers", name], message: "Expected percent-encoded UTF-8" }] })
    })
    given.push([name.slice(3), decoded])
  }
  const contentType = headers["content-type"]
  if (contentType !== undefined) given.push(["datacontenttype", contentType])
  const attributes = Object.fromEntries(given)
  if (bytes.length === 0) return attributes
  if (contentType === undefined || isJsonType(contentType)) return { ...attributes, data: yield* parsed(bytes) }
  const text = isTextType(contentType) ? textOf(bytes) : undefined
  return text === undefined
    ? { ...attributes, data_base64: Buffer.from(bytes).toString("base64") }
    : { ...attributes, data: text }
})

const validated = Effect.fnUntraced(function* (
  given: ReadonlyArray<unknown>,
  pathOf: (index: number) => Fault["path"]
) {
  const faults: Array<Fault> = []
  const events = given.map((value, index) => {
    if (faults.length >= maxFaults) return value
    const path = pathOf(index)
    if (!isJson(value)) {
      faults.push({ path, message: "Expected a CloudEvent" })
      return value
    }
    faults.push(...faultsOf(value, path).slice(0, maxFaults - faults.length))
    return Object.fromEntries(Object.entries(value).filter(([name, one]) => !overwritten.has(name) && one !== null))
  })
  if (faults.length > 0) return yield* invalidEvents(faults)
  for (const event of events) {
    if (Buffer.byteLength(JSON.stringify(event)) > maxEventBytes) {
      return yield* new PayloadTooLarge({ detail: `An event may have ${maxEventBytes} bytes at most.` })
    }
  }
  return events.map((event, index): GivenEvent => ({ event: event as unknown as CloudEvent, path: pathOf(index) }))
})

const isInstant = Schema.is(Schema.toEncoded(Instant))
const decodesAsInstant = (text: string) => Schema.decodeUnknownOption(Instant)(text)._tag === "Some" && isInstant(text)

const faultsOf = (
  event: Readonly<Record<string, unknown>>,
  path: ReadonlyArray<string | number>
): ReadonlyArray<Fault> => {
  const faults: Array<Fault> = []
  const fault = (name: string, message: string) => void faults.push({ path: [...path, name], message })
  if (event.specversion !== "1.0") fault("specversion", 'Expected "1.0"')
  for (const [name, most] of Object.entries(longest)) {
    const value = event[name]
    if (value === undefined || value === null) fault(name, "Required")
    else if (typeof value !== "string" || value === "" || value.length > most) {
      fault(name, `Expected a string of 1 to ${most} characters`)
    }
  }
  if (typeof event.source === "string" && !isUriReference(event.source)) fault("source", "Expected a URI reference")
  if (typeof event.type === "string" && /\s/.test(event.type)) fault("type", "Expected a type without white space")
  if (event.data !== undefined && event.data_base64 !== undefined)
    fault("data_base64", "Expected only one of data and data_base64")
  if (event.data_base64 !== undefined && !isBase64(event.data_base64)) fault("data_base64", "Expected base64")
  if (hasInexactInteger(event.data)) fault("data", `Expected ${expectedExactIntegers}`)
  for (const [name, value] of Object.entries(event)) {
    if (name === "data" || name === "data_base64" || value === null) continue
    if (!/^[a-z0-9]{1,64}$/.test(name)) fault(name, "Expected a name of lower-case letters and digits")
    else if (typeof value === "object") fault(name, "Expected a string, an integer or a boolean")
    else if (typeof value === "number" && (value | 0) !== value) fault(name, "Expected an integer of 32 bits")
    else if (typeof value === "string" && /\p{Cc}/u.test(value)) fault(name, "Expected text without control characters")
    else if (name === "datacontenttype" && !(typeof value === "string" && isMediaType(value))) {
      fault(name, "Expected a media type")
    } else if (name === "time" && !(typeof value === "string" && decodesAsInstant(value))) {
      fault(name, "Expected an RFC 3339 timestamp")
    } else if (/^(?:subject|dataschema)$/.test(name) && (typeof value !== "string" || value === "")) {
      fault(name, "Expected a string that is not empty")
    }
  }
  if (!isStorableJson(event, maxDepth)) {
    faults.push({
      path,
      message: `Expected text without NUL and lone surrogates, and finite numbers, nested ${maxDepth} deep at most`
    })
  }
  return faults
}

const isMediaType = (text: string): boolean =>
  text.length <= 255 && /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+ *(?:;[\x20-\x7e]*)?$/.test(text)
const isUriReference = (text: string): boolean => /^[^\s<>"{}|\\^`]+$/.test(text)
const isBase64 = (value: unknown): boolean =>
  typeof value === "string" && /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(value)
