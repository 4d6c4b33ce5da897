import { assert, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as net from "node:net"
import { serviceVersion } from "../../src/platform/runtime/version.ts"
import { settingsTable } from "../../src/platform/settings/settings.ts"
import { cached, urlOf } from "../support/command.ts"
import { makeEmptyDatabase, type TestDatabase } from "../support/database.ts"
import { makeDirectory, project, untilGone } from "../support/embedded-postgres.ts"
import { hasPooler, makePooler } from "../support/pooler.ts"
import { startProcess, untilDatabaseGone } from "../support/service-process.ts"
import { encryptionKey } from "../support/service.ts"
import { asSuperuser, countOf } from "../support/statements.ts"
import { eventually } from "../support/waiting.ts"

/** Runs a program of the project; answers all that it wrote, once it ended, and its exit code. */
const ran = (words: ReadonlyArray<string>, environment: Record<string, string>) =>
  Effect.callback<{ readonly output: string; readonly code: number | null }>((resume) => {
    const child = spawn(process.execPath, [...cached, ...words], {
      cwd: project,
      env: { PATH: process.env.PATH, Logging__Level: "Error", ...environment }
    })
    let output = ""
    child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()))
    child.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()))
    child.once("close", (code) => resume(Effect.succeed({ output, code })))
  })

it.live("a port that is taken is told in one line that names the settings", () =>
  Effect.gen(function* () {
    const directory = yield* makeDirectory()
    const taken = yield* Effect.acquireRelease(
      Effect.callback<net.Server>((resume) => {
        const server = net.createServer().listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
      }),
      (server) => Effect.sync(() => server.close())
    )
    const { port } = taken.address() as net.AddressInfo
    const { code, output } = yield* ran(["src/main.ts"], {
      Api__Port: String(port),
      Database__Directory: directory
    })
    assert.match(output, /^The service cannot listen \(Api:Host, Api:Port\): [^\n]*EADDRINUSE[^\n]*\n$/u)
    assert.include(output, `choose another port: Api__Port=${port + 1} npm start\n`)
    assert.strictEqual(code, 1)
    // Nothing was made: no database, and so no key that would be lost.
    assert.deepStrictEqual(fs.readdirSync(directory), [])
  }).pipe(Effect.scoped)
)

it.live("an address that is not of this machine is told in one line, with what to set", () =>
  Effect.gen(function* () {
    const directory = yield* makeDirectory()
    const { code, output } = yield* ran(["src/main.ts"], {
      Api__Host: "203.0.113.7",
      Api__Port: "0",
      Database__Directory: directory
    })
    assert.match(output, /^The service cannot listen \(Api:Host, Api:Port\): [^\n]*EADDRNOTAVAIL[^\n]*\n$/u)
    assert.include(output, "Name an address of this machine: Api__Host=127.0.0.1 npm start\n")
    assert.strictEqual(code, 1)
  }).pipe(Effect.scoped)
)

for (const [how, settings, reason] of [
  [
    "refuses what the service sends",
    { ignore_startup_parameters: "" },
    /^The database \(Database:Url\) is behind a connection pooler/u
  ],
  ["drops the role", {}, /^A connection to the database \(Database:Url\) was refused: its role is \w+ instead of/u]
] as const) {
  it.live.runIf(hasPooler)(`a pooler that ${how} is named in one line`, () =>
    Effect.gen(function* () {
      const pooler = yield* makePooler(yield* makeEmptyDatabase, settings)
      for (const command of ["src/main.ts", "src/cli/ledger-verify.ts"]) {
        const { code, output } = yield* ran([command], {
          Api__Port: "0",
          Database__Url: urlOf(pooler.database),
          Security__EncryptionKey: encryptionKey
        })
        assert.match(output, reason)
        assert.match(output, /^[^\n]+To mend it, [^\n]+\n$/u)
        assert.isAbove(code ?? 0, 0)
      }
    }).pipe(Effect.scoped)
  )
}

