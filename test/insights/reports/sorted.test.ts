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
      const spend = yield* service.call("GET", `/api/insights/spend-by-model?${range}&keys=free,unknown,cheap`, { key })
      assert.deepStrictEqual(spend.body.items, [
        { key: "free", costUsd: 0, requests: 1 },
        { key: "cheap", costUsd: 0.000000002, requests: 2 }
      ])
      // A day that divides hours is read from rows, and so is a filter beside the dimension.
      const part = `from=2026-01-05T09:30:00Z&to=2026-01-05T10:00:01Z&tenantId=${tenantId}`
      for (const [dimension, keys] of [
        ["model", "dear"],
        ["tenant", tenantId]
      ]) {
        const { body } = yield* service.call(
          "GET",
          `/api/insights/spend-by-${dimension}?${part}&model=dear&keys=${keys}`
        )
        assert.deepStrictEqual(body.items, [{ key: keys, costUsd: 0.000000003, requests: 1 }])
      }
      const many = Array.from({ length: 101 }, String).join(",")
      for (const keys of ["", ",", many])
        assertProblem(
          yield* service.call("GET", `/api/insights/spend-by-model?keys=${keys}`, { key }),
          400,
          "validation-failed"
        )
      const { body } = yield* page("sort=-requests&limit=1")
      for (const sort of ["", "sort=requests&"])
        assertProblem(yield* page(`${sort}cursor=${body.nextCursor}`), 400, "validation-failed")
    })
  )
})
