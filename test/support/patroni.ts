import { Effect, Redacted } from "effect"
import { type ChildProcess } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { type TestDatabase } from "./database.ts"
import { isRoot, makeDirectory, processesWith } from "./embedded-postgres.ts"
import { makeForwarder } from "./forwarder.ts"
import { accepts, endOf, freePort, serverProcess } from "./server-process.ts"
import { asSuperuser } from "./statements.ts"
import { eventually } from "./waiting.ts"

const find = (name: string) =>
  ["/usr/bin", "/usr/sbin", "/usr/local/bin"].map((at) => `${at}/${name}`).find(fs.existsSync)
const programs = { patroni: find("patroni"), etcd: find("etcd"), haproxy: find("haproxy") }
const postgres = fs.globSync("/usr/lib/postgresql/*/bin").at(-1)

/** Whether the programs of a cluster are installed. */
export const hasPatroni = postgres !== undefined && Object.values(programs).every((program) => program !== undefined)
if (!hasPatroni) {
  process.stdout.write(
    "The tests of fail-overs are skipped: patroni, etcd, haproxy or PostgreSQL's server was not found (Debian: patroni etcd-server haproxy postgresql).\n"
  )
}

/** PostgreSQL does not run as root. */
const account = () => {
  if (!isRoot) return {}
  const [, , uid, gid] = /^postgres:.*$/m.exec(fs.readFileSync("/etc/passwd", "utf8"))?.[0].split(":") ?? []
  return { uid: Number(uid), gid: Number(gid) }
}

/** How the settings of Patroni are, but for what the tests shorten, in a manual of it: JSON is YAML. */
const settingsOf = (
  directory: string,
  name: string,
  ports: { readonly etcd: number; readonly rest: number; readonly postgres: number },
  reached: { readonly rest: number; readonly postgres: number }
) => ({
  scope: "application-manager",
  name,
  log: { dir: directory },
  restapi: { listen: `127.0.0.1:${ports.rest}`, connect_address: `127.0.0.1:${reached.rest}` },
  // Not where etcd says that it is, which is past the cable that the tests pull.
  etcd3: { host: `127.0.0.1:${ports.etcd}`, use_proxies: true },
  bootstrap: {
    dcs: {
      ttl: 5,
      loop_wait: 1,
      retry_timeout: 2,
      master_start_timeout: 0,
      synchronous_mode: true,
      postgresql: { use_pg_rewind: true, parameters: { max_connections: 100, wal_keep_size: "128MB" } }
    },
    initdb: [{ encoding: "UTF8" }, { locale: "C" }, "data-checksums"],
    pg_hba: ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust", "local all all trust"]
  },
  postgresql: {
    listen: `127.0.0.1:${ports.postgres}`,
    connect_address: `127.0.0.1:${reached.postgres}`,
    data_dir: `${directory}/data`,
    bin_dir: postgres,
    pgpass: `${directory}/pgpass`,
    parameters: { unix_socket_directories: directory },
    authentication: {
      superuser: { username: "postgres", password: "postgres" },
      replication: { username: "replicator", password: "replicator" },
      rewind: { username: "rewinder", password: "rewinder" }
    }
  }
})

/** One of the cluster's machines: PostgreSQL under Patroni, whose network can be cut. */
const makeNode = Effect.fnUntraced(function* (name: string, parent: string, etcdPort: number) {
  const directory = path.join(parent, name)
  const ports = { rest: yield* freePort, postgres: yield* freePort }
  const network = {
    etcd: yield* makeForwarder({ host: "127.0.0.1", port: etcdPort }),
    rest: yield* makeForwarder({ host: "127.0.0.1", port: ports.rest }),
    postgres: yield* makeForwarder({ host: "127.0.0.1", port: ports.postgres })
  }
  yield* Effect.sync(() => {
    fs.mkdirSync(directory)
    const reached = { rest: network.rest.port, postgres: network.postgres.port }
    const settings = settingsOf(directory, name, { ...ports, etcd: network.etcd.port }, reached)
    fs.writeFileSync(`${directory}/patroni.yml`, JSON.stringify(settings))
    const { gid, uid } = account()
    if (uid !== undefined && gid !== undefined) for (const one of [directory, parent]) fs.chownSync(one, uid, gid)
  })
  const processes = processesWith(directory)
  const signalAll = (signal: NodeJS.Signals) =>
    Effect.map(
      Effect.andThen(children(directory), (own) => own),
      (pids) => {
        for (const pid of pids) {
          try {
            process.kill(pid, signal)
          } catch {
            // A backend that has ended meanwhile.
          }
        }
      }
    )
  let patroni: ChildProcess | undefined
  const start = Effect.gen(function* () {
    patroni = yield* serverProcess(programs.patroni ?? "", [`${directory}/patroni.yml`], account())
  })
  yield* Effect.addFinalizer(() => signalAll("SIGKILL"))
  const roleIs = (role: string) =>
    Effect.promise(() =>
      fetch(`http://127.0.0.1:${network.rest.port}/${role}`, { signal: AbortSignal.timeout(1000) }).then(
        (answer) => answer.status === 200,
        () => false
      )
    )
  return {
    name,
    reached: { rest: network.rest.port, postgres: network.postgres.port },
    start,
    processes,
    /** The end of Patroni's log, for a test that failed. */
    log: Effect.sync(() => fs.readFileSync(`${directory}/patroni.log`, "utf8").split("\n").slice(-30).join("\n")),
    isPrimary: roleIs("primary"),
    isSynchronous: roleIs("synchronous"),
    /** Ends PostgreSQL as a crash does; Patroni goes on. */
    crash: Effect.sync(() => process.kill(postmasterOf(directory), "SIGKILL")),
    /** Stops all its processes, as a hypervisor may. */
    freeze: signalAll("SIGSTOP"),
    thaw: signalAll("SIGCONT"),
    /** Pulls its cable, or puts it back. */
    disconnect: (isCut: boolean) =>
      Effect.forEach(Object.values(network), ({ silence }) => silence(isCut), { discard: true }),
    end: Effect.suspend(() => (patroni === undefined ? Effect.void : endOf(patroni)))
  }
})