for (const [when, sign] of [
  ["while it starts", "Embedded PostgreSQL started"],
  ["while it serves", "serves on"]
] as const) {
  it.live.runIf(process.platform !== "win32")(
    `the end of the shell that npm runs the start in ends the service: ${when}`,
    () =>
      Effect.gen(function* () {
        const directory = yield* makeDirectory()
        let output = ""
        const shell = yield* Effect.acquireRelease(
          Effect.sync((): ChildProcess => {
            const child = spawn("/bin/sh", ["-c", `"${process.execPath}" ${cached.join(" ")} src/main.ts; :`], {
              cwd: project,
              // A group of its own, so that nothing of it stays when the test fails.
              detached: true,
              stdio: ["ignore", "pipe", "pipe"],
              env: {
                PATH: process.env.PATH,
                Api__Port: "0",
                Database__Directory: directory,
                npm_lifecycle_event: "start",
                Logging__Level: "Info",
                Logging__Format: "json"
              }
            })
            child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()))
            return child
          }),
          ({ pid = 0 }) => Effect.ignore(Effect.try(() => process.kill(-pid, "SIGKILL")))
        )
        const closed = Effect.callback<void>((resume) => void shell.stdout?.once("close", () => resume(Effect.void)))
        yield* eventually(
          Effect.sync(() => output),
          (text) => text.includes(sign)
        )
        yield* Effect.all([closed, Effect.sync(() => shell.kill("SIGTERM"))], { concurrency: "unbounded" })
        yield* untilDatabaseGone(directory)
        yield* untilGone(shell.pid ?? 0)
      }).pipe(Effect.scoped)
  )
}

