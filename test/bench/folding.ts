import { PgClient } from "@effect/sql-pg"
import { Effect, Schedule } from "effect"
import { Reactivity } from "effect/reactivity"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { connection, join } from "../../src/platform/embedded-postgres/embedded-postgres.ts"
import { configureModels, load, spender, type Target } from "./gateway.ts"
import { giveWay, median, print, startProvider, startService, temporaryDirectory } from "./rates.ts"

const rounds = Number(process.env.BENCH_ROUNDS ?? "6")
const seconds = Number(process.env.BENCH_SECONDS ?? "10")
const connections = 64
const warmSeconds = 15
const wantedShare = 0.97
const wantedSeconds = 5

const rate = (found: number) => `${Math.round(found).toLocaleString("en")} calls/s`

/** What is folded behind the calls of the gateway while they go on. */
const measure = Effect.fnUntraced(function* (sql: PgClient.PgClient, target: Target) {
  const behind = Effect.map(
    sql<{ readonly seconds: number | null }>`
      SELECT extract(epoch FROM clock_timestamp() - min(occurred_at))::double precision AS seconds FROM usage_outbox`,
    ([row]) => row?.seconds ?? 0
  )
  const folded = Effect.repeat(behind, { schedule: Schedule.spaced("200 millis"), until: (found) => found === 0 })
  const calls = Effect.promise(() => load(target, connections, seconds))
  // Who holds the lock of folding keeps the service from it.
  const withoutFolding = sql.withTransaction(
    Effect.andThen(sql`SELECT pg_advisory_xact_lock(hashtext('usage-fold'))`, calls)
  )
  const withFolding = Effect.gen(function* () {
    let most = 0
    const watched = behind.pipe(
      Effect.map((found) => (most = Math.max(most, found))),
      Effect.repeat(Schedule.spaced("200 millis"))
    )
    const measured = yield* Effect.raceFirst(calls, Effect.andThen(watched, Effect.never))
    return { ...measured, most }
  })
  yield* Effect.promise(() => load(target, connections, warmSeconds))
  const pairs: Array<{ readonly without: number; readonly with: number; readonly most: number; readonly cpu: number }> =
    []
  for (let round = 0; round < rounds; round++) {
    // What a round leaves behind would count for the one after it, so each of the two comes first in half of the rounds.
    yield* folded
    const before = round % 2 === 0 ? yield* withoutFolding : undefined
    yield* folded
    const folding = yield* withFolding
    yield* folded
    const without = before ?? (yield* withoutFolding)
    pairs.push({
      without: without.perSecond,
      with: folding.perSecond,
      most: folding.most,
      cpu: folding.process + folding.postgres - without.process - without.postgres
    })
  }
  const share = median(pairs.map((pair) => pair.with / pair.without))
  const most = Math.max(...pairs.map((pair) => pair.most))
  print(`The gateway with and without folding, ${connections} connections, ${rounds} rounds of ${seconds} s in turns`, [
    { what: "without folding", measured: rate(median(pairs.map((pair) => pair.without))), wanted: "", met: true },
    {
      what: "with folding",
      measured: `${rate(median(pairs.map((pair) => pair.with)))}, ${share.toFixed(3)} of that (${pairs
        .map((pair) => (pair.with / pair.without).toFixed(2))
        .join(" ")})`,
      wanted: `(wanted >= ${wantedShare})`,
      met: share >= wantedShare
    },
    {
      what: "more processor time",
      measured: `${median(pairs.map(({ cpu }) => cpu)).toFixed(0)} us a call`,
      wanted: "",
      met: true
    },
    {
      what: "the oldest row that is not in the reports yet",
      measured: `${most.toFixed(1)} s`,
      wanted: `(wanted <= ${wantedSeconds} s)`,
      met: most <= wantedSeconds
    }
  ])
})

const benchFolding = async (): Promise<void> => {
  const directory = await temporaryDirectory()
  const provider = await startProvider()
  const service = await startService(directory, { Api__RateLimit__Enabled: "false" })
  try {
    const { url } = service
    await configureModels(url, provider)
    const target: Target = { server: service, url, headers: await spender(url, [{}]) }
    giveWay(provider)
    await join({ directory: path.join(directory, ".data") }).pipe(
      Effect.flatMap((server) => PgClient.makeClient(connection(server))),
      Effect.flatMap((sql) => measure(sql, target)),
      Effect.scoped,
      Effect.provide(Reactivity.layer),
      Effect.orDie,
      Effect.runPromise
    )
  } finally {
    await service.stop()
    await provider.stop()
    await fs.rm(directory, { recursive: true, force: true })
  }
}

await benchFolding()
