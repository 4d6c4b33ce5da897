import { assert, describe, it } from "@effect/vitest"
import { Config, ConfigProvider, Effect, FileSystem, Option, Redacted, Result, Schema } from "effect"
import { IpNetwork } from "effect/net"
import { systemError } from "effect/PlatformError"
import { execFile } from "node:child_process"
import * as fs from "node:fs/promises"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { promisify } from "node:util"
import { text, list } from "../../../src/platform/settings/setting-kinds.ts"
import {
  environmentName,
  fromJson,
  jsonFaultOffset,
  mergeLayers,
  nested,
  optional,
  readSettings
} from "../../../src/platform/settings/settings-reader.ts"
import { Settings, settingsFrom, type SettingsSources } from "../../../src/platform/settings/settings.ts"
import { settingsMarkdown } from "../../contract/settings-reference.ts"

const faultsOf = (sources: SettingsSources) =>
  settingsFrom(sources).pipe(
    Effect.flip,
    Effect.map(({ faults }) => faults.map(({ name, source, reason }) => [name, source, reason]))
  )

const json = (value: unknown) => JSON.stringify(value)

const name = (variables: Record<string, string>) => Result.getOrUndefined(environmentName(variables))

const proxies = (sources: SettingsSources) =>
  Effect.map(settingsFrom(sources), ({ api }) => api.trustedProxies.map(IpNetwork.format))

const accepts = (key: string, value: string) =>
  Effect.map(
    settingsFrom({ arguments: [`--${key}=${value}`] }),
    (settings) => settings.describe().find((one) => one.key === key)?.value
  )

const refuses = (key: string, value: string) => faultsOf({ arguments: [`--${key}=${value}`] })

describe("defaults", () => {
  it.effect("are Development's when nothing is set", () =>
    Effect.gen(function* () {
      const settings = yield* settingsFrom()
      assert.strictEqual(settings.environment, "Development")
      assert.deepStrictEqual(
        [settings.api.port, settings.api.host, settings.api.publicUrl, settings.api.swagger.enabled],
        [11402, "127.0.0.1", "http://127.0.0.1:11402", true]
      )
      assert.deepStrictEqual(settings.api.rateLimit, { enabled: true, perMinute: 6000, anonymousPerMinute: 60 })
      assert.deepStrictEqual([settings.api.trustedProxies, settings.api.cors.allowedOrigins], [[], []])
      const url: Option.Option<Redacted.Redacted<string>> = settings.database.url
      assert.isTrue(Option.isNone(url))
      assert.strictEqual(settings.database.directory, ".data")
      assert.deepStrictEqual(settings.logging, { level: "Info", format: "pretty", requests: false })
      assert.isTrue(settings.telemetry.prometheus.enabled)
      assert.deepStrictEqual([...new Set(settings.sources.values())], ["default"])
    })
  )

  it.effect("have the type of their kind", () =>
    Effect.gen(function* () {
      const settings = yield* settingsFrom()
      const level: "Trace" | "Debug" | "Info" | "Warn" | "Error" | "None" = settings.logging.level
      const endpoint: Option.Option<URL> = settings.telemetry.otlp.endpoint
      const key: Option.Option<Redacted.Redacted<Uint8Array>> = settings.security.encryptionKey
      const proxies: ReadonlyArray<IpNetwork.IpNetwork> = settings.api.trustedProxies
      assert.deepStrictEqual([level, endpoint, key, proxies], ["Info", Option.none(), Option.none(), []])
    })
  )

  it.effect("differ in Production", () =>
    Effect.gen(function* () {
      const settings = yield* settingsFrom({ environment: { APP_ENVIRONMENT: "production" } })
      assert.strictEqual(settings.environment, "Production")
      assert.strictEqual(settings.api.host, "0.0.0.0")
      assert.isFalse(settings.api.swagger.enabled)
      assert.isFalse(settings.telemetry.prometheus.enabled)
      assert.strictEqual(settings.logging.format, "json")
    })
  )

  it.effect("make the public URL of the port that is set", () =>
    Effect.gen(function* () {
      const settings = yield* settingsFrom({ arguments: ["--Api:Port=8080"] })
      assert.strictEqual(settings.api.publicUrl, "http://127.0.0.1:8080")
      assert.strictEqual(settings.sources.get("Api:PublicUrl"), "default")
    })
  )
})

