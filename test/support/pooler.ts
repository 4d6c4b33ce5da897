import { type PgClient } from "@effect/sql-pg"
import { assert } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { applicationRole, migrate } from "../../src/platform/database/migrations.ts"
import { makeKey, makeTenant } from "./authority.ts"
import { type TestDatabase } from "./database.ts"
import { assertProblem } from "./problem.ts"
import { accepts, endOf, freePort, serverProcess } from "./server-process.ts"
import { type TestService } from "./service.ts"
import { asSuperuser } from "./statements.ts"
import { eventually } from "./waiting.ts"

const program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"].find((file) =>
  fs.existsSync(file)
)

export const hasPooler = program !== undefined
if (!hasPooler) {
  process.stdout.write("The tests of connection poolers are skipped: no PgBouncer was found (Debian: pgbouncer).\n")
}

/** What the service sends and PgBouncer knows nothing of. */
export const startupParameters = [
  "role",
  "row_security",
  "search_path",
  "default_transaction_isolation",
  "statement_timeout",
  "idle_in_transaction_session_timeout",
  "jit",
  "app.tenant_id",
  "tcp_keepalives_idle",
  "tcp_keepalives_interval",
  "tcp_keepalives_count"
]

/** PgBouncer refuses to run as root, so there it runs as who owns the server's socket. */
const accountFor = ({ host }: TestDatabase) => {
  if (process.getuid?.() !== 0) return {}
  const { gid, uid } = fs.statSync(host.startsWith("/") ? host : "/")
  return uid === 0 ? { uid: 65_534, gid: 65_534 } : { uid, gid }
}

type PoolerSettings = Readonly<Record<string, string | number>>

/** A PgBouncer on a database; clients need no password, and it connects as the database's user, unless `users` have theirs. */
export const makePooler = Effect.fnUntraced(function* (
  database: TestDatabase,
  first: PoolerSettings = {},
  users?: Readonly<Record<string, string>>
) {
  const user = accountFor(database)
  const directory = yield* Effect.acquireRelease(
    Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), "pooler-"))),
    (made) => Effect.sync(() => fs.rmSync(made, { recursive: true, force: true }))
  )
  fs.chmodSync(directory, 0o755)
  const port = yield* freePort
  const file = path.join(directory, "pgbouncer.ini")
  const userFile = path.join(directory, "userlist.txt")
  const userLines = Object.entries(users ?? {}).map(([name, password]) => `"${name}" "${password}"\n`)
  fs.writeFileSync(userFile, userLines.join(""))
  const write = (settings: PoolerSettings) => {
    const all = {
      listen_addr: "127.0.0.1",
      listen_port: port,
      unix_socket_dir: "",
      auth_type: "any",
      pool_mode: "session",
      ignore_startup_parameters: startupParameters.join(),
      server_tls_sslmode: "disable",
      ...settings,
      ...(users === undefined ? {} : { auth_file: userFile })
    }
    const { host, password, port: serverPort, username } = database
    const login = users === undefined ? ` user=${username} password=${Redacted.value(password)}` : ""
    const target = `host=${host} port=${serverPort} dbname=${database.database}${login}`
    const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}`)
    fs.writeFileSync(file, `[databases]\n${database.database} = ${target}\n[pgbouncer]\n${lines.join("\n")}\n`)
  }
  write(first)
  const begin = Effect.andThen(serverProcess(program ?? "", [file], user), (started) =>
    Effect.as(
      eventually(accepts(port), (isUp) => isUp),
      started
    )
  )
  let child = yield* begin
  const through: TestDatabase = { ...database, host: "127.0.0.1", port }
  return {
    database: through,
    url: `postgres://${through.username}@127.0.0.1:${port}/${through.database}`,
    kill: Effect.suspend(() => endOf(child)),
    startAgain: Effect.map(begin, (started) => void (child = started)),
    freeze: Effect.sync(() => child.kill("SIGSTOP")),
    thaw: Effect.sync(() => child.kill("SIGCONT")),
    /** Takes other settings for the connections from now on. */
    reconfigure: (settings: PoolerSettings) =>
      Effect.sync(() => {
        write(settings)
        child.kill("SIGHUP")
      })
  }
})