it.live(
  "Production prints JSON lines, no secret among them, and says what it lacks and how the first account is made",
  () =>
    Effect.gen(function* () {
      const directory = yield* makeDirectory()
      const settings = {
        APP_ENVIRONMENT: "Production",
        Api__Host: "127.0.0.1",
        Api__ApiKey: "",
        Logging__Level: "Info"
      }
      const service = yield* startProcess(directory, settings)
      yield* eventually(
        Effect.sync(() => service.output()),
        (output) => output.includes("npm run operator -- claim")
      )
      const { database } = service
      assert.strictEqual(yield* countOf(database, "operator_claims"), 0)
      const claim = yield* ran(["src/cli/operator.ts", "claim"], { ...settings, Database__Directory: directory })
      assert.match(claim.output, /^http:\/\/127\.0\.0\.1:11402\/console\/claim#amc_[\w-]{43}\n$/u)
      const claimed = yield* service.call("POST", "/api/auth/claim", {
        key: null,
        body: {
          token: claim.output.trim().split("#")[1],
          email: "ada@example.com",
          name: "Ada",
          password: "seven grey herons at dawn"
        }
      })
      assert.strictEqual(claimed.status, 201, claimed.text)
      const again = yield* ran(["src/cli/operator.ts", "claim"], { ...settings, Database__Directory: directory })
      assert.strictEqual(again.code, 1)
      assert.include(again.output, '\\"create\\" makes another one')

      yield* service.signal("SIGTERM")
      assert.strictEqual(yield* service.ended, 0)
      const lines = service.output().trimEnd().split("\n")
      for (const line of lines) assert.containsAllKeys(JSON.parse(line), ["timestamp", "level", "message"])
      for (const setting of ["Api:ApiKey", "Database:Url", "Api:PublicUrl"]) assert.include(service.output(), setting)
      assert.notMatch(service.output(), /am[stc]_|API key {6}/u)
      assert.include(lines.at(-1), "The service has stopped")
    }).pipe(Effect.scoped)
)

it.live(
  "mistakes with the database are one line each that names the setting, the cause and the remedy",
  () =>
    Effect.gen(function* () {
      const database = yield* makeEmptyDatabase
      const server = { ...database, database: "postgres" }
      const user = `limited_${database.database}`
      const drop = asSuperuser(database, (sql) => sql`DROP OWNED BY ${sql(user)}`).pipe(
        Effect.andThen(asSuperuser(server, (sql) => sql`DROP ROLE ${sql(user)}`))
      )
      yield* Effect.acquireRelease(
        asSuperuser(server, (sql) => sql`CREATE ROLE ${sql(user)} LOGIN PASSWORD 'right-password'`),
        () => drop
      )
      const asUser = { ...database, username: user, password: Redacted.make("right-password") }
      const url = urlOf(database)
      const mistakes: ReadonlyArray<readonly [TestDatabase | string, RegExp]> = [
        [
          { ...database, password: Redacted.make("wrong-password") },
          /The database \(Database:Url\) refused the user or the password \(password authentication failed[^\n]*To mend it, correct them in Database:Url\./u
        ],
        [
          { ...database, database: "no_such_database" },
          /The database \(Database:Url\) does not exist \([^\n]*no_such_database[^\n]*To mend it, create it/u
        ],
        [
          asUser,
          /The database user limited_\w+ \(Database:Url\) may not create tables [^\n]*ALTER DATABASE \w+ OWNER TO/u
        ],
        [
          url.replace(/:[^:@]*@/u, "@"),
          /The database \(Database:Url\) did not admit the user: [^\n]*correct user and password/u
        ],
        [url.replace(/:[^:@]*@/u, ":%zz@"), /\(Database:Url\): Invalid percent-encoding[^\n]*correct Database:Url/u],
        [`${url}?sslmode=require`, /\(Database:Url\): The server does not support TLS[^\n]*correct Database:Url/u]
      ]
      const commands = [
        ["Production", "src/main.ts"],
        ["Development", "src/main.ts"],
        ["Production", "src/cli/migrate.ts"],
        ["Development", "src/cli/operator.ts", "claim"]
      ] as const
      for (const [given, line] of mistakes) {
        for (const [environment, ...command] of given === mistakes[0]?.[0] ? commands : commands.slice(0, 1)) {
          const settings = {
            APP_ENVIRONMENT: environment,
            Api__Port: "0",
            Database__Url: typeof given === "string" ? given : urlOf(given),
            Security__EncryptionKey: encryptionKey
          }
          const { code, output } = yield* ran(command, settings)
          const [text = "", ...more] = output.split("\n")
          assert.deepStrictEqual(more, [""], output)
          assert.strictEqual(code, 1, output)
          assert.match(environment === "Production" ? JSON.parse(text).message : text, line, output)
          assert.notMatch(output, /(?:wrong|right)-password/u)
        }
      }
    }).pipe(Effect.scoped),
  120_000
)

it.live("--help and --version answer and start nothing", () =>
  Effect.gen(function* () {
    const help = yield* ran(["src/main.ts", "--help"], {})
    assert.match(help.output, /^Application Manager \d[^\n]*\n\nnpm start {2,}runs the service/u)
    for (const key of Object.keys(settingsTable)) assert.include(help.output, `  ${key}\n`)
    const { code, output } = yield* ran(["src/main.ts", "--version"], {})
    assert.deepStrictEqual([help.code, code, output], [0, 0, `${serviceVersion}\n`])
    for (const command of ["migrate", "ledger-verify", "insights-verify"]) {
      assert.deepStrictEqual(yield* ran([`src/cli/${command}.ts`, "--help"], {}), help, command)
    }
  })
)

it.live("a directory that cannot be the database's is told as such", () =>
  Effect.gen(function* () {
    const directory = yield* makeDirectory()
    fs.writeFileSync(`${directory}/file`, "")
    const { code, output } = yield* ran(["src/main.ts"], { Api__Port: "0", Database__Directory: `${directory}/file` })
    assert.match(output, /^The embedded database cannot be used \(Database:Directory\): [^\n]*\/file[^\n]*\n$/u)
    assert.strictEqual(code, 1)
  }).pipe(Effect.scoped)
)

it.live("a database of the history before the first release is refused in one line that says what to do", () =>
  Effect.gen(function* () {
    const database = yield* makeEmptyDatabase
    yield* asSuperuser(database, (sql) =>
      Effect.gen(function* () {
        yield* sql`CREATE TABLE effect_sql_migrations (
          migration_id integer PRIMARY KEY, created_at timestamptz NOT NULL DEFAULT now(), name text NOT NULL)`
        yield* sql`INSERT INTO effect_sql_migrations (migration_id, name)
          VALUES (1, 'create_application_role'), (2, 'create_tenants'), (40, 'typed_columns')`
      })
    )
    const { code, output } = yield* ran(["src/main.ts"], { Api__Port: "0", Database__Url: urlOf(database) })
    assert.match(output, /^The database \(Database:Url, [^\n]*set Database:Url to an empty database[^\n]*\n$/u)
    assert.strictEqual(code, 1)
    const tables = yield* asSuperuser(
      database,
      (sql) => sql`SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'`
    )
    assert.lengthOf(tables, 1)
  }).pipe(Effect.scoped)
)
