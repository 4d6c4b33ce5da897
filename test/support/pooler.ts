import { Effect, Redacted } from "effect"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { type TestDatabase } from "./database.ts"
import { accepts, freePort, serverProcess } from "./server-process.ts"
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

/** A PgBouncer on a database; clients need no password, and it connects as the database's user. */
export const makePooler = Effect.fnUntraced(function* (database: TestDatabase, first: PoolerSettings = {}) {
  const user = accountFor(database)
  const directory = yield* Effect.acquireRelease(
    Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), "pooler-"))),
    (made) => Effect.sync(() => fs.rmSync(made, { recursive: true, force: true }))
  )
  fs.chmodSync(directory, 0o755)
  const port = yield* freePort
  const file = path.join(directory, "pgbouncer.ini")
  const write = (settings: PoolerSettings) => {
    const all = {
      listen_addr: "127.0.0.1",
      listen_port: port,
      unix_socket_dir: "",
      auth_type: "any",
      pool_mode: "session",
      ignore_startup_parameters: startupParameters.join(),
      server_tls_sslmode: "disable",
      ...settings
    }
    const { host, password, port: serverPort, username } = database
    const target = `host=${host} port=${serverPort} dbname=${database.database} user=${username} password=${Redacted.value(password)}`
    const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}`)
    fs.writeFileSync(file, `[databases]\n${database.database} = ${target}\n[pgbouncer]\n${lines.join("\n")}\n`)
  }
  write(first)
  const child = yield* serverProcess(program ?? "", [file], user)
  yield* eventually(accepts(port), (isUp) => isUp)
  const through: TestDatabase = { ...database, host: "127.0.0.1", port }
  return {
    database: through,
    /** Takes other settings for the connections from now on. */
    reconfigure: (settings: PoolerSettings) =>
      Effect.sync(() => {
        write(settings)
        child.kill("SIGHUP")
      })
  }
})
