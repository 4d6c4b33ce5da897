import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Logger, Redacted, Schema, Tracer } from "effect"
import { spawn } from "node:child_process"
import { text } from "node:stream/consumers"
import { fileURLToPath } from "node:url"
import { json, pretty, scrub, scrubValue } from "../../../src/platform/observability/logging.ts"

const apiKey = `amk_${"0Ab1Cd2Ef3Gh4".repeat(5)}`
const jwt = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlLWJ5dGVz"

const linesOf = <A, E>(logger: Logger.Logger<unknown, string>, effect: Effect.Effect<A, E>) =>
  Effect.gen(function* () {
    const lines: Array<string> = []
    yield* effect.pipe(Effect.exit, Effect.provide(Logger.layer([Logger.map(logger, (line) => void lines.push(line))])))
    return lines
  })

const jsonOf = <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.map(linesOf(json, effect), (lines) => lines.map((line) => JSON.parse(line)))

describe("json", () => {
  it.effect("writes one flat object per line", () =>
    Effect.gen(function* () {
      const span = Tracer.externalSpan({ traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331" })
      const [line] = yield* jsonOf(
        Effect.logInfo("opened\nwindow", { days: 7n }).pipe(
          Effect.annotateLogs({ trialUserId: 42, level: "mine", closed: undefined, open: true }),
          Effect.withLogSpan("open"),
          Effect.withParentSpan(span)
        )
      )
      assert.deepStrictEqual(line, {
        timestamp: "1970-01-01T00:00:00.000Z",
        level: "Info",
        message: 'opened\nwindow {"days":"7"}',
        traceId: "0af7651916cd43dd8448eb211c80319c",
        spanId: "b7ad6b7169203331",
        trialUserId: 42,
        "annotation.level": "mine",
        open: true,
        openDurationMs: 0
      })
    })
  )

  it.effect("lets an annotation name the trace", () =>
    Effect.gen(function* () {
      const [line] = yield* jsonOf(
        Effect.logInfo("x").pipe(Effect.annotateLogs({ traceId: "of-the-request" }), Effect.withSpan("inner"))
      )
      assert.strictEqual(line.traceId, "of-the-request")
    })
  )

  it.effect("gives causes and errors with their stacks", () =>
    Effect.gen(function* () {
      const failure = new Error("outer", { cause: new TypeError("inner") })
      const lines = yield* jsonOf(
        Effect.gen(function* () {
          yield* Effect.logError("failed", Cause.die(failure))
          yield* Effect.logError("failed", failure)
          yield* Effect.logError(failure)
        })
      )
      for (const { error } of lines) {
        assert.strictEqual(error.type, "Error")
        assert.strictEqual(error.message, "outer")
        assert.match(error.stack, /Error: outer[\s\S]+at [\s\S]+TypeError: inner/)
      }
      assert.deepStrictEqual(
        lines.map(({ message }) => message),
        ["failed", "failed Error: outer", "Error: outer"]
      )
    })
  )
})

describe("pretty", () => {
  it.effect("writes for people", () =>
    Effect.gen(function* () {
      const lines = yield* linesOf(
        pretty({ colours: false }),
        Effect.logWarning("slow").pipe(Effect.annotateLogs({ seconds: 3, route: "/api/x", note: "two words" }))
      )
      assert.deepStrictEqual(lines, ['00:00:00.000 WARN  slow seconds=3 route=/api/x note="two words"'])
    })
  )

  it.effect("lets no text forge a line or control the terminal", () =>
    Effect.gen(function* () {
      const forged = "x\n00:00:00.000 INFO  forged\u001b[2J\u009b2J"
      const lines = yield* linesOf(
        pretty({ colours: false }),
        Effect.logInfo(forged, Cause.fail(new Error(forged))).pipe(Effect.annotateLogs({ [forged]: forged }))
      )
      const text = lines.join("\n")
      for (const character of ["\u001b", "\u009b"]) assert.notInclude(text, character)
      assert.isFalse(
        text
          .split("\n")
          .slice(1)
          .some((line) => line.startsWith("00:"))
      )
    })
  )
})

describe("secrets", () => {
  const formats = { json, pretty: pretty({ colours: true }) }
  for (const [name, logger] of Object.entries(formats)) {
    it.effect(`are masked in ${name}, at any position`, () =>
      Effect.gen(function* () {
        const lines = yield* linesOf(
          logger,
          Effect.logError(
            `key ${apiKey}`,
            Redacted.make("hidden-in-message", { label: "a-label" }),
            { wrapped: Redacted.make("hidden-in-object"), list: [{ password: "hidden-by-name" }] },
            Cause.fail(new Error(`Bearer hidden-in-cause ${jwt}`, { cause: new Error(apiKey) }))
          ).pipe(
            Effect.annotateLogs({
              apiKey: "hidden-by-annotation",
              text: `Authorization: Basic aGlkZGVuOmhpZGRlbg==`,
              wrapped: Redacted.make("hidden-in-annotation", { label: "a-label" })
            })
          )
        )
        const written = lines.join("\n")
        assert.include(written, "<redacted>")
        assert.notInclude(written, "a-label")
        for (const secret of ["hidden", apiKey, jwt, "aGlkZGVuOmhpZGRlbg"]) assert.notInclude(written, secret)
      })
    )
  }

  const masked: ReadonlyArray<readonly [given: string, expected: string]> = [
    [`x${apiKey}y`, "x<redacted>"],
    [`token ${jwt}!`, "token <redacted>!"],
    ["Bearer abc.def-ghi", "Bearer <redacted>"],
    ["authorization: Bearer abc", "authorization: <redacted>"],
    ["Cookie: am_session=abc; theme=dark\nHost: x", "Cookie: <redacted>\nHost: x"],
    ["Basic dXNlcjpwYXNz", "Basic <redacted>"],
    ["postgresql://app:pa:ss@db:5432/app", "postgresql://<redacted>@db:5432/app"],
    [
      "https://x.dev/cb?code=abc&state=1&access_token=def",
      "https://x.dev/cb?code=<redacted>&state=1&access_token=<redacted>"
    ],
    ['{"password":"a\\"b","n":1}', '{"password":"<redacted>","n":1}'],
    ['{"body":"{\\"client_secret\\":\\"abc\\"}"}', '{"body":"{\\"client_secret\\":\\"<redacted>\\"}"}'],
    ["{ apiKey: 'abc' }", "{ apiKey: '<redacted>' }"],
    ["password: hunter2", "password: <redacted>"],
    [`sk-ant-${"a1B2".repeat(8)}`, "<redacted>"],
    ["https://hooks.slack.com/services/T00/B00/abcdef", "https://hooks.slack.com/services/<redacted>"],
    ['invalid input syntax for type uuid: "a "quoted" value"', 'invalid input syntax for type uuid: "<redacted>"'],
    ['value "99999999999" is out of range for type integer', 'value "<redacted>" is out of range for type integer'],
    ["-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----", "<redacted>"]
  ]
  for (const [given, expected] of masked) {
    it(`masks ${JSON.stringify(given).slice(0, 60)}`, () => assert.strictEqual(scrub(given), expected))
  }

  const innocent = [
    "Bearer authentication is required",
    "Basic Authentication",
    "tokens used: 1200, inputTokens=3",
    "GET /api/api-keys/0198a5b0-0000-7000-8000-000000000000?page=2",
    "amk_short",
    "the key of the map",
    "principal api-key:0198a5b0-0000-7000-8000-000000000000",
    "http://127.0.0.1:11402/health"
  ]
  for (const given of innocent) {
    it(`leaves ${JSON.stringify(given)}`, () => assert.strictEqual(scrub(given), given))
  }

  it.effect.prop(
    "never leave a key readable, whatever surrounds it",
    [Schema.String, Schema.String],
    ([before, after]) =>
      Effect.sync(() => {
        for (const secret of [apiKey, jwt]) {
          assert.notInclude(scrub(`${before}${secret} ${after}`), secret)
          assert.notInclude(JSON.stringify(scrubValue({ [before]: [{ text: `${secret}${after}` }] })), secret)
        }
      })
  )

  it("are found by name in values of any shape, which never break the log", () => {
    const circular: Record<string, unknown> = { accessToken: { inner: "x" }, hasPassword: true, inputTokens: 5 }
    circular.self = circular
    assert.deepStrictEqual(
      scrubValue({
        circular,
        map: new Map([["client-secret", "x"]]),
        wrapped: Redacted.make("x"),
        infinite: Number.POSITIVE_INFINITY,
        thrown: new Error(apiKey),
        get broken(): never {
          throw new Error("no")
        }
      }),
      "[unprintable]"
    )
    assert.deepStrictEqual(
      scrubValue({ circular, map: new Map([["client-secret", "x"]]), wrapped: Redacted.make("x") }),
      {
        circular: { accessToken: "<redacted>", hasPassword: true, inputTokens: 5, self: "[circular]" },
        map: { "client-secret": "<redacted>" },
        wrapped: "<redacted>"
      }
    )
  })

  it("are searched in bounded time and space", () => {
    for (const hostile of ["eyJ", "a.", "amk_", '"', "password", "://a:", "Bearer ", "-----BEGIN ", "sk-"]) {
      assert.isAtMost(scrub(hostile.repeat(100_000)).length, 32_769)
    }
  })
})

const root = fileURLToPath(new URL("../../..", import.meta.url))

/** Runs a script as a process of its own; standard output is read only after `read` is resolved. */
const run = (script: string) =>
  Effect.callback<{ readonly stdout: string; readonly stderr: string }>((resume) => {
    const child = spawn(process.execPath, ["--input-type=module", "--eval", script], { cwd: root })
    void text(child.stderr).then(async (stderr) => {
      resume(Effect.succeed({ stdout: await text(child.stdout), stderr }))
    })
    return Effect.sync(() => child.kill())
  })

const program = (options: string, body: string) => `
  import { Effect } from "effect"
  import { closeSync } from "node:fs"
  import { layer } from "./src/platform/observability/logging.ts"
  await Effect.runPromise(Effect.gen(function* () { ${body} }).pipe(Effect.provide(layer(${options}))))
`

describe("layer", () => {
  it.live("writes entries of its level and above to standard output", () =>
    Effect.gen(function* () {
      const body = `
        yield* Effect.logTrace("t"); yield* Effect.logDebug("d"); yield* Effect.logInfo("i")
        yield* Effect.logWarning("w"); yield* Effect.logError("e")`
      const messages = (level: string) =>
        Effect.map(run(program(`{ level: "${level}", format: "json" }`, body)), ({ stdout }) =>
          stdout
            .split("\n")
            .slice(0, -1)
            .map((line): string => JSON.parse(line).message)
            .join("")
        )
      assert.deepStrictEqual(yield* Effect.forEach(["Trace", "Info", "Warn", "None"], messages), [
        "tdiwe",
        "iwe",
        "we",
        ""
      ])
    })
  )

  it.live("does not wait for a reader and loses no line at exit", () =>
    Effect.gen(function* () {
      // Nobody reads standard output before standard error ends, and 2 MB fit no pipe.
      const body = `
        for (let line = 0; line < 2000; line++) yield* Effect.logInfo("x".repeat(1000))
        closeSync(2)`
      const { stdout } = yield* run(program(`{ level: "Info", format: "pretty" }`, body))
      assert.strictEqual(stdout.split("\n").length, 2001)
      assert.notInclude(stdout, "\u001b")
    })
  )
})
