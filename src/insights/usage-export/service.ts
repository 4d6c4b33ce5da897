import { Cause, Context, Data, Effect, Layer, Metric, Option, Stream } from "effect"
import { Readable } from "node:stream"
import { buffer } from "node:stream/consumers"
import { createGzip } from "node:zlib"
import { Database } from "../../platform/database/database.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { pathOf, pauseSeconds, slicesOf, type UsageFile } from "./domain.ts"
import { UsageExportRepository } from "./repository.ts"
import { makeStorage, StorageFailure } from "./storage.ts"

const longestPauseSeconds = 10
/** Besides the time of the upload itself: then another replica may try, which puts the same bytes in the same place. */
const claimSeconds = 180
const rowsAtOnce = 4000

const lag = Metric.gauge("app.usage.export.lag", {
  description: "How long the oldest row that is not exported yet has waited",
  attributes: { unit: "s" }
})
const waiting = Metric.gauge("app.usage.export.waiting", {
  description: "Rows in files that wait for their upload",
  attributes: { unit: "{row}" }
})

/** Rows of a file are not in the database any more, or not as they were. */
class ChangedRows extends Data.TaggedError("ChangedRows")<{ readonly detail: string }> {
  override get message() {
    return this.detail
  }
}

const detailOf = (cause: Cause.Cause<ChangedRows | StorageFailure>): string => {
  const error = Cause.squash(cause)
  if (error instanceof ChangedRows || error instanceof StorageFailure) return error.detail
  return `The rows of a file cannot be read; the log has the reason: ${String(error).slice(0, 200)}`
}

/** Puts each row of usage into one file in object storage. */
export class UsageExport extends Context.Service<UsageExport>()("app/insights/UsageExport", {
  make: Effect.gen(function* () {
    const database = yield* Database
    const repository = yield* UsageExportRepository
    const settings = (yield* Settings).usage.export
    const { everySeconds, maxRows, stop } = settings

    const backlog = database.read("all", repository.backlog)

    /** Makes files of what waits, a step at a time. */
    const decide = Effect.gen(function* () {
      if (!(yield* repository.lead)) return false
      const hasHistory = yield* repository.queueHistory
      const { isDue, isFull } = yield* repository.due(everySeconds)
      if (isDue) yield* repository.decide(maxRows)
      return hasHistory || isFull
    }).pipe((step) => Effect.repeat(database.transaction("all", step), { while: (hasMore) => hasMore }))

    /** The bytes of a file, the same each time; undefined where another replica has uploaded it. */
    const contentOf = Effect.fnUntraced(function* (file: UsageFile) {
      let [rows, costNanoUsd] = [0, 0n]
      const lines = Stream.fromIterable(slicesOf(file.counts, rowsAtOnce)).pipe(
        Stream.mapEffect(([first, last]) => database.read("all", repository.lines(file.number, first, last))),
        Stream.flattenIterable,
        Stream.map((chunk) => {
          rows += chunk.rows
          costNanoUsd += chunk.costNanoUsd
          return chunk.lines
        })
      )
      const iterable = yield* Stream.toAsyncIterableEffect(lines)
      const body = yield* Effect.promise(() => buffer(Readable.from(iterable).compose(createGzip())))
      if (rows === file.rows && costNanoUsd === file.costNanoUsd) return body
      if (!(yield* database.read("all", repository.isOpen(file.number)))) return undefined
      const detail = `Rows of file ${file.number} were deleted or changed: it was to have ${file.rows} that cost ${file.costNanoUsd} nano-dollars, and the database has ${rows} that cost ${costNanoUsd}`
      return yield* new ChangedRows({ detail })
    })

    const measure = Effect.flatMap(backlog, (backlog) =>
      Effect.all([Metric.update(lag, backlog?.waitingSeconds ?? 0), Metric.update(waiting, backlog?.rows ?? 0)])
    )

    const began = yield* Effect.cached(repository.now)
    const run = Effect.fnUntraced(function* (storage: Effect.Success<ReturnType<typeof makeStorage>>) {
      yield* repository.start(yield* began)
      yield* decide
      const uploadNext = Effect.gen(function* () {
        const file = yield* repository.claim(claimSeconds)
        if (file === undefined) return false
        const upload = Effect.gen(function* () {
          const body = yield* contentOf(file)
          if (body === undefined) return
          yield* storage.put(pathOf(file), "application/gzip", body)
          yield* repository.finish(file.number)
        })
        // A replica that ends keeps its claim; what else goes wrong is noted, a defect too.
        yield* Effect.tapCause(upload, (cause) =>
          Cause.hasInterruptsOnly(cause)
            ? Effect.void
            : Effect.flatMap(repository.fail(file.number, detailOf(cause)), (failures) =>
                failures === undefined ? Effect.void : repository.pause(pauseSeconds(failures))
              )
        )
        return true
      })
      yield* Effect.repeat(uploadNext, { while: (hasMore) => hasMore })
    }, Effect.ensuring(measure))

    const isOn = Option.isSome(settings.bucket) && !stop
    if (isOn) {
      const pause = `${Math.min(longestPauseSeconds, everySeconds)} seconds` as const
      yield* repeatJob("export usage", pause, run(yield* makeStorage(settings)))
    } else if (stop) {
      const ended = Effect.flatMap(began, (at) => database.transaction("all", repository.stop(at)))
      const end = Effect.flatMap(ended, (isEnded) =>
        isEnded
          ? Effect.logWarning("Usage:Export:Stop ended the export of usage; what waited for it was dropped")
          : Effect.void
      )
      yield* repeatJob("end the export of usage", "1 minute", end)
    }

    return {
      /** Whether this replica exports, and after how long rows make files. */
      isOn,
      everySeconds,
      /** What waits and what is uploaded; undefined where there is no export. */
      backlog
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(UsageExportRepository.layer))
}