/** A user of the server with these settings by default, who may become the role of the service. */
export const makeLogin = (database: TestDatabase, settings: Readonly<Record<string, string>>) =>
  Effect.gen(function* () {
    const name = `pooled_${crypto.randomUUID().replaceAll("-", "")}`
    const login = { ...database, username: name, password: Redacted.make(name) }
    yield* Effect.acquireRelease(
      asSuperuser(database, (sql) =>
        Effect.all([
          sql.unsafe(`CREATE ROLE ${name} LOGIN PASSWORD '${name}'`),
          sql.unsafe(`GRANT ${applicationRole} TO ${name}`)
        ])
      ),
      () => asSuperuser(database, (sql) => Effect.all([end(sql, name), sql.unsafe(`DROP ROLE ${name}`)]))
    )
    const apply = Effect.forEach(Object.entries(settings), ([setting, value]) =>
      asSuperuser(database, (sql) => sql.unsafe(`ALTER ROLE ${name} SET ${setting} = ${value}`))
    )
    yield* apply
    return {
      login,
      apply,
      forget: (setting: string) => asSuperuser(database, (sql) => sql.unsafe(`ALTER ROLE ${name} RESET ${setting}`)),
      end: asSuperuser(database, (sql) => end(sql, name))
    }
  })

const end = (sql: PgClient.PgClient, user: string) =>
  sql`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = ${user}`

/** What the manual sets for the user of a pooler. */
export const settingsOfLogin = {
  role: applicationRole,
  search_path: "public, pg_temp",
  statement_timeout: "'30s'",
  idle_in_transaction_session_timeout: "'1min'",
  timezone: "'UTC'",
  jit: "off"
}

/** A cap of one tenant, and what another one gets who asks for it. */
export const makeCase = Effect.fnUntraced(function* (service: TestService["Service"]) {
  const [one, other] = [yield* makeTenant(service.database), yield* makeTenant(service.database)]
  const owner = yield* makeKey(service, ["budgets:*"], { tenantId: one })
  const stranger = yield* makeKey(service, ["budgets:*"], { tenantId: other })
  const body = { name: "monthly", unit: "usd", limit: 10, period: "month", mode: "hard" }
  const cap = yield* service.call("POST", "/api/budgets/caps", { key: owner.key, body })
  assert.strictEqual(cap.status, 201, cap.text)
  const path = `/api/budgets/caps/${cap.body.id}` as const
  return {
    read: service.call("GET", path, { key: owner.key }),
    steal: service.call("GET", path, { key: stranger.key }),
    remove: service.call("DELETE", path, { key: stranger.key })
  }
})

export const assertApart = Effect.fnUntraced(function* ({
  read,
  remove,
  steal
}: Effect.Success<ReturnType<typeof makeCase>>) {
  assertProblem(yield* steal, 404, "cap-not-found")
  assertProblem(yield* remove, 404, "cap-not-found")
  assert.strictEqual((yield* read).status, 200)
})

/** A PgBouncer that a service goes through, transaction by transaction; undefined where it is not installed. */
export const makeTransactionPooler = Effect.fnUntraced(function* (database: TestDatabase) {
  if (!hasPooler) return undefined
  yield* migrate(database)
  const { login } = yield* makeLogin(database, settingsOfLogin)
  return yield* makePooler(login, {
    pool_mode: "transaction",
    ignore_startup_parameters: "",
    default_pool_size: 10,
    server_login_retry: 1
  })
})

/** The settings of a service that goes through a pooler, if there is one. */
export const throughPooler = (pooler: { readonly url: string } | undefined) =>
  pooler === undefined ? {} : { Database__PoolUrl: pooler.url }
