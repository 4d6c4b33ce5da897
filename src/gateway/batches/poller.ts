import { DateTime, Effect, Layer, Stream } from "effect"
import { type CloseResult } from "../../budgets/ledger/protocol-domain.ts"
import { Ledger } from "../../budgets/ledger/service.ts"
import { type Json, isJson, listIn } from "../../kernel/json/parsed-json.ts"
import { Database } from "../../platform/database/database.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { type ConnectedProvider } from "../configuration/gateway-snapshot.ts"
import { GatewayConfiguration } from "../configuration/service.ts"
import { unreadableAnswer } from "../errors/gateway-error.ts"
import { type BatchApi } from "../formats/batches/batches.ts"
import { batchApis } from "../formats/registry/batches.ts"
import { BatchCharges } from "./batch-charges.ts"
import { type StoredBatch } from "./domain.ts"
import { KeptThings } from "./kept-things.ts"
import { linesIn } from "./line-splitter.ts"
import { BatchesRepository } from "./repository.ts"
import { Batches, releasesOf } from "./service.ts"

const isClosed: ReadonlySet<CloseResult["verdict"]> = new Set(["done", "same", "conflict"])

/** How many batches a replica takes up at once. */
const atOnce = 8
/** Nothing else takes a batch up meanwhile: to ask how it stands, and to read its results. */
const askingMinutes = 10
const readingMinutes = 60
/** The most that is doubled of the time between two attempts. */
const mostDoublings = 5
/** Batches of a provider that are looked through for one whose submission had no answer, a hundred at once. */
const mostPages = 50
const longestLine = 134_217_728
const retentionDays = 30

/**
 * Goes on with batches where they are: asks their providers how they stand, and charges those that have ended. Each batch is
 * with one replica at a time; where that dies, another one takes it up.
 */
export const BatchPollerLayer = Layer.effectDiscard(
  Effect.gen(function* () {
    const batches = yield* Batches
    const configuration = yield* GatewayConfiguration
    const database = yield* Database
    const ledger = yield* Ledger
    const repository = yield* BatchesRepository
    const things = yield* KeptThings
    const { batchPollSeconds } = (yield* Settings).llm.gateway

    /** A batch of a provider with the mark of one that was submitted without an answer. */
    const marked = Effect.fnUntraced(function* (provider: ConnectedProvider, api: BatchApi, mark: string) {
      if (api.markIn === undefined) return undefined
      let after: string | undefined
      for (let page = 0; page < mostPages; page++) {
        const query = after === undefined ? "" : `&after=${encodeURIComponent(after)}`
        const { data, has_more: hasMore } = yield* things.ask(provider, {
          method: "GET",
          path: `${api.path}?limit=100${query}`
        })
        const listed = listIn(data).filter(isJson)
        const found = listed.find((batch) => api.markIn?.(batch) === mark)
        if (found !== undefined) return found
        const last = listed.at(-1)?.id
        if (hasMore !== true || typeof last !== "string") return undefined
        after = last
      }
      return undefined
    })

    /** Charges a batch that has ended: its results are read once, and all that it holds is closed in one transaction. */
    const settle = Effect.fnUntraced(function* (
      batch: StoredBatch,
      provider: ConnectedProvider,
      api: BatchApi,
      answer: Json
    ) {
      yield* batches.move(batch, ["running"], "running", {
        answer,
        dueInSeconds: readingMinutes * 60,
        failures: batch.failures
      })
      const charges = new BatchCharges(batch, api)
      const unreadable = unreadableAnswer(provider.id)
      for (const path of api.resultPaths(answer)) {
        yield* Effect.scoped(
          Effect.flatMap(things.send(provider, { method: "GET", path, streams: true }), ({ body }) => {
            const bytes =
              body instanceof Uint8Array
                ? Stream.make(body)
                : Stream.concat(Stream.fromIterable(body.first), Stream.fromPull(Effect.succeed(body.rest)))
            return Stream.runForEach(
              linesIn(bytes, longestLine, () => unreadable),
              ([line]) => (charges.take(line) ? Effect.void : Effect.fail(unreadable))
            )
          })
        )
      }
      const { items } = charges
      const closed = yield* ledger.closeBatch(items)
      charges.measure(items, closed)
      // A reservation that is closed already was closed by a replica before, or at the end of its time.
      if (closed.some(({ verdict }) => !isClosed.has(verdict))) return yield* unreadable
      yield* batches.move(batch, ["running"], charges.completed > 0 ? "settled" : "released", { answer })
    })

    const advance = Effect.fnUntraced(function* (batch: StoredBatch) {
      const { heldUntil, providerId, state } = batch
      // What a batch holds that never ends is charged by the sweeper, when the time of its reservations is over.
      if (DateTime.isLessThan(heldUntil, yield* DateTime.now)) {
        return yield* batches.move(batch, ["holding", "submitting", "running"], "settled")
      }
      if (state === "holding") {
        yield* ledger.closeBatch(releasesOf(batch))
        return yield* batches.move(batch, ["holding"], "released")
      }
      const api = batchApis[batch.dialect]
      const provider = configuration.snapshot().providers.get(batch.provider)
      if (api === undefined || provider === undefined) return yield* unreadableAnswer(batch.provider)
      if (state === "submitting" || providerId === null) {
        const found = yield* marked(provider, api, batch.id)
        if (found === undefined) return yield* failed(batch)
        return yield* batches.move(batch, ["submitting"], "running", {
          providerId: String(found.id),
          answer: found,
          dueInSeconds: 0
        })
      }
      const answer = yield* things.ask(provider, {
        method: "GET",
        path: `${api.path}/${encodeURIComponent(providerId)}`
      })
      if (api.isEnded(answer)) return yield* settle(batch, provider, api, answer)
      return yield* batches.move(batch, ["running"], "running", { answer })
    })

    const failed = (batch: StoredBatch) => {
      const dueInSeconds = batchPollSeconds * 2 ** Math.min(mostDoublings, batch.failures)
      return batches.move(batch, [batch.state], batch.state, { failures: batch.failures + 1, dueInSeconds })
    }

    const attempt = (batch: StoredBatch) =>
      Effect.catchCause(advance(batch), (cause) =>
        Effect.logWarning("A batch could not be asked for, or charged, and will be again", cause).pipe(
          Effect.annotateLogs({ batch: batch.id, provider: batch.provider, state: batch.state }),
          Effect.andThen(failed(batch))
        )
      ).pipe(Effect.withSpan("Batches.advance"))

    const take = Effect.gen(function* () {
      const now = yield* DateTime.now
      const until = DateTime.add(now, { minutes: askingMinutes })
      return yield* database.transaction("all", repository.take({ now, until, limit: atOnce }))
    })

    const poll = Effect.gen(function* () {
      for (;;) {
        const due = yield* take
        yield* Effect.forEach(due, attempt, { concurrency: atOnce, discard: true })
        if (due.length < atOnce) return
      }
    })

    yield* repeatJob("charge batches that have ended", `${Math.min(5, batchPollSeconds)} seconds`, poll)
    yield* repeatJob(
      "remove old files and batches",
      "1 hour",
      Effect.flatMap(DateTime.now, (now) =>
        database.transaction("all", repository.purge(now, DateTime.subtract(now, { days: retentionDays })))
      )
    )
  })
)