describe("environment name", () => {
  it("is APP_ENVIRONMENT, else a NODE_ENV of ours, else Development", () => {
    assert.strictEqual(name({}), "Development")
    assert.strictEqual(name({ NODE_ENV: "production" }), "Production")
    assert.strictEqual(name({ NODE_ENV: "test" }), "Development")
    assert.strictEqual(name({ APP_ENVIRONMENT: "", NODE_ENV: "PRODUCTION" }), "Production")
    assert.strictEqual(name({ APP_ENVIRONMENT: "development", NODE_ENV: "production" }), "Development")
  })

  it.effect("is refused by its value, together with the other faults", () =>
    Effect.gen(function* () {
      const faults = yield* faultsOf({ environment: { APP_ENVIRONMENT: "Test" }, arguments: ["--Api:Port=x"] })
      assert.deepStrictEqual(faults, [
        [undefined, "environment APP_ENVIRONMENT", '"Test" is neither Development nor Production'],
        ["Api:Port", "command line", '"x" is not a whole number from 0 to 65535']
      ])
    })
  )
})

describe("layers", () => {
  it.effect("give the later one, and say which it was", () =>
    Effect.gen(function* () {
      const settings = yield* settingsFrom({
        files: {
          "appsettings.json": json({ Api: { Port: 1, MaxBodyBytes: 2048, RateLimit: { PerMinute: 7 } } }),
          "appsettings.Production.json": json({ "Api:Port": 2, api: { "rateLimit:perMinute": "8" } }),
          "appsettings.Development.json": json({ Api: { Port: 3 } })
        },
        environment: { APP_ENVIRONMENT: "Production", API__PORT: "4", api__swagger__enabled: "TRUE" },
        arguments: ["--aPI:pORT", "5"]
      })
      assert.strictEqual(settings.api.port, 5)
      const sourceOf = (key: string) => settings.sources.get(key)
      assert.strictEqual(sourceOf("Api:Port"), "command line")
      assert.strictEqual(settings.api.maxBodyBytes, 2048)
      assert.strictEqual(sourceOf("Api:MaxBodyBytes"), "appsettings.json")
      assert.strictEqual(settings.api.rateLimit.perMinute, 8)
      assert.strictEqual(sourceOf("Api:RateLimit:PerMinute"), "appsettings.Production.json")
      assert.isTrue(settings.api.swagger.enabled)
      assert.strictEqual(sourceOf("Api:Swagger:Enabled"), "environment api__swagger__enabled")
    })
  )

  const keys = [
    "Api:MaxBodyBytes",
    "Api:RateLimit:PerMinute",
    "Api:RateLimit:AnonymousPerMinute",
    "Sessions:IdleTimeoutSeconds"
  ] as const
  const written = Schema.Struct({
    key: Schema.Literals(keys),
    layer: Schema.Literals([0, 1, 2, 3]),
    value: Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 2000, maximum: 9000 }))),
    spelling: Schema.Literals(["as declared", "lower", "upper"])
  })
  it.effect.prop("give the highest that sets a key, for any keys in any layers", [Schema.Array(written)], ([all]) =>
    Effect.gen(function* () {
      const once = [...new Map(all.map((one) => [`${one.layer} ${one.key}`, one])).values()]
      const layer = (index: number, separator: string) =>
        Object.fromEntries(
          once
            .filter((one) => one.layer === index)
            .map(({ key, value, spelling }) => {
              const name = key.replaceAll(":", separator)
              const spelt = { "as declared": name, lower: name.toLowerCase(), upper: name.toUpperCase() }[spelling]
              return [spelt, String(value)]
            })
        )
      const settings = yield* settingsFrom({
        files: {
          "appsettings.json": json(layer(0, ":")),
          "appsettings.Development.json": json(layer(1, ":"))
        },
        environment: layer(2, "__"),
        arguments: Object.entries(layer(3, ":")).flatMap(([key, value]) => [`--${key}`, value])
      })
      const described = new Map(settings.describe().map((one) => [one.key, one]))
      const names = ["appsettings.json", "appsettings.Development.json", "environment", "command line"]
      for (const key of keys) {
        const highest = once.filter((one) => one.key === key).toSorted((a, b) => b.layer - a.layer)[0]
        if (highest === undefined) assert.strictEqual(described.get(key)?.source, "default")
        else {
          assert.strictEqual(described.get(key)?.value, String(highest.value))
          assert.isTrue(described.get(key)?.source.startsWith(names[highest.layer] ?? ""))
        }
      }
    })
  )

  it.effect("skip what is empty or null", () =>
    Effect.gen(function* () {
      const settings = yield* settingsFrom({
        files: {
          "appsettings.json": json({ Api: { Port: 1 }, Logging: {}, Redis: null }),
          "appsettings.Development.json": json({ Api: { Port: null } })
        },
        environment: { Api__Port: "", DATABASE_URL: "" },
        arguments: ["--Api:Port="]
      })
      assert.strictEqual(settings.api.port, 1)
      assert.isTrue(Option.isNone(settings.database.url))
    })
  )

  it.effect("refuse a key that one of them sets twice", () =>
    Effect.gen(function* () {
      const faults = yield* faultsOf({
        files: { "appsettings.json": json({ Api: { Port: 1 }, "api:port": 2 }) },
        environment: { Api__Host: "a", API__HOST: "b" }
      })
      assert.deepStrictEqual(faults, [
        ["Api:Port", "appsettings.json", "is set more than once"],
        ["Api:Host", "environment Api__Host and environment API__HOST", "is set more than once"]
      ])
    })
  )
})

