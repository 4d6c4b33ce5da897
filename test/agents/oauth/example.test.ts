import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { agentToken } from "../../examples/agent-token.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("the script of the README", (it) => {
  it.effect("goes the whole way of an agent, to the revoked end", () =>
    Effect.gen(function* () {
      const { serviceKey, url } = yield* TestService
      const said: Array<string> = []
      yield* Effect.promise(() => agentToken(url, serviceKey, (line) => void said.push(line)))
      assert.strictEqual(said.length, 4)
      assert.include(said[2], '"active":true')
      assert.include(said[3], '{"active":false}')
    })
  )
})
