import { parentPort } from "node:worker_threads"

/** What a thread's module does: it answers each request, and says first that it is ready. */
export const answerWith = <Request, Reply>(answer: (request: Request) => Reply): void => {
  const send = (message: Reply | "ready") => {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
    parentPort?.postMessage(message)
  }
  parentPort?.on("message", (request: Request) => send(answer(request)))
  send("ready")
}