describe("environment variables", () => {
  it.effect("of others are left alone", () =>
    settingsFrom({
      environment: {
        HOME: "/",
        npm_config_yes: "1",
        API: "x",
        Other__X: "1",
        Api_Port: "x",
        __Api__Port: "x",
        a__b: ""
      }
    })
  )

  it.effect("have aliases that lose against the full name", () =>
    Effect.gen(function* () {
      const aliases = {
        DATABASE_URL: "postgres://alias",
        APPLICATION_MANAGER_API_KEY: "alias",
        OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318",
        OTEL_SEMCONV_STABILITY_OPT_IN: "http/dup, gen_ai_latest_experimental"
      }
      const aliased = yield* settingsFrom({ environment: aliases })
      assert.strictEqual(Redacted.value(Option.getOrThrow(aliased.database.url)), "postgres://alias")
      assert.strictEqual(Redacted.value(Option.getOrThrow(aliased.api.apiKey)), "alias")
      assert.strictEqual(Option.getOrThrow(aliased.telemetry.otlp.endpoint).host, "localhost:4318")
      assert.deepStrictEqual(aliased.telemetry.semconvStabilityOptIn, ["http/dup", "gen_ai_latest_experimental"])
      assert.strictEqual(aliased.sources.get("Database:Url"), "environment DATABASE_URL")

      const named = yield* settingsFrom({
        files: { "/run/key": "from a file\n".replaceAll(" ", "-") },
        environment: { ...aliases, database__url: "postgres://full", Api__ApiKey__File: "/run/key" }
      })
      assert.strictEqual(Redacted.value(Option.getOrThrow(named.database.url)), "postgres://full")
      assert.strictEqual(Redacted.value(Option.getOrThrow(named.api.apiKey)), "from-a-file")

      const empty = yield* settingsFrom({ environment: { ...aliases, Database__Url: "" } })
      assert.strictEqual(empty.sources.get("Database:Url"), "environment DATABASE_URL")
    })
  )

  it.effect("win over files also by their alias", () =>
    Effect.gen(function* () {
      const settings = yield* settingsFrom({
        files: { "appsettings.json": json({ Api: { ApiKey: "file" } }) },
        environment: { APPLICATION_MANAGER_API_KEY: "alias" }
      })
      assert.strictEqual(Redacted.value(Option.getOrThrow(settings.api.apiKey)), "alias")
    })
  )
})