const postmasterOf = (directory: string) =>
  Number.parseInt(fs.readFileSync(`${directory}/data/postmaster.pid`, "utf8"), 10)

/** Patroni, the postmaster and its backends. */
const children = (directory: string) =>
  Effect.map(processesWith(directory), (named) =>
    Effect.sync(() => {
      const parents = new Map<number, number>()
      for (const name of fs.readdirSync("/proc")) {
        if (!/^\d+$/.test(name)) continue
        try {
          const [, parent] = /^\d+ \(.*\) \S (\d+)/.exec(fs.readFileSync(`/proc/${name}/stat`, "utf8")) ?? []
          parents.set(Number(name), Number(parent))
        } catch {}
      }
      const own = new Set(named)
      for (let size = -1; size !== own.size;) {
        size = own.size
        for (const [pid, parent] of parents) if (own.has(parent)) own.add(pid)
      }
      return [...own]
    })
  )

export type Node = Effect.Success<ReturnType<typeof makeNode>>

/** What may happen to the machine of the primary. */
export const breakdowns: Readonly<Record<string, (node: Node) => Effect.Effect<unknown>>> = {
  "kill -9 of PostgreSQL": ({ crash }) => crash,
  "a frozen machine": ({ freeze }) => freeze,
  "a pulled cable": ({ disconnect }) => disconnect(true)
}

/** Brings a machine back, with Patroni started again: an old one may go on with what it knew of etcd. */
export const mend = ({ disconnect, end, start, thaw }: Node) =>
  thaw.pipe(Effect.andThen(disconnect(false)), Effect.andThen(end), Effect.andThen(start))

/** As HAProxy's manual for Patroni has it: who answers `GET /primary` with 200 gets the connections. */
const proxySettings = (port: number, nodes: ReadonlyArray<Node>) => `
defaults
  mode tcp
  timeout connect 1s
  timeout client 1h
  timeout server 1h
listen primary
  bind 127.0.0.1:${port}
  option httpchk GET /primary
  http-check expect status 200
  timeout check 500ms
  default-server inter 300ms fall 2 rise 1 on-marked-down shutdown-sessions
${nodes.map(({ name, reached }) => `  server ${name} 127.0.0.1:${reached.postgres} check port ${reached.rest}`).join("\n")}
`

const at = (port: number) => `http://127.0.0.1:${port}`

/** A primary and a synchronous standby under Patroni with etcd, and HAProxy in front of them. */
export const makeCluster = Effect.gen(function* () {
  const directory = yield* makeDirectory()
  const etcdPort = yield* freePort
  yield* serverProcess(programs.etcd ?? "", [
    "--data-dir",
    `${directory}/etcd`,
    "--listen-client-urls",
    at(etcdPort),
    "--advertise-client-urls",
    at(etcdPort),
    "--listen-peer-urls",
    at(yield* freePort),
    "--unsafe-no-fsync"
  ])
  yield* eventually(accepts(etcdPort), (isUp) => isUp)
  const nodes = [yield* makeNode("one", directory, etcdPort), yield* makeNode("two", directory, etcdPort)]
  const primary = Effect.map(
    Effect.forEach(nodes, (node) => Effect.map(node.isPrimary, (is) => (is ? node : undefined))),
    (found) => found.find((node) => node !== undefined)
  )
  for (const { start } of nodes) {
    yield* start
    yield* eventually(primary, (found) => found !== undefined)
  }
  const isSynchronous = Effect.map(
    Effect.forEach(nodes, (node) => node.isSynchronous),
    (all) => all.some((is) => is)
  )
  yield* eventually(isSynchronous, (is) => is)
  const port = yield* freePort
  yield* Effect.sync(() => fs.writeFileSync(`${directory}/haproxy.cfg`, proxySettings(port, nodes)))
  yield* serverProcess(programs.haproxy ?? "", ["-db", "-f", `${directory}/haproxy.cfg`])
  yield* eventually(accepts(port), (isUp) => isUp)
  const database: TestDatabase = {
    host: "127.0.0.1",
    port,
    username: "postgres",
    password: Redacted.make("postgres"),
    database: "postgres"
  }
  // HAProxy takes every server for one that is up until it has asked, and then cuts connections to those that are none.
  const standbys = asSuperuser(database, (sql) => sql`SELECT WHERE pg_is_in_recovery()`).pipe(
    Effect.catchCause(() => Effect.succeed([{}])),
    Effect.replicateEffect(4),
    Effect.map((answers) => answers.flat().length)
  )
  yield* eventually(standbys, (count) => count === 0)
  return { nodes, primary, isSynchronous, database }
})
