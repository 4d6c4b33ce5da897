import { Clock, Context, Duration, Effect, Layer, Option, Schedule } from "effect"

/** The state of a repeated job; times are epoch milliseconds. */
export interface JobReport {
  readonly name: string
  readonly everyMillis: number
  /** When it was registered or last succeeded. */
  readonly succeededAt: number
  /** Consecutive failures since then. */
  readonly failures: number
}

/** The background jobs of this process, for health reports. */
export class BackgroundJobs extends Context.Service<
  BackgroundJobs,
  {
    readonly reports: Effect.Effect<ReadonlyArray<JobReport>>
    register(
      name: string,
      every: Duration.Duration
    ): Effect.Effect<(outcome: "succeeded" | "failed") => Effect.Effect<void>>
  }
>()("app/platform/BackgroundJobs") {
  static readonly layer = Layer.sync(BackgroundJobs, () => {
    const reports = new Map<string, JobReport>()
    return BackgroundJobs.of({
      reports: Effect.sync(() => [...reports.values()]),
      register: (name, every) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          reports.set(name, { name, everyMillis: Duration.toMillis(every), succeededAt: now, failures: 0 })
          return (outcome) =>
            Effect.map(Clock.currentTimeMillis, (at) => {
              const report = reports.get(name)
              if (report === undefined) return
              const change =
                outcome === "succeeded" ? { succeededAt: at, failures: 0 } : { failures: report.failures + 1 }
              reports.set(name, { ...report, ...change })
            })
        })
    })
  })
}

/**
 * Repeats a job for the life of the scope, with a pause between runs. A failed run is logged as a warning and reported to
 * {@link BackgroundJobs} where there is one.
 */
export const repeatJob = Effect.fnUntraced(function* <E, R>(
  name: string,
  pause: Duration.Input,
  job: Effect.Effect<unknown, E, R>
) {
  const jobs = yield* Effect.serviceOption(BackgroundJobs)
  const every = Duration.fromInputUnsafe(pause)
  const report = Option.isSome(jobs) ? yield* jobs.value.register(name, every) : () => Effect.void
  yield* job.pipe(
    Effect.andThen(report("succeeded")),
    Effect.catchCause((cause) =>
      Effect.andThen(Effect.logWarning(`The job "${name}" failed and will be retried`, cause), report("failed"))
    ),
    Effect.repeat(Schedule.spaced(every)),
    Effect.forkScoped
  )
})
