import "../../src/platform/runtime/json-parse.ts"
import { PgClient } from "@effect/sql-pg"
import { Array, Effect, Layer, Logger, Option } from "effect"
import { HttpServer } from "effect/http"
import { Reactivity } from "effect/reactivity"
import * as crypto from "node:crypto"
import * as fs from "node:fs/promises"
import { ConfigurationFiles } from "../../src/applications/configuration/files/files.ts"
import { ConfigurationId } from "../../src/applications/configuration/model/domain.ts"
import { asSystem } from "../../src/audit/log/service.ts"
import { DatabaseConnection } from "../../src/platform/database/connection.ts"
import { Database, poolLayer } from "../../src/platform/database/database.ts"
import { migrate } from "../../src/platform/database/migrations.ts"
import { connection, start } from "../../src/platform/embedded-postgres/embedded-postgres.ts"
import * as Platform from "../../src/platform/layers.ts"
import { Settings } from "../../src/platform/settings/settings.ts"
import { ServerLayer } from "../../src/server.ts"
import { median, print, serviceKey, temporaryDirectory } from "./rates.ts"

const nodes = 10_000
const calls = 25
const atOnce = 32
const rounds = 5
const perRound = 1500
const content = JSON.stringify({ retries: 3, hosts: ["a.example", "b.example"], note: "x".repeat(900) })

const headers = { "x-api-key": serviceKey, "content-type": "application/json" }

const call = (url: string, method: string, body?: object) =>
  Effect.promise(async () => {
    const response = await fetch(url, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${text.slice(0, 300)}`)
    return text
  })

const millisOf = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const started = performance.now()
    return Effect.map(work, (answer) => ({ answer, millis: performance.now() - started }))
  })

/** Things done in a second, `atOnce` of them at any time. */
const rateOf = <E, R>(work: (index: number) => Effect.Effect<unknown, E, R>) =>
  Effect.map(
    millisOf(Effect.forEach(Array.range(1, perRound), work, { concurrency: atOnce, discard: true })),
    ({ millis }) => perRound / (millis / 1000)
  )

const digest = crypto.createHash("sha256").update(content).digest()

/** A folder for every hundred files, ten folders to a folder. */
const paths = Array.makeBy(nodes - 100, (index) => {
  const folder = Math.floor(index / 100)
  if (index < 10) return { path: `/part-${index}`, type: "folder" as const }
  return { path: `/part-${folder % 10}/group-${folder}/file-${index}.json`, type: "file" as const, content: "{}" }
})

/** How long the tree of 10,000 nodes takes over HTTP, and how fast files are saved beside plain inserts. */
export const benchConfiguration = Effect.gen(function* () {
  const directory = yield* Effect.acquireRelease(
    Effect.promise(() => temporaryDirectory()),
    (path) => Effect.promise(() => fs.rm(path, { recursive: true, force: true }))
  )
  const server = yield* start({ directory })
  const options = connection(server)
  yield* migrate(options)
  const pool = poolLayer({ connection: options, maxConnections: 10, statementTimeoutSeconds: 60 })
  const service = yield* Layer.build(
    ServerLayer.pipe(
      Layer.provideMerge(pool),
      Layer.provide(Platform.layerListener),
      Layer.provide(Layer.succeed(DatabaseConnection, { options, embeddedIn: Option.some(directory) })),
      Layer.provide(
        Settings.layerMemory({
          environment: { Api__Port: "0", Api__ApiKey: serviceKey, Api__RateLimit__PerMinute: "1000000" }
        })
      ),
      Layer.provide(Logger.layer([]))
    )
  )
  const url = HttpServer.formatAddress((yield* Effect.provideContext(HttpServer.HttpServer, service)).address)
  const sql = yield* Effect.provideContext(PgClient.PgClient, service)
  const owner = yield* PgClient.makeClient(options).pipe(Effect.provide(Reactivity.layer))
  yield* owner`CREATE TABLE plain_inserts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, node_id integer NOT NULL, version integer NOT NULL,
    content text NOT NULL, sha256 bytea NOT NULL, created_at timestamptz NOT NULL, created_by text NOT NULL)`
  yield* owner`GRANT SELECT, INSERT ON plain_inserts TO application_manager`

  const database = yield* Effect.provideContext(Database, service)
  const saves = yield* Effect.provideContext(ConfigurationFiles, service)
  const application = JSON.parse(yield* call(`${url}/api/applications`, "POST", { name: "Bench" })) as { id: number }
  const imported = yield* millisOf(
    call(`${url}/api/configuration/import?applicationId=${application.id}`, "POST", { nodes: paths })
  )
  const { changes } = JSON.parse(imported.answer) as { changes: ReadonlyArray<{ id: ConfigurationId; type: string }> }
  const treeUrl = `${url}/api/configuration/tree?applicationId=${application.id}`
  // Read as bytes: what a client makes of the text is no part of the answer.
  const readTree = millisOf(Effect.promise(() => fetch(treeUrl, { headers }).then((response) => response.bytes())))
  const treeMillis = (yield* Effect.forEach(Array.range(1, calls), () => readTree)).map(({ millis }) => millis).slice(5)

  const files = changes.flatMap(({ id, type }) => (type === "file" ? [id] : []))
  const idAt = (index: number) => files[index % files.length] ?? ConfigurationId.make(1)
  const plain = (index: number) =>
    Effect.orDie(
      sql`INSERT INTO plain_inserts (node_id, version, content, sha256, created_at, created_by)
        VALUES (${index}, 1, ${content}, ${digest}, ${new Date()}, 'bench')`
    )
  const inTransaction = (index: number) => database.transaction("all", plain(index))
  const save = (index: number) => asSystem(saves.save(idAt(index), content))
  const overHttp = (index: number) => call(`${url}/api/configuration/${idAt(index)}`, "PUT", { content })
  const kinds = [plain, inTransaction, save, overHttp]
  yield* Effect.forEach(kinds, rateOf)
  const measured = yield* Effect.forEach(Array.range(1, rounds), () => Effect.forEach(kinds, rateOf))
  const [inserts = 0, transactions = 0, saved = 0, http = 0] = kinds.map((_, kind) =>
    median(measured.map((rates) => rates[kind] ?? 0))
  )
  const tree = median(treeMillis)
  const rows = [
    {
      what: `tree of ${changes.length.toLocaleString("en")} nodes, over HTTP`,
      measured: `${tree.toFixed(0)} ms`,
      wanted: `worst ${Math.max(...treeMillis).toFixed(0)} ms (wanted < 100)`,
      met: tree < 100
    },
    { what: "import of that tree", measured: `${imported.millis.toFixed(0)} ms`, wanted: "", met: true },
    { what: "plain insert, pipelined", measured: `${Math.round(inserts)}/s`, wanted: "", met: true },
    {
      what: "plain insert in a transaction of the service",
      measured: `${Math.round(transactions)}/s`,
      wanted: "",
      met: true
    },
    {
      what: "save: new version and audit entry",
      measured: `${Math.round(saved)}/s`,
      wanted: `${(saved / transactions).toFixed(2)} of a plain insert's transaction (wanted 0.50)`,
      met: saved / transactions >= 0.5
    },
    { what: "save over HTTP, client in the same process", measured: `${Math.round(http)}/s`, wanted: "", met: true }
  ]
  print(`Configuration, ${atOnce} at once, median of ${rounds} rounds`, rows)
}).pipe(Effect.scoped)

if (import.meta.main) await Effect.runPromise(benchConfiguration)