describe("command line", () => {
  it.effect("takes --Key=value, --Key value and bare flags; the last of a key counts", () =>
    Effect.gen(function* () {
      const settings = yield* settingsFrom({
        arguments: [
          "--Api:RateLimit:Enabled",
          "false",
          "--Api:Port",
          "1",
          "--Api:Swagger:Enabled",
          "--Api:PORT=2",
          "--Database:Directory=a=b",
          "--Api:ApiKey",
          "--key",
          "--Telemetry:Prometheus:Enabled"
        ],
        environment: { APP_ENVIRONMENT: "Production" }
      })
      assert.strictEqual(settings.api.port, 2)
      assert.isFalse(settings.api.rateLimit.enabled)
      assert.isTrue(settings.api.swagger.enabled)
      assert.isTrue(settings.telemetry.prometheus.enabled)
      assert.strictEqual(settings.database.directory, "a=b")
      assert.strictEqual(Redacted.value(Option.getOrThrow(settings.api.apiKey)), "--key")
    })
  )

  it.effect("refuses stray words without quoting them, missing values and unknown keys", () =>
    Effect.gen(function* () {
      const faults = yield* faultsOf({ arguments: ["--Api:ApiKey=", "hunter2", "-p", "--Other:X=1", "--Api:Port"] })
      assert.deepStrictEqual(faults, [
        [undefined, "command line", "argument 2 is not --Key=value"],
        [undefined, "command line", "argument 3 is not --Key=value"],
        ["Api:Port", "command line", "needs a value"],
        ["Other:X", "command line", "unknown key"]
      ])
    })
  )
})

describe("files", () => {
  it.effect("that have a member twice, in whatever case, are named", () =>
    Effect.gen(function* () {
      for (const text of ['{"Api":{"Port":1,"Port":2}}', '{"api":{"Port":1},"Api":{"Port":2}}']) {
        const error = yield* Effect.flip(settingsFrom({ files: { "appsettings.json": text } }))
        assert.match(JSON.stringify(error.faults), /appsettings\.json","reason":"has the member (?:Port|Api) twice"/)
      }
    })
  )

  it.effect("that are no JSON are named with line and column, and not quoted", () =>
    Effect.gen(function* () {
      const text = '{\n  "Api": {\n    "ApiKey": hunter2\n  }\n}'
      const error = yield* Effect.flip(settingsFrom({ files: { "appsettings.json": text } }))
      assert.deepStrictEqual(error.faults, [
        { source: "appsettings.json, line 3, column 15", reason: "malformed JSON" }
      ])
      assert.notInclude(error.message, "hunter2")
    })
  )

  it("are located at their first fault", () => {
    assert.strictEqual(jsonFaultOffset('{"a": 1, // no\n}'), 9)
    assert.strictEqual(jsonFaultOffset('{"a": 1,}'), 8)
    assert.strictEqual(jsonFaultOffset("[1 2]"), 3)
    assert.strictEqual(jsonFaultOffset("[1,]"), 3)
    assert.strictEqual(jsonFaultOffset('{"a" 1}'), 5)
    assert.strictEqual(jsonFaultOffset('{"a": 01}'), 7)
    assert.strictEqual(jsonFaultOffset('{"a": "x\ny"}'), 8)
    assert.strictEqual(jsonFaultOffset("{} {}"), 3)
    assert.strictEqual(jsonFaultOffset("[1}"), 2)
    assert.strictEqual(jsonFaultOffset('{"a": [1, '), 10)
    assert.strictEqual(jsonFaultOffset(" "), 1)
    assert.strictEqual(jsonFaultOffset("\uFEFF{}"), 0)
  })

  it.prop(
    "of valid JSON have no fault, and an odd character is found where it stands",
    [Schema.Json, Schema.Int],
    ([value, seed]) => {
      const text = JSON.stringify(value, null, 2)
      assert.strictEqual(jsonFaultOffset(text), text.length)
      const lines = text.split("\n")
      const index = Math.abs(seed) % lines.length
      const before = [...lines.slice(0, index), ""].join("\n") + (/^ */.exec(lines[index] ?? "")?.[0] ?? "")
      assert.strictEqual(jsonFaultOffset(`${before}@${text.slice(before.length)}`), before.length)
    }
  )

  it.effect("that cannot be read are named", () =>
    Effect.gen(function* () {
      const denied = systemError({ _tag: "PermissionDenied", module: "FileSystem", method: "readFileString" })
      const error = yield* readSettings({}, {}, { arguments: [], environment: {} }).pipe(
        Effect.provide(FileSystem.layerNoop({ readFileString: () => Effect.fail(denied) })),
        Effect.flip
      )
      assert.deepStrictEqual(error.faults, [
        { source: "appsettings.json", reason: "cannot be read (PermissionDenied)" },
        { source: "appsettings.Development.json", reason: "cannot be read (PermissionDenied)" }
      ])
    })
  )

  it.effect("hold an object of known sections; lists hold plain values", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* faultsOf({ files: { "appsettings.json": "[]" } }), [
        [undefined, "appsettings.json", "is not a JSON object"]
      ])
      const text = json({ Other: {}, Serilog: { Level: "x" }, Api: { TrustedProxies: [{ a: 1 }], Port: ["1"] } })
      assert.deepStrictEqual(yield* faultsOf({ files: { "appsettings.Development.json": text } }), [
        ["Api:TrustedProxies", "appsettings.Development.json", "a list holds text, numbers, true and false"],
        ["Other", "appsettings.Development.json", "unknown key"],
        ["Serilog:Level", "appsettings.Development.json", "unknown key; did you mean Logging:Level?"],
        ["Api:Port", "appsettings.Development.json", "takes one value, not a list"]
      ])
    })
  )
})

