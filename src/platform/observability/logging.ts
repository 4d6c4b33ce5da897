import {
  Array as Arr,
  Cause,
  Context,
  DateTime,
  Effect,
  Layer,
  Logger,
  type LogLevel,
  Redactable,
  Redacted,
  References,
  Tracer
} from "effect"
import { constVoid } from "effect/Function"
import { UrlParams } from "effect/http"

const redacted = "<redacted>"
const maximumTextLength = 32_768

const secretWords =
  "pass(?:word|wd|phrase|code)|secret|token|api[-_. ]?key|(?:private|encryption|signing|access)[-_. ]?key|authorization|cookies?|credentials?|assertion|am_session"
const secretName = new RegExp(`(?:${secretWords})(?:[-_.]?hash)?$`, "i")

/** Query parameters whose values are masked in `url.full`, `url.query` and the messages of HTTP errors. */
const secretQueryNames = [
  secretName,
  /^(?:key|code|otp|code_verifier|id_token_hint|samlresponse)$/i,
  /^(?:sig|x-(?:amz|goog)-(?:signature|credential)|signature|awsaccesskeyid)$/i
]

/** Masks secret query parameters wherever Effect renders a URL: spans, errors, inspection. */
export const layerRedactedNames = Layer.succeed(UrlParams.CurrentRedactedNames, secretQueryNames)

/** Whether a value of this name is a secret whatever it looks like; `inputTokens`, `tokenId` and `apiKeyId` are not. */
export const isSecretName = (name: string): boolean => secretName.test(name)

// Most text has no secret: one pass decides that, so that the patterns below run rarely.
const suspicious =
  /am[ktcir]_|eyJ|sk-|gsk_|xai-|AIza|bearer|dpop|basic|:\/\/[^\s/]*@|hooks\.|-----BEGIN|invalid input|malformed|out of range|[?&](?:key|code|otp|sig)=|[?&][\w.-]*%/i
const suspiciousWord = new RegExp(secretWords, "i")

