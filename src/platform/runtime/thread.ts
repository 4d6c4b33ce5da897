import { Data, Duration, Effect, PartitionedSemaphore, RcRef } from "effect"
import { Worker } from "node:worker_threads"
import { whilePackagesAreReplaced } from "./packages.ts"

const idleTimeToLive = "1 minute"
const checkEvery = "200 millis"
/** On a busy machine a task may take this many times its processor seconds. */
const maxWallTimeFactor = 10

/** The thread ended before it replied: out of time, out of memory, or by a failure of its own. */
export class ThreadEnded extends Data.TaggedError("ThreadEnded")<{ readonly reason: string }> {}

/**
 * Runs work that must not block the service in a thread of its own: one task at a time, each limited in processor seconds
 * and megabytes. A task over its limit ends with its thread, and the next one gets a new thread. Requesters take turns, so
 * that many tasks of one do not delay the others. `module` runs `replyWith`.
 */
export const makeThread = Effect.fnUntraced(function* <Request, Reply>(options: {
  readonly module: URL
  readonly seconds: number
  readonly megabytes: number
}) {
  const worker = yield* RcRef.make({
    acquire: Effect.acquireRelease(
      Effect.retry(start(options.module, options.megabytes), whilePackagesAreReplaced),
      (worker) => Effect.promise(() => worker.terminate())
    ),
    idleTimeToLive
  })
  const oneAtATime = yield* PartitionedSemaphore.make<string>({ permits: 1 })
  const running = Effect.flatMap(RcRef.get(worker), (found) =>
    hasEnded(found) ? Effect.andThen(RcRef.invalidate(worker), RcRef.get(worker)) : Effect.succeed(found)
  )

  return (requester: string, request: Request): Effect.Effect<Reply, ThreadEnded> =>
    running.pipe(
      Effect.flatMap((worker) => submit<Reply>(worker, request, options.seconds)),
      // The thread would answer the next request with the reply to an interrupted one.
      Effect.onInterrupt(() => RcRef.invalidate(worker)),
      Effect.tapError(() => RcRef.invalidate(worker)),
      Effect.scoped,
      oneAtATime.withPermit(requester)
    )
})

const start = (module: URL, megabytes: number) =>
  Effect.suspend(() => {
    const worker = new Worker(module, { env: {}, resourceLimits: { maxOldGenerationSizeMb: megabytes } })
    // A thread that fails while idle would otherwise end the process.
    worker.on("error", () => {})
    return Effect.as(
      reply<"ready">(worker, () => worker.unref()),
      worker
    )
  })

/** Whether a thread ended by itself while it had nothing to do. */
const hasEnded = (worker: Worker): boolean => worker.threadId === -1

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

const submit = Effect.fnUntraced(function* <Reply>(worker: Worker, request: unknown, seconds: number) {
  const overdue = Effect.fail(new ThreadEnded({ reason: `it took longer than ${seconds} s` }))
  const spent = Effect.flatMap(processorSeconds(worker), (before) =>
    Effect.sleep(checkEvery).pipe(
      Effect.andThen(processorSeconds(worker)),
      Effect.repeat({ until: (now) => now - before > seconds })
    )
  ).pipe(
    // Time in native code is not reported.
    Effect.timeoutOption(Duration.seconds(seconds * maxWallTimeFactor)),
    Effect.andThen(overdue)
  )
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  const begin = () => worker.postMessage(request)
  return yield* Effect.raceFirst(reply<Reply>(worker, begin), spent)
})

/** The processor time of a thread so far; never completes for a thread that ends. */
const processorSeconds = (worker: Worker): Effect.Effect<number> =>
  Effect.tryPromise(() => worker.cpuUsage()).pipe(
    Effect.map(({ system, user }) => (system + user) / 1e6),
    Effect.catch(() => Effect.never)
  )
