import { Data, Duration, Effect, PartitionedSemaphore, RcRef } from "effect"
import { Worker } from "node:worker_threads"

const idleTimeToLive = "1 minute"
const lookEvery = "200 millis"
/** A piece of work may last so many times its seconds on a machine that is busy with others. */
const patience = 10

/** The thread ended before it answered: out of time, out of memory, or by a fault of its own. */
export class ThreadEnded extends Data.TaggedError("ThreadEnded")<{ readonly reason: string }> {}

/**
 * Work that must not hold up the service, in a thread of its own: one piece at a time, each with so many seconds of
 * the processor and so many megabytes. What takes more ends with its thread, and the next piece gets a new one. Those for
 * whom it works take turns, so nobody's many pieces keep others waiting. `module` runs `answerWith`.
 */
export const makeThread = Effect.fnUntraced(function* <Request, Reply>(options: {
  readonly module: URL
  readonly seconds: number
  readonly megabytes: number
}) {
  const worker = yield* RcRef.make({
    acquire: Effect.acquireRelease(start(options.module, options.megabytes), (worker) =>
      Effect.promise(() => worker.terminate())
    ),
    idleTimeToLive
  })
  const oneAtATime = yield* PartitionedSemaphore.make<string>({ permits: 1 })

  return (forWhom: string, request: Request): Effect.Effect<Reply, ThreadEnded> =>
    RcRef.get(worker).pipe(
      Effect.flatMap((worker) => ask<Reply>(worker, request, options.seconds)),
      // Whoever gives up leaves a thread behind that would answer the next one with this one's reply.
      Effect.onInterrupt(() => RcRef.invalidate(worker)),
      Effect.tapError(() => RcRef.invalidate(worker)),
      Effect.scoped,
      oneAtATime.withPermit(forWhom)
    )
})

const start = (module: URL, megabytes: number) =>
  Effect.suspend(() => {
    const worker = new Worker(module, { env: {}, resourceLimits: { maxOldGenerationSizeMb: megabytes } })
    // A thread that fails while nobody asks it would otherwise end the process.
    worker.on("error", () => {})
    return Effect.as(
      reply<"ready">(worker, () => worker.unref()),
      worker
    )
  })

/** The next message of a worker after `begin` has run. */
const reply = <Reply>(worker: Worker, begin: () => void) =>
  Effect.callback<Reply, ThreadEnded>((resume) => {
    const onMessage = (message: Reply) => finish(Effect.succeed(message))
    const onError = (error: Error) => finish(Effect.fail(new ThreadEnded({ reason: error.message })))
    const onExit = () => finish(Effect.fail(new ThreadEnded({ reason: "the thread ended early" })))
    const release = () => worker.off("message", onMessage).off("error", onError).off("exit", onExit)
    const finish = (result: Effect.Effect<Reply, ThreadEnded>) => {
      release()
      resume(result)
    }
    worker.on("message", onMessage).on("error", onError).on("exit", onExit)
    begin()
    return Effect.sync(release)
  })

const ask = Effect.fnUntraced(function* <Reply>(worker: Worker, request: unknown, seconds: number) {
  const before = yield* processorSeconds(worker)
  const overdue = Effect.fail(new ThreadEnded({ reason: `it took longer than ${seconds} s` }))
  const spent = Effect.sleep(lookEvery).pipe(
    Effect.andThen(processorSeconds(worker)),
    Effect.repeat({ until: (now) => now - before > seconds }),
    // What runs in the engine itself tells nothing of its time.
    Effect.timeoutOption(Duration.seconds(seconds * patience)),
    Effect.andThen(overdue)
  )
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  const begin = () => worker.postMessage(request)
  return yield* Effect.raceFirst(reply<Reply>(worker, begin), spent)
})

/** The processor time of a thread so far; none comes of a thread that ends. */
const processorSeconds = (worker: Worker): Effect.Effect<number> =>
  Effect.tryPromise(() => worker.cpuUsage()).pipe(
    Effect.map(({ system, user }) => (system + user) / 1e6),
    Effect.catch(() => Effect.never)
  )