describe("lists", () => {
  it.effect("are JSON arrays, comma-separated or numbered, and replace each other as a whole", () =>
    Effect.gen(function* () {
      const files = { "appsettings.json": json({ Api: { TrustedProxies: ["10.0.0.0/8", "fd00::/8", "192.0.2.1"] } }) }
      assert.deepStrictEqual(yield* proxies({ files }), ["10.0.0.0/8", "fd00::/8", "192.0.2.1/32"])
      const environment = { Api__TrustedProxies: " 10.1.0.0/16 , ::1," }
      assert.deepStrictEqual(yield* proxies({ files, environment }), ["10.1.0.0/16", "::1/128"])
      const numbered = { Api__TrustedProxies__1: "10.2.0.0/16", Api__TrustedProxies__0: "10.1.0.0/16" }
      assert.deepStrictEqual(yield* proxies({ files, environment: numbered }), ["10.1.0.0/16", "10.2.0.0/16"])
      const words = ["--Api:TrustedProxies:0", "10.3.0.0/16"]
      assert.deepStrictEqual(yield* proxies({ files, environment, arguments: words }), ["10.3.0.0/16"])
      const none = { ...files, "appsettings.Development.json": json({ Api: { TrustedProxies: [] } }) }
      assert.deepStrictEqual(yield* proxies({ files: none }), [])
    })
  )

  it.effect("refuse gaps, two forms at once and items of the wrong kind", () =>
    Effect.gen(function* () {
      const gap = yield* faultsOf({ environment: { Api__TrustedProxies__0: "::1", Api__TrustedProxies__2: "::2" } })
      assert.deepStrictEqual(gap[0]?.[2], "its items are numbered 0, 1, 2 and so on, each once")
      const both = yield* faultsOf({ environment: { Api__TrustedProxies__0: "::1", Api__TrustedProxies: "::2" } })
      assert.deepStrictEqual(both[0]?.[2], "is given in more than one form")
      const wrong = yield* faultsOf({ arguments: ["--Api:TrustedProxies", "::1,10.0.0.1/8"] })
      assert.deepStrictEqual(wrong, [
        ["Api:TrustedProxies", "command line", '"::1,10.0.0.1/8" is not a list, each item a network such as 10.0.0.0/8']
      ])
    })
  )
})

