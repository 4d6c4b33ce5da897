import { Clock, Data, Duration, Effect, PartitionedSemaphore, RcRef } from "effect"
import { type ChildProcess, fork } from "node:child_process"
import { getCompileCacheDir } from "node:module"
import { type Socket } from "node:net"
import * as path from "node:path"
import { whilePackagesAreReplaced } from "./packages.ts"

const idleTimeToLive = "1 minute"
/** On a busy machine a task may take this many times its processor seconds. */
const maxWallTimeFactor = 10
/** A requester whose task ended a process shares its turns with others like it for so long. */
const sharedTurnsMillis = 60_000
const overLimit = Symbol("over the limit")
const maxErrorCharacters = 65_536
/** That of the service, in Node's own place for it: with it a worker loads no compiler of TypeScript. */
const compileCache = getCompileCacheDir()
const environment = compileCache === undefined ? {} : { NODE_COMPILE_CACHE: path.dirname(compileCache) }

/** The process ended before it replied: out of time, out of memory, or by a failure of its own. */
export class WorkerProcessEnded extends Data.TaggedError("WorkerProcessEnded")<{ readonly reason: string }> {}

interface Limits {
  readonly seconds: number
  readonly megabytes: number
}

/**
 * Runs work that must not block the service, or end it, in a process of its own: one task at a time, each limited in processor
 * seconds (of all threads of the process, those of V8 among them) and megabytes. A task over its limit ends with its process, and the next one gets a new process. Requesters take
 * turns, so that many tasks of one do not delay the others; those whose tasks ended a process lately take turns as if they
 * were one. `module` runs `replyWith`.
 *
 * It is no thread: V8 ends the whole process where a thread asks for much memory at once (`resourceLimits` does not hold then).
 */
export const makeWorkerProcess = Effect.fnUntraced(function* <Request, Reply>({
  module,
  ...limits
}: Limits & { readonly module: URL }) {
  const worker = yield* RcRef.make({
    acquire: Effect.acquireRelease(Effect.retry(start(module, limits), whilePackagesAreReplaced), stop),
    idleTimeToLive
  })
  const oneAtATime = yield* PartitionedSemaphore.make<string | typeof overLimit>({ permits: 1 })
  const overLimitUntil = new Map<string, number>()
  const turnOf = (requester: string) =>
    Effect.map(Clock.currentTimeMillis, (now) => {
      for (const [one, until] of overLimitUntil) if (until <= now) overLimitUntil.delete(one)
      return overLimitUntil.has(requester) ? overLimit : requester
    })
  const noteOverLimit = (requester: string) =>
    Effect.map(Clock.currentTimeMillis, (now) => void overLimitUntil.set(requester, now + sharedTurnsMillis))
  const running = Effect.flatMap(RcRef.get(worker), (found) =>
    hasEnded(found) ? Effect.andThen(RcRef.invalidate(worker), RcRef.get(worker)) : Effect.succeed(found)
  )

  return (requester: string, request: Request): Effect.Effect<Reply, WorkerProcessEnded> =>
    running.pipe(
      Effect.flatMap((worker) => submit<Reply>(worker, request, limits)),
      // The process would answer the next request with the reply to an interrupted one.
      Effect.onInterrupt(() => RcRef.invalidate(worker)),
      Effect.tapError(() => Effect.andThen(RcRef.invalidate(worker), noteOverLimit(requester))),
      Effect.scoped,
      (task) => Effect.flatMap(turnOf(requester), (turn) => oneAtATime.withPermit(turn)(task))
    )
})

const start = (module: URL, { megabytes, seconds }: Limits) =>
  Effect.suspend(() => {
    const worker = fork(module, [String(seconds)], {
      env: environment,
      execArgv: [`--max-old-space-size=${megabytes}`],
      serialization: "advanced",
      stdio: ["ignore", "ignore", "pipe", "ipc"]
    })
    // An event without a listener would end the service.
    worker.on("error", () => {})
    worker.channel?.unref()
    return Effect.onInterrupt(
      Effect.as(
        reply<"ready">(worker, { megabytes, seconds }, () => {}),
        worker
      ),
      () => stop(worker)
    )
  })

const stop = (worker: ChildProcess) =>
  Effect.callback<void>((resume) => {
    if (hasEnded(worker)) return resume(Effect.void)
    worker.once("exit", () => resume(Effect.void)).ref()
    worker.kill("SIGKILL")
  })

const hasEnded = (worker: ChildProcess): boolean =>
  worker.pid === undefined || worker.exitCode !== null || worker.signalCode !== null

/** The next message of a worker after `begin` has run. */
const reply = <Reply>(worker: ChildProcess, limits: Limits, begin: () => void) =>
  Effect.callback<Reply, WorkerProcessEnded>((resume) => {
    let errors = ""
    const errorOutput = worker.stderr as Socket
    errorOutput.setEncoding("utf8").unref()
    const onErrorOutput = (text: string) => void (errors = (errors + text).slice(0, maxErrorCharacters))
    const onMessage = (message: Reply) => finish(Effect.succeed(message))
    const fail = (reason: string) => finish(Effect.fail(new WorkerProcessEnded({ reason })))
    const onError = ({ message }: Error) => fail(message)
    const onClose = (_code: number | null, signal: NodeJS.Signals | null) => fail(reasonOf(signal, errors, limits))
    const release = () => {
      worker.off("message", onMessage).off("error", onError).off("close", onClose)
      errorOutput.off("data", onErrorOutput)
      worker.unref()
    }
    const finish = (result: Effect.Effect<Reply, WorkerProcessEnded>) => {
      release()
      resume(result)
    }
    worker.on("message", onMessage).on("error", onError).on("close", onClose)
    errorOutput.on("data", onErrorOutput)
    worker.ref()
    begin()
    return Effect.sync(release)
  })

/** Why a process ended, as Node tells on its error output where it was a failure. */
const reasonOf = (signal: NodeJS.Signals | null, errors: string, { megabytes, seconds }: Limits): string => {
  if (signal === "SIGALRM") return `it took longer than ${seconds} s`
  if (errors.includes("heap out of memory")) return `it took more memory than ${megabytes} MB`
  return /^\w*Error(?: \[\w+\])?: (.+)$/m.exec(errors)?.[1] ?? "its process ended early"
}

const submit = <Reply>(worker: ChildProcess, request: unknown, limits: Limits) =>
  reply<Reply>(worker, limits, () => void worker.send(request as object)).pipe(
    Effect.timeoutOrElse({
      // The worker ends itself after so much time of the processor, but for one that waits.
      duration: Duration.seconds(limits.seconds * maxWallTimeFactor),
      orElse: () => Effect.fail(new WorkerProcessEnded({ reason: `it took longer than ${limits.seconds} s` }))
    })
  )
