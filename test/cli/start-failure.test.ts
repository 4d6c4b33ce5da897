import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import * as net from "node:net"
import { cached, urlOf } from "../support/command.ts"
import { makeEmptyDatabase } from "../support/database.ts"
import { makeDirectory, project, untilGone } from "../support/embedded-postgres.ts"
import { startProcess, untilDatabaseGone } from "../support/service-process.ts"
import { asSuperuser } from "../support/statements.ts"
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
      Api__ApiKey: "0123456789012345678901234567890123456789",
      Database__Directory: directory
    })
    assert.match(output, /^The service cannot listen \(Api:Host, Api:Port\): [^\n]*EADDRINUSE[^\n]*\n$/u)
    assert.strictEqual(code, 1)
    yield* untilDatabaseGone(directory)
  }).pipe(Effect.scoped)
)

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

it.live("Production says at its start what it lacks: a service-account key, an own database, a public address", () =>
  Effect.gen(function* () {
    const directory = yield* makeDirectory()
    const service = yield* startProcess(directory, {
      APP_ENVIRONMENT: "Production",
      Api__Host: "127.0.0.1",
      Api__ApiKey: ""
    })
    yield* eventually(
      Effect.sync(() => service.output()),
      (output) => ["Api:ApiKey", "Database:Url", "Api:PublicUrl"].every((setting) => output.includes(setting))
    )
    assert.notMatch(service.output(), /API key {6}/u)
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
