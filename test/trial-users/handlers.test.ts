import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { serviceLayer, TestService } from "../support/service.ts"

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("trial users over HTTP", (it) => {
  const ada = { firstName: "Ada", lastName: "Lovelace", email: "ada@example.com", organization: "Analytical Engines" }

  it.effect("201: creates a trial user, active, for 30 days, without its organization", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const created = yield* service.call("POST", "/api/trial-users", { body: ada })
      assert.strictEqual(created.status, 201)
      assert.strictEqual(created.headers.get("location"), `/api/trial-users/${created.body.id}`)
      assert.deepInclude(created.body, { firstName: "Ada", lastName: "Lovelace", email: "ada@example.com" })
      assert.deepInclude(created.body, { isActive: true, emailVerified: false })
      assert.notProperty(created.body, "organization")
      const days = (Date.parse(created.body.trialEndDate) - Date.parse(created.body.trialStartDate)) / 86_400_000
      assert.strictEqual(days, 30)
    })
  )
})
