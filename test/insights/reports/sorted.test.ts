import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { writeUsage } from "../../support/insights.ts"
import { assertProblem } from "../../support/problem.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("costs by a dimension", (it) => {
  it.effect("are sorted by cost, or by another sum, page by page", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const { key } = yield* makeKey(service, ["*:*"], { tenantId })
      const at = "2026-01-05T10:00:00Z"
      yield* writeUsage(service.database, tenantId, [
        { at, cost: 3, model: "dear" },
        { at, cost: 1, model: "cheap" },
        { at, cost: 1, model: "cheap" },
        { at, cost: 0, model: "free" }
      ])
      const range = "from=2026-01-05T00:00:00Z&to=2026-01-06T00:00:00Z"
      const page = (query: string) => service.call("GET", `/api/insights/by-model?${range}&${query}`, { key })
      /** The keys of all items, by pages of one. */
      const keys = Effect.fnUntraced(function* (sort: string) {
        const found: Array<string> = []
        let cursor = ""
        do {
          const { body, status, text } = yield* page(`${sort}&limit=1${cursor}`)
          assert.strictEqual(status, 200, text)
          found.push(...body.items.map((item: { readonly key: string }) => item.key))
          cursor = body.nextCursor === null ? "" : `&cursor=${body.nextCursor}`
        } while (cursor !== "")
        return found
      })
      assert.deepStrictEqual(yield* keys(""), ["dear", "cheap", "free"])
      assert.deepStrictEqual(yield* keys("sort=-costUsd"), ["dear", "cheap", "free"])
      assert.deepStrictEqual(yield* keys("sort=costUsd"), ["free", "cheap", "dear"])
      assert.deepStrictEqual(yield* keys("sort=-requests"), ["cheap", "dear", "free"])
      assert.deepStrictEqual(yield* keys("sort=requests"), ["dear", "free", "cheap"])
      const byDay = yield* service.call("GET", `/api/insights/by-day?${range}&sort=-requests&limit=1`, { key })
      assert.strictEqual(byDay.body.items[0].requests, 4)
      const { body } = yield* page("sort=-requests&limit=1")
      for (const sort of ["", "sort=requests&"])
        assertProblem(yield* page(`${sort}cursor=${body.nextCursor}`), 400, "validation-failed")
    })
  )
})