describe("secrets", () => {
  const secret = "correct-horse-battery"

  it.effect("come from files too, without the newline at the end", () =>
    Effect.gen(function* () {
      const files = { "/run/a": `${secret}\r\n`, "/run/b": `${secret}\n\n` }
      const fromVariable = yield* settingsFrom({ files, environment: { Api__ApiKey__File: "/run/a" } })
      assert.strictEqual(Redacted.value(Option.getOrThrow(fromVariable.api.apiKey)), secret)
      assert.strictEqual(fromVariable.sources.get("Api:ApiKey"), "environment Api__ApiKey__File")
      const fromWords = yield* settingsFrom({ files, arguments: ["--api:apikey:FILE", "/run/a"] })
      assert.strictEqual(Redacted.value(Option.getOrThrow(fromWords.api.apiKey)), secret)
      const twoNewlines = yield* faultsOf({ files, environment: { Api__ApiKey__File: "/run/b" } })
      assert.strictEqual(twoNewlines.length, 1)
    })
  )

  it.effect("name the file that cannot be used", () =>
    Effect.gen(function* () {
      const faults = yield* faultsOf({
        files: { "/run/empty": "\n" },
        environment: { Api__ApiKey__File: "/run/none", Database__Url__File: "/run/empty" }
      })
      assert.deepStrictEqual(faults, [
        ["Api:ApiKey", "environment Api__ApiKey__File", "cannot read /run/none (NotFound)"],
        ["Database:Url", "environment Database__Url__File", "/run/empty is empty"]
      ])
    })
  )

  it.effect("are given as text or as a file, not both; only secrets come from files", () =>
    Effect.gen(function* () {
      const environment = { Api__ApiKey: secret, Api__ApiKey__File: "/run/a", Api__Host__File: "/run/a" }
      assert.deepStrictEqual(yield* faultsOf({ files: { "/run/a": secret }, environment }), [
        ["Api:Host:File", "environment Api__Host__File", "unknown key; did you mean Api:Host?"],
        ["Api:ApiKey", "environment Api__ApiKey and environment Api__ApiKey__File", "is given in more than one form"]
      ])
      const overruled = yield* settingsFrom({
        environment: { Api__ApiKey__File: "/none" },
        arguments: ["--Api:ApiKey=a"]
      })
      assert.strictEqual(overruled.sources.get("Api:ApiKey"), "command line")
    })
  )

  it.effect("stay out of errors, descriptions and printed settings", () =>
    Effect.gen(function* () {
      const wrong = yield* Effect.flip(
        settingsFrom({
          files: { "appsettings.json": json({ Security: { EncryptionKey: secret }, Redis: { Url: [secret] } }) },
          environment: {
            Database__Url: secret,
            Api__ApiKey: `${secret} ${secret}`,
            Telemetry__Otlp__Headers: secret,
            Telemetry__Otlp__Endpoint: `http://user:${secret}@host`,
            Api__Port: "x"
          }
        })
      )
      assert.strictEqual(wrong.faults.length, 7)
      assert.notInclude(wrong.message, secret)
      assert.notInclude(json(wrong), secret)

      const right = yield* settingsFrom({
        environment: { Api__ApiKey: secret, Database__Url: `postgres://u:${secret}@h/d` }
      })
      assert.notInclude(json(right), secret)
      assert.notInclude(json(right.describe()), secret)
    })
  )
})

