import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

interface Item {
  readonly name: string
  readonly percentUsed: number
}

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("caps by use", (it) => {
  it.effect("are sorted by the share of the limit and its grants that is spent, page by page", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const { key } = yield* makeKey(service, ["*:*"], { tenantId })
      const post = (address: string, body: object) => service.call("POST", address, { key, body })
      const cap = (name: string, limit: number, more: object = {}) =>
        Effect.map(
          post("/api/budgets/caps", { name, unit: "usd", limit, period: "month", mode: "soft", ...more }),
          ({ body }): string => body.id
        )
      yield* cap("half", 8)
      yield* cap("unused", 8, { scope: { model: "other" } })
      yield* cap("rolling", 5, { period: "rolling", windowSeconds: 3600 })
      yield* cap("over", 2)
      const raised = yield* cap("raised", 1)
      yield* cap("each", 10, { scope: { model: "each" } })
      yield* post(`/api/budgets/caps/${raised}/grants`, { amount: 39, reason: "Month-end close" })
      for (const [model, actualUsd] of [
        ["large", 3],
        ["small", 1]
      ] as const) {
        const { body } = yield* post("/api/spend/reserve", { amountUsd: actualUsd, model })
        yield* post("/api/spend/reconcile", { reservationId: body.id, actualUsd })
      }
      const page = (query: string) => service.call("GET", `/api/budgets/caps-status?${query}`, { key })
      /** Every item of the list, by pages of two. */
      const listAll = Effect.fnUntraced(function* (sort: string) {
        const items: Array<Item> = []
        let cursor = ""
        do {
          const { body, status, text } = yield* page(`sort=${sort}&limit=2${cursor}`)
          assert.strictEqual(status, 200, text)
          items.push(...body.items)
          cursor = body.nextCursor === null ? "" : `&cursor=${body.nextCursor}`
        } while (cursor !== "")
        return items
      })
      const wanted = [
        ["over", 200],
        ["rolling", 80],
        ["half", 50],
        ["each", 30],
        ["each", 10],
        ["raised", 10],
        ["unused", 0]
      ]
      for (const sort of ["-percentUsed", "percentUsed"]) {
        const items = yield* listAll(sort)
        const shares = items.map(({ percentUsed }) => percentUsed)
        assert.deepStrictEqual(
          shares,
          shares.toSorted((one, other) => (sort === "percentUsed" ? one - other : other - one))
        )
        assert.sameDeepMembers(
          items.map(({ name, percentUsed }) => [name, percentUsed]),
          wanted
        )
      }
      const { body } = yield* page("limit=1")
      assertProblem(yield* page(`sort=percentUsed&cursor=${body.nextCursor}`), 400, "validation-failed")
      const byUse = yield* page("sort=-percentUsed&limit=1")
      assertProblem(yield* page(`cursor=${byUse.body.nextCursor}`), 400, "validation-failed")
      assertProblem(yield* page(`sort=percentUsed&cursor=${byUse.body.nextCursor}`), 400, "validation-failed")
    })
  )
})
