import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { sse } from "./provider.ts"

/** A provider that begins to answer and never ends. */
export const endless = (_: unknown, response: Parameters<typeof sse>[0]) =>
  sse(response, [{ choices: [{ index: 0, delta: { role: "assistant", content: "It is" }, finish_reason: null }] }])

/** Begins a stream and answers when its first bytes are there; at the end of the scope it is given up. */
export const beginStream = (url: string, key: string, model = "gpt") =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const controller = new AbortController()
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        signal: controller.signal,
        headers: { "x-api-key": key, "content-type": "application/json" },
        body: JSON.stringify({ model, stream: true, max_tokens: 30, messages: [{ role: "user", content: "?" }] })
      })
      assert.strictEqual(response.status, 200)
      await response.body?.getReader().read()
      return controller
    }),
    (controller) => Effect.sync(() => controller.abort())
  )