describe("values", () => {
  it.effect.each([
    ["Api:Swagger:Enabled", "FALSE", "false"],
    ["Api:Port", "0", "0"],
    ["Api:Port", "65535", "65535"],
    ["Database:MaxConnections", "1000", "1000"],
    ["TrialUsers:TrialDays", "3650", "3650"],
    ["Audit:RetentionDays", "36500", "36500"],
    ["Logging:Level", "dEBUG", "Debug"],
    ["Logging:Format", "JSON", "json"],
    ["Api:PublicUrl", "https://Apps.example.com:443/manager//", "https://apps.example.com/manager"],
    [
      "Api:Cors:AllowedOrigins",
      "https://a.example/, http://localhost:5173",
      "https://a.example, http://localhost:5173"
    ],
    ["Telemetry:Otlp:Headers", "authorization=Bearer%20x,b=", "***"],
    ["Redis:Url", "rediss://cache:6380", "***"],
    ["Database:Url", "postgresql://h/d?sslmode=require", "***"],
    ["Security:EncryptionKey", Buffer.alloc(32, 7).toString("base64"), "***"]
  ] as const)("accept %s", ([key, value, shown]) =>
    Effect.gen(function* () {
      assert.strictEqual(yield* accepts(key, value), shown)
    })
  )

  it.effect.each([
    ["Api:Swagger:Enabled", "yes"],
    ["Api:Swagger:Enabled", "1"],
    ["Api:Port", "65536"],
    ["Api:Port", "-1"],
    ["Api:Port", "1.5"],
    ["Api:Port", "80 "],
    ["Api:Port", "0x50"],
    ["Api:Port", "1e3"],
    ["Database:MaxConnections", "1"],
    ["Database:MaxConnections", "1001"],
    ["TrialUsers:TrialDays", "0"],
    ["Audit:RetentionDays", "36501"],
    ["Logging:Level", "Verbose"],
    ["Api:PublicUrl", "ftp://host"],
    ["Api:PublicUrl", "localhost:80"],
    ["Api:PublicUrl", "https://host/?a"],
    ["Api:PublicUrl", "https://host/#a"],
    ["Api:Cors:AllowedOrigins", "*"],
    ["Api:Cors:AllowedOrigins", "https://a.example/path"],
    ["Api:TrustedProxies", "10.0.0.0/33"],
    ["Telemetry:Otlp:Headers", "authorization"],
    ["Redis:Url", "http://cache"],
    ["Database:Url", "mysql://h/d"],
    ["Security:EncryptionKey", Buffer.alloc(31).toString("base64")],
    ["Security:EncryptionKey", "not base64 at all"]
  ] as const)("refuse %s", ([key, value]) =>
    Effect.gen(function* () {
      const faults = yield* refuses(key, value)
      assert.deepStrictEqual(
        faults.map(([name, source]) => [name, source]),
        [[key, "command line"]]
      )
    })
  )

  it.effect("hold the bytes of the key", () =>
    Effect.gen(function* () {
      const bytes = Uint8Array.from({ length: 32 }, (_, index) => index)
      const text = Buffer.from(bytes).toString("base64")
      const { security } = yield* settingsFrom({ environment: { Security__EncryptionKey: text } })
      assert.deepStrictEqual(Uint8Array.from(Redacted.value(Option.getOrThrow(security.encryptionKey))), bytes)
    })
  )
})

describe("unknown keys", () => {
  it.effect.each([
    ["Api:Prot", "; did you mean Api:Port?"],
    ["api:ratelimit:perMin", "; did you mean Api:RateLimit:PerMinute?"],
    ["Databse:Url", "; did you mean Database:Url?"],
    ["Api:Swagger", "; did you mean Api:Swagger:Enabled?"],
    ["Api:Port:0", "; did you mean Api:Port?"],
    ["Api:", ""],
    ["Swagger:Enabled", "; did you mean Api:Swagger:Enabled?"],
    ["Other:Place:Lock", ""],
    ["Nothing:Of:The:Kind", ""]
  ] as const)("%s", ([key, suggestion]) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* faultsOf({ arguments: [`--${key}=hunter2`] }), [
        [key, "command line", `unknown key${suggestion}`]
      ])
    })
  )

  it.effect("say the variable and come all at once, before the wrong values", () =>
    Effect.gen(function* () {
      const environment = { Api__Prot: "1", Api__Port: "x", Logging__Level: "loud" }
      const error = yield* Effect.flip(settingsFrom({ environment }))
      assert.strictEqual(
        error.message,
        [
          "The settings cannot be used:",
          "Api:Prot (environment Api__Prot): unknown key; did you mean Api:Port?",
          'Api:Port (environment Api__Port): "x" is not a whole number from 0 to 65535',
          'Logging:Level (environment Logging__Level): "loud" is not one of Trace, Debug, Info, Warn, Error, None'
        ].join("\n  ")
      )
    })
  )
})

