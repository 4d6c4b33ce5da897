import { layer } from "@effect/vitest"
import { Effect } from "effect"
import { queryObjects } from "node:v8"
import { Conversation } from "../../src/gateway/wire/openai-realtime/conversation.ts"
import { serviceLayer, TestService } from "../support/service.ts"
import { eventually } from "../support/waiting.ts"
import { openSocket } from "../support/web-socket.ts"

// Looks through all of the memory of the process, which is small here.
layer(serviceLayer({}), { excludeTestServices: true, timeout: "60 seconds" })("a realtime session", (it) => {
  it.effect("that has ended leaves nothing in memory", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const headers = { authorization: `Bearer ${service.serviceKey}` }
      for (let session = 0; session < 3; session++) {
        yield* Effect.scoped(
          Effect.gen(function* () {
            const socket = yield* openSocket(service.url, headers, "/v1/realtime?model=loopback-1")
            socket.send({ type: "response.create" })
            while ((yield* socket.next).type !== "response.done");
          })
        )
      }
      yield* eventually(
        Effect.sync(() => queryObjects(Conversation)),
        (left) => left === 0
      )
    })
  )
})
