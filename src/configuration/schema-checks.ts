import { Context, Data, Effect, Layer, RcRef, Semaphore } from "effect"
import { Worker } from "node:worker_threads"
import { type CheckReply, type CheckRequest } from "./schema-check-messages.ts"

const limitSeconds = 3
const idleTimeToLive = "1 minute"

class WorkerEnded extends Data.TaggedError("WorkerEnded")<{ readonly reason: string }> {}

/**
 * Checks contents against JSON Schemas (drafts 7, 2019-09 and 2020-12) in a thread of its own, which has three seconds and
 * 128 MiB for each: an expression that never ends, or a document that unfolds without bound, ends with its thread and
 * leaves the service alone. References to other files are not followed.
 */
export class SchemaChecks extends Context.Service<
  SchemaChecks,
  {
    check(request: CheckRequest): Effect.Effect<CheckReply>
  }
>()("app/configuration/SchemaChecks") {
  static readonly layer = Layer.effect(
    SchemaChecks,
    Effect.gen(function* () {
      const worker = yield* RcRef.make({
        acquire: Effect.acquireRelease(start, (worker) => Effect.promise(() => worker.terminate())),
        idleTimeToLive
      })
      const oneAtATime = yield* Semaphore.make(1)

      const check = Effect.fn("SchemaChecks.check")(function* (request: CheckRequest) {
        return yield* RcRef.get(worker).pipe(
          Effect.flatMap((worker) => ask(worker, request)),
          // Whoever gives up leaves a thread behind that would answer the next one with this one's faults.
          Effect.onInterrupt(() => RcRef.invalidate(worker)),
          Effect.catchTag("WorkerEnded", ({ reason }) =>
            Effect.as(RcRef.invalidate(worker), {
              schemaAtFault: false,
              faults: [{ path: [], message: `Could not be checked against the schema: ${reason}` }]
            })
          ),
          Effect.scoped
        )
      }, oneAtATime.withPermit)

      return SchemaChecks.of({ check })
    })
  )
}

const start = Effect.suspend(() => {
  const worker = new Worker(new URL("schema-check-worker.ts", import.meta.url), {
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: 128 }
  })
  // A thread that fails while nobody asks it would otherwise end the process.
  worker.on("error", () => {})
  return Effect.as(
    reply(worker, () => worker.unref()),
    worker
  )
})

/** The next message of a worker after `begin` has run. */
const reply = (worker: Worker, begin: () => void) =>
  Effect.callback<CheckReply, WorkerEnded>((resume) => {
    const onMessage = (message: CheckReply) => finish(Effect.succeed(message))
    const onError = (error: Error) => finish(Effect.fail(new WorkerEnded({ reason: error.message })))
    const onExit = () => finish(Effect.fail(new WorkerEnded({ reason: "the check ended early" })))
    const release = () => worker.off("message", onMessage).off("error", onError).off("exit", onExit)
    const finish = (result: Effect.Effect<CheckReply, WorkerEnded>) => {
      release()
      resume(result)
    }
    worker.on("message", onMessage).on("error", onError).on("exit", onExit)
    begin()
    return Effect.sync(release)
  })

const ask = (worker: Worker, request: CheckRequest) =>
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  reply(worker, () => worker.postMessage(request)).pipe(
    Effect.timeoutOrElse({
      duration: `${limitSeconds} seconds`,
      orElse: () => Effect.fail(new WorkerEnded({ reason: `it took longer than ${limitSeconds} seconds` }))
    })
  )