const secretPatterns: ReadonlyArray<readonly [pattern: RegExp, replacement: string]> = [
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g, redacted],
  [/amk_[0-9A-Za-z]{20,}/g, redacted],
  [/am[tcir]_[0-9A-Za-z_-]{20,}/g, redacted],
  [/eyJ[\w-]{10,}(?:\.[\w-]*){0,4}/g, redacted],
  [/\b(?:sk-|gsk_|xai-|AIza)[\w-]{16,}/g, redacted],
  [/(hooks\.slack\.com\/services\/)[\w/]+/g, `$1${redacted}`],
  // A word of prose after "Bearer" is no token; anything else is one.
  [
    /\b(bearer|dpop)(\s+)(?!(?:tokens?|authentication|scheme|realm|error|credentials?)(?![\w\-.~+/]))[\w\-.~+/]+=*/gi,
    `$1$2${redacted}`
  ],
  [/\b([Bb]asic|BASIC)(\s+)(?=[A-Za-z0-9+/]*(?:[a-z][A-Z]|[0-9+/=]))[A-Za-z0-9+/]{4,}={0,2}/g, `$1$2${redacted}`],
  [/\b([a-z][a-z0-9+.-]{0,20}:\/\/)[^\s/@:]*:[^\s@/]+@/gi, `$1${redacted}@`],
  // "password":"…" as JSON, 'password': '…' as JavaScript prints it, \"password\":\"…\" as JSON within JSON.
  [
    new RegExp(String.raw`(["'])([\w.-]*(?:${secretWords}))\1(\s*:\s*\[?)(["'])(?:\\.|(?!\4)[^\\])*(?:\4|$)`, "gi"),
    `$1$2$1$3$4${redacted}$4`
  ],
  [
    new RegExp(String.raw`\\"([\w.-]*(?:${secretWords}))\\"(\s*:\s*)\\".*?(?:\\"|$)`, "gi"),
    String.raw`\"$1\"$2\"${redacted}\"`
  ],
  [new RegExp(String.raw`(${secretWords})(\s*[:=]\s*)(["'])(?:\\.|(?!\3)[^\\])*(?:\3|$)`, "gi"), `$1$2$3${redacted}$3`],
  [/\b((?:proxy-)?authorization|(?:set-)?cookie|x-api-key)(\s*[:=]\s*)(?!["'<])[^\r\n]+/gi, `$1$2${redacted}`],
  [new RegExp(String.raw`(${secretWords})=(?!["'<])[^\s&"'<>,;)}\]]+`, "gi"), `$1=${redacted}`],
  [
    /\b(pass(?:word|wd|phrase|code)|secret|api[-_]?key|(?:access|refresh|id)_token)(:\s+)(?!["'<])[^\s,;"'}\])]+/gi,
    `$1$2${redacted}`
  ],
  // PostgreSQL quotes the parameter that it could not parse.
  [/((?:invalid input (?:syntax|value) for|malformed|out of range)[^":\r\n]*: ")[^\r\n]*"/gi, `$1${redacted}"`],
  [/(\bvalue ")[^\r\n]*(" is out of range)/gi, `$1${redacted}$2`],
  // A name with a percent-encoding may be any of these.
  [/([?&](?:(?:key|code|otp|sig)|[\w.-]*%[\w.%-]*)=)[^&\s"'#]+/gi, `$1${redacted}`]
]

/**
 * Masks what looks like a secret in a text: API keys, bearer and basic credentials, JWTs, private keys, credentials in
 * URLs, and values after the name of a secret. A safety net beneath `Redacted`, not a replacement. Cuts at 32,768 characters.
 */
export const scrub = (text: string): string => {
  let clean = text.slice(0, 4 * maximumTextLength)
  if (suspicious.test(text) || suspiciousWord.test(text)) {
    for (const [pattern, replacement] of secretPatterns) clean = clean.replace(pattern, replacement)
  }
  return clean.length > maximumTextLength ? `${clean.slice(0, maximumTextLength)}…` : clean
}

const maximumDepth = 6
const maximumEntries = 100

/** The JSON of a value without its secrets: scrubbed texts, masked names, bounded, never circular. */
export const scrubValue = (value: unknown, name = "", ancestors: ReadonlyArray<object> = []): unknown => {
  if (value === undefined || value === null || typeof value === "boolean") return value
  if (Redacted.isRedacted(value) || isSecretName(name)) return redacted
  if (typeof value === "string") return scrub(value)
  if (typeof value === "number") return Number.isFinite(value) ? value : String(value)
  if (typeof value !== "object") return scrub(String(value))
  if (ancestors.includes(value)) return "[circular]"
  if (ancestors.length >= maximumDepth) return "[deep]"
  try {
    return scrubObject(value, [...ancestors, value])
  } catch {
    return "[unprintable]"
  }
}

const scrubObject = (value: object, ancestors: ReadonlyArray<object>): unknown => {
  if (Redactable.isRedactable(value)) return scrubValue(Redactable.getRedacted(value), "", ancestors)
  if (Arr.isArray(value)) return value.slice(0, maximumEntries).map((item) => scrubValue(item, "", ancestors))
  if (value instanceof Error) {
    return scrubValue({ name: value.name, message: value.message, cause: value.cause }, "", ancestors)
  }
  if ("toJSON" in value && typeof value.toJSON === "function") return scrubValue(value.toJSON(), "", ancestors)
  const entries = value instanceof Map ? value : value instanceof Set ? value.entries() : Object.entries(value)
  return Object.fromEntries(
    Array.from(entries)
      .slice(0, maximumEntries)
      .map(([key, item]): [string, unknown] => [scrub(String(key)), scrubValue(item, String(key), ancestors)])
  )
}

const text = (value: unknown): string => {
  const clean = scrubValue(value)
  return typeof clean === "string" ? clean : (JSON.stringify(clean) ?? String(clean))
}

const messageText = (message: unknown): string =>
  Arr.ensure(message)
    .map((part) => (part instanceof Error ? scrub(`${part.name}: ${part.message}`) : text(part)))
    .join(" ")

/** The cause of a line, or the error that was logged as a message; undefined when there is neither. */
const errorOf = (options: Logger.Options<unknown>) => {
  const thrown = Arr.ensure(options.message).find((part) => part instanceof Error)
  const cause = options.cause.reasons.length > 0 || thrown === undefined ? options.cause : Cause.die(thrown)
  const first = Cause.prettyErrors(cause)[0]
  return first === undefined
    ? undefined
    : { type: first.name, message: scrub(first.message), stack: scrub(Cause.pretty(cause)) }
}

const reservedNames = new Set(["timestamp", "level", "message", "error"])

/** Annotations, log spans (as `<label>DurationMs`) and, unless an annotation names them, the current trace and span. */
const attributesOf = (options: Logger.Options<unknown>): Record<string, unknown> => {
  const attributes: Record<string, unknown> = {}
  const span = Context.getOrUndefined(options.fiber.context, Tracer.ParentSpan)
  // Without a collector no spans are made, and the placeholder has no ids.
  if (span !== undefined && span.traceId !== "noop") {
    attributes.traceId = span.traceId
    attributes.spanId = span.spanId
  }
  for (const [name, value] of Object.entries(options.fiber.getRef(References.CurrentLogAnnotations))) {
    attributes[reservedNames.has(name) ? `annotation.${name}` : scrub(name)] = scrubValue(value, name)
  }
  for (const [label, startedAt] of options.fiber.getRef(References.CurrentLogSpans)) {
    attributes[`${scrub(label)}DurationMs`] = options.date.getTime() - startedAt
  }
  return attributes
}

/** One JSON object per line: `timestamp`, `level`, `message`, `traceId`, `spanId`, the annotations, `error`. */
export const json: Logger.Logger<unknown, string> = Logger.make((options) =>
  JSON.stringify({
    timestamp: DateTime.formatIso(DateTime.fromDateUnsafe(options.date)),
    level: options.logLevel,
    message: messageText(options.message),
    ...attributesOf(options),
    error: errorOf(options)
  })
)

const colours: Record<LogLevel.LogLevel, number> = {
  All: 37,
  Trace: 90,
  Debug: 36,
  Info: 32,
  Warn: 33,
  Error: 31,
  Fatal: 35,
  None: 37
}

// Text of a request must not forge a line or control the terminal.
const printable = (line: string) =>
  line.replace(/\p{Cc}/gu, (character) =>
    character === "\n" ? "\\n" : `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`
  )
const printableLines = (lines: string) => lines.split("\n").map(printable).join("\n  ")

/** One line per entry for people: time in UTC, level, message, annotations; the cause below it. */
export const pretty = (options: { readonly colours: boolean }): Logger.Logger<unknown, string> => {
  const paint = (colour: number, painted: string) =>
    options.colours ? `\u001b[${colour}m${painted}\u001b[0m` : painted
  return Logger.make((entry) => {
    const time = DateTime.formatIso(DateTime.fromDateUnsafe(entry.date)).slice(11, 23)
    const attributes = Object.entries(attributesOf(entry)).map(([name, value]) =>
      paint(
        90,
        printable(`${name}=${typeof value === "string" && !/[\s="]/.test(value) ? value : JSON.stringify(value)}`)
      )
    )
    const error = errorOf(entry)
    return (
      [
        paint(90, time),
        paint(colours[entry.logLevel], entry.logLevel.toUpperCase().padEnd(5)),
        printable(messageText(entry.message)),
        ...attributes
      ].join(" ") + (error === undefined ? "" : `\n  ${printableLines(error.stack)}`)
    )
  })
}

const maximumPendingBytes = 16 * 1024 * 1024

/**
 * Writes lines to standard output, which buffers what a pipe does not accept yet. A stalled reader costs lines, which are
 * counted, but neither memory nor time; a closed pipe costs nothing.
 */
const toStandardOutput = Effect.fnUntraced(function* (logger: Logger.Logger<unknown, string>) {
  const output = process.stdout
  let droppedLines = 0
  yield* Effect.acquireRelease(
    Effect.sync(() => output.on("error", constVoid)),
    () =>
      Effect.callback<void>((resume) => {
        output.write("", () => resume(Effect.void))
      }).pipe(Effect.timeoutOption("1 second"), Effect.andThen(Effect.sync(() => output.off("error", constVoid))))
  )
  return Logger.make<unknown, void>((entry) => {
    if (output.writableLength > maximumPendingBytes) {
      droppedLines += 1
      return
    }
    if (droppedLines > 0) {
      const timestamp = DateTime.formatIso(DateTime.fromDateUnsafe(entry.date))
      output.write(`${JSON.stringify({ timestamp, level: "Warn", message: "Log lines were dropped", droppedLines })}\n`)
      droppedLines = 0
    }
    output.write(`${logger.log(entry)}\n`)
  })
})

/**
 * The only logger of the process: entries of `level` and above to standard output, scrubbed. The
 * telemetry layer on top of it (`Layer.provideMerge`) adds the collector to its loggers.
 */
export const layer = (options: {
  readonly level: LogLevel.LogLevel
  readonly format: "pretty" | "json"
}): Layer.Layer<never> =>
  Layer.mergeAll(
    layerRedactedNames,
    Layer.succeed(References.MinimumLogLevel, options.level),
    Logger.layer([
      Effect.suspend(() =>
        toStandardOutput(
          options.format === "json" ? json : pretty({ colours: process.stdout.isTTY && process.stdout.hasColors() })
        )
      )
    ])
  )
