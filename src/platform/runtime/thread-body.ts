import { parentPort } from "node:worker_threads"
import "../../kernel/json/json-parse.ts"

/** The loop of a thread's module, which replies to each request. Apart from `thread.ts`, so that a thread loads no Effect. */
export const replyWith = <Request, Reply>(reply: (request: Request) => Reply): void => {
  const send = (message: Reply | "ready") => {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
    parentPort?.postMessage(message)
  }
  parentPort?.on("message", (request: Request) => send(reply(request)))
  send("ready")
}