describe("for people", () => {
  it.effect("every setting is described", () =>
    Effect.gen(function* () {
      const settings = yield* settingsFrom({ environment: { Api__ApiKey: "a" }, arguments: ["--Api:Port=1"] })
      const [port, , key] = settings.describe()
      assert.deepStrictEqual(port, {
        key: "Api:Port",
        value: "1",
        source: "command line",
        description: "Port to listen on; 0 takes any free one"
      })
      assert.deepStrictEqual([key?.value, key?.source], ["***", "environment Api__ApiKey"])
      assert.strictEqual(settings.describe().find((one) => one.key === "Redis:Url")?.value, null)
      assert.deepStrictEqual(
        settings.describe().map((one) => one.key),
        [...settings.sources.keys()]
      )
    })
  )

  it.effect("the Markdown table has a row of four cells for each", () =>
    Effect.gen(function* () {
      const rows = settingsMarkdown.split("\n")
      assert.strictEqual(rows.length, 2 + (yield* settingsFrom()).describe().length)
      assert.isTrue(rows.every((row) => row.split("|").length === 6))
      assert.include(settingsMarkdown, "`http://127.0.0.1:<Api:Port>`")
      assert.include(settingsMarkdown, "also `DATABASE_URL`")
    })
  )
})

describe("configuration provider", () => {
  it.effect("serves a whole section to a schema", () =>
    Effect.gen(function* () {
      const declarations = {
        "A:B": optional(text, ""),
        "A:List": optional(list(text), "")
      }
      const { given, faults } = yield* mergeLayers(declarations, [
        fromJson("x.json", json({ a: { b: 1, list: ["p", "q"] } }))
      ])
      assert.deepStrictEqual(faults, [])
      const provider = ConfigProvider.fromUnknown(nested([...given].map(([key, { value }]) => [key, value])))
      const schema = Schema.Struct({ B: Schema.FiniteFromString, List: Schema.Array(Schema.String) })
      assert.deepStrictEqual(yield* Config.schema(schema, "A").parse(provider), { B: 1, List: ["p", "q"] })
      assert.strictEqual(yield* Config.nested(Config.String("B"), "A").parse(provider), "1")
      assert.isTrue(Option.isNone(yield* Config.option(Config.String("Other")).parse(provider)))
      assert.deepStrictEqual((yield* provider.load([]))?._tag, "Record")
    }).pipe(Effect.provide(FileSystem.layerNoop({})))
  )
})

describe("layer", () => {
  it.effect("in memory reads what is given alone", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* Settings).api.port, 1)
    }).pipe(Effect.provide(Settings.layerMemory({ arguments: ["--Api:Port=1"] })))
  )

  it("of the process reads its arguments, variables and working directory", async () => {
    const directory = await fs.mkdtemp(path.join(tmpdir(), "settings-"))
    try {
      await fs.writeFile(
        path.join(directory, "appsettings.json"),
        json({ Api: { Port: 1 }, TrialUsers: { TrialDays: 3 } })
      )
      await fs.writeFile(path.join(directory, "appsettings.Production.json"), `\uFEFF${json({ Api: { Port: 2 } })}`)
      await fs.writeFile(path.join(directory, "key"), "a-key\n")
      await fs.writeFile(
        path.join(directory, "main.mjs"),
        `import { Effect } from ${json(import.meta.resolve("effect"))}
         import { Settings } from ${json(new URL("../../../src/platform/settings/settings.ts", import.meta.url).href)}
         const program = Effect.map(Settings, (settings) => [settings.trialUsers.trialDays, ...settings.describe().slice(0, 3).map((one) => one.source)])
         console.log(JSON.stringify(await Effect.runPromise(program.pipe(Effect.provide(Settings.layer)))))`
      )
      const { stdout } = await promisify(execFile)(process.execPath, ["main.mjs", "--Api:Host", "::1"], {
        cwd: directory,
        env: { PATH: process.env.PATH, APP_ENVIRONMENT: "Production", Api__ApiKey__File: "key" }
      })
      assert.deepStrictEqual(JSON.parse(stdout), [
        3,
        "appsettings.Production.json",
        "command line",
        "environment Api__ApiKey__File"
      ])
    } finally {
      await fs.rm(directory, { recursive: true })
    }
  })
})
