import "./json-parse.ts"
import { flushCompileCache } from "node:module"
import { Worker } from "node:worker_threads"

/**
 * The loop of the module of a worker process, which replies to each request. Apart from `worker-process.ts`, so that such a
 * process loads no Effect.
 */
export const replyWith = <Request, Reply>(reply: (request: Request) => Reply): void => {
  // The service ends its workers itself, after the requests that need them.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => {})
  const seconds = Number(process.argv[2])
  const limit = new Worker(new URL("./processor-limit.ts", import.meta.url), { workerData: seconds })
  limit.unref()
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  const setBusy = (isBusy: boolean) => limit.postMessage(isBusy)
  process.on("message", (request: Request) => {
    setBusy(true)
    process.send?.(reply(request))
    setBusy(false)
  })
  process.send?.("ready")
  // Node writes it at the end of a process, but not where that is killed.
  flushCompileCache()
}
