import { Clock, Context, Duration, Effect, Layer, Option, Schedule } from "effect"

/** How a job that repeats has fared; times are milliseconds since 1970. */
export interface JobReport {
  readonly name: string
  readonly everyMillis: number
  /** When it was registered or last ended well. */
  readonly soundAt: number
  /** How often in a row it has failed since then. */
  readonly failures: number
}

/** What goes on in the background of this process, for whoever asks how it is. */
export class BackgroundJobs extends Context.Service<
  BackgroundJobs,
  {
    readonly reports: Effect.Effect<ReadonlyArray<JobReport>>
    register(name: string, every: Duration.Duration): Effect.Effect<(ended: "well" | "failed") => Effect.Effect<void>>
  }
>()("app/platform/BackgroundJobs") {
  static readonly layer = Layer.sync(BackgroundJobs, () => {
    const reports = new Map<string, JobReport>()
    return BackgroundJobs.of({
      reports: Effect.sync(() => [...reports.values()]),
      register: (name, every) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          reports.set(name, { name, everyMillis: Duration.toMillis(every), soundAt: now, failures: 0 })
          return (ended) =>
            Effect.map(Clock.currentTimeMillis, (at) => {
              const report = reports.get(name)
              if (report === undefined) return
              const outcome = ended === "well" ? { soundAt: at, failures: 0 } : { failures: report.failures + 1 }
              reports.set(name, { ...report, ...outcome })
            })
        })
    })
  })
}

/**
 * Repeats a job for the life of the scope: once now, then again and again after a pause. A run that fails is a warning, and
 * is told to {@link BackgroundJobs} where there is one.
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
    Effect.andThen(report("well")),
    Effect.catchCause((cause) =>
      Effect.andThen(Effect.logWarning(`The job "${name}" failed; it is tried again`, cause), report("failed"))
    ),
    Effect.repeat(Schedule.spaced(every)),
    Effect.forkScoped
  )
})
