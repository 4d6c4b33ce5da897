import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import OpenAI from "openai"
import { ResponsesWS } from "openai/resources/responses/ws"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("/v1/responses by WebSocket", (it) => {
  it.effect("answers a request with the events of its response", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: service.serviceKey, maxRetries: 0 })
      const events = yield* Effect.promise(async () => {
        const socket = new ResponsesWS(client)
        const types: Array<string> = []
        socket.send({ type: "response.create", model: "loopback-1", input: "Hello" })
        for await (const event of socket.stream()) {
          if (event.type === "message") types.push(event.message.type)
          if (event.type === "message" && event.message.type === "response.completed") socket.close()
          if (event.type === "error") break
        }
        return types
      })
      assert.strictEqual(events[0], "response.created")
      assert.strictEqual(events.at(-1), "response.completed")
    }).pipe(Effect.scoped)
  )
})
