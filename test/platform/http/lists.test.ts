import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { forgedCursor } from "../../support/walk.ts"

interface Row {
  readonly id: string
  readonly name: string
}

const withoutCaller = (rows: ReadonlyArray<Row>) => rows.filter(({ name }) => name !== "administrator")
const names = (rows: ReadonlyArray<Row>) => rows.map(({ name }) => name)

/** A tenant with keys of these names, made in this order, and what its administrator lists of them. */
const makeKeys = Effect.fnUntraced(function* (given: ReadonlyArray<string>) {
  const service = yield* TestService
  const tenantId = yield* makeTenant(service.database)
  const { key } = yield* makeKey(service, ["*:*"], { tenantId, name: "administrator" })
  const made = yield* Effect.forEach(given, (name) => makeKey(service, [], { tenantId, name }))
  const list = (query: string) => service.call("GET", `/api/api-keys?${query}`, { key })
  /** Every row of a list, by pages of two. */
  const listAll = Effect.fnUntraced(function* (query: string) {
    const rows: Array<Row> = []
    let cursor = ""
    do {
      const { body, status, text } = yield* list(`${query}&limit=2${cursor}`)
      assert.strictEqual(status, 200, text)
      rows.push(...body.items)
      cursor = body.nextCursor === null ? "" : `&cursor=${body.nextCursor}`
    } while (cursor !== "")
    return rows
  })
  return { tenantId, made, list, listAll, service }
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("lists", (it) => {
  it.effect("search finds text in any case and place, and takes %, _ and \\ for themselves", () =>
    Effect.gen(function* () {
      const { listAll } = yield* makeKeys([
        "Nightly Import",
        "import_daily",
        "100% sure",
        "back\\slash",
        "importXdaily"
      ])
      const found = (search: string) => Effect.map(listAll(`search=${encodeURIComponent(search)}`), names)
      assert.deepStrictEqual(yield* found("IMPORT"), ["Nightly Import", "import_daily", "importXdaily"])
      assert.deepStrictEqual(yield* found("ghtly"), ["Nightly Import"])
      assert.deepStrictEqual(yield* found("t_d"), ["import_daily"])
      assert.deepStrictEqual(yield* found("0%"), ["100% sure"])
      assert.deepStrictEqual(yield* found("%"), ["100% sure"])
      assert.deepStrictEqual(yield* found("k\\s"), ["back\\slash"])
      assert.deepStrictEqual(yield* found(" daily "), ["import_daily", "importXdaily"])
      assert.deepStrictEqual(yield* found("nothing like it"), [])
    })
  )

  it.effect("search finds a row by its id and by how its key begins", () =>
    Effect.gen(function* () {
      const { listAll, made } = yield* makeKeys(["one", "two"])
      for (const { id, start } of made) {
        assert.deepStrictEqual(
          (yield* listAll(`search=${id}`)).map((row) => row.id),
          [id]
        )
        assert.deepStrictEqual(
          (yield* listAll(`search=${start}`)).map((row) => row.id),
          [id]
        )
      }
    })
  )

  it.effect("ids are the rows that alone are listed, with a search, an order and pages as without", () =>
    Effect.gen(function* () {
      const { list, listAll, made } = yield* makeKeys(["one key", "two keys", "three", "other key"])
      const stranger = yield* makeKeys(["of another tenant"])
      const wanted = [made[2], made[0], made[1], stranger.made[0]].map((row) => row?.id).join(",")
      assert.deepStrictEqual(names(yield* listAll(`ids=${wanted}`)), ["one key", "two keys", "three"])
      assert.deepStrictEqual(names(yield* listAll(`ids=${wanted}&sort=-name`)), ["two keys", "three", "one key"])
      assert.deepStrictEqual(names(yield* listAll(`ids=${wanted}&search=${encodeURIComponent(" key")}`)), [
        "one key",
        "two keys"
      ])
      const [one] = made
      for (const wrong of ["", "nobody", `${one?.id},`, Array.from({ length: 101 }, () => one?.id).join(",")])
        assertProblem(yield* list(`ids=${wrong}`), 400, "validation-failed")
      const tooMany = yield* list(`ids=${",".repeat(10_000)}`)
      assertProblem(tooMany, 400, "validation-failed")
      assert.isBelow(tooMany.body.errors.length, 110)
      const service = yield* TestService
      const users = yield* Effect.forEach(["Ids", "Both"], (firstName) =>
        service.call("POST", "/api/trial-users", {
          body: { firstName, lastName: "Listed", email: `${crypto.randomUUID()}@example.com` }
        })
      )
      const numbers = users.map(({ body }) => body.id)
      const listed = yield* service.call("GET", `/api/trial-users?ids=${numbers.join(",")}&sort=-createdAt`)
      assert.deepStrictEqual(
        listed.body.map((user: { readonly id: number }) => user.id),
        numbers.toReversed()
      )
    })
  )

  it.effect("sort orders by a member, both ways, page by page, those with the same value by their ids", () =>
    Effect.gen(function* () {
      const { listAll, made, service } = yield* makeKeys(["beetle", "Ant", "beetle", "cat", "Beetle"])
      const inOrder = ["administrator", "Ant", "beetle", "beetle", "Beetle", "cat"]
      const sorted = yield* listAll("sort=name")
      assert.deepStrictEqual(names(sorted), inOrder)
      assert.deepStrictEqual(yield* listAll("sort=-name"), sorted.toReversed())
      const byId = yield* listAll("")
      assert.deepStrictEqual(names(byId), ["administrator", "beetle", "Ant", "beetle", "cat", "Beetle"])
      assert.deepStrictEqual(yield* listAll("sort=createdAt"), byId)
      assert.deepStrictEqual(yield* listAll("sort=-createdAt"), byId.toReversed())
      assert.deepStrictEqual(names(yield* listAll("sort=name&search=beetle")), ["beetle", "beetle", "Beetle"])
      // Two were used, one a microsecond after the other.
      yield* asSuperuser(
        service.database,
        (sql) => sql`
          UPDATE api_keys SET last_used_at = '2026-01-02 03:04:05.000006Z'::timestamptz + (id = ${made[1]?.id})::integer * interval '1 microsecond'
          WHERE id IN (${made[1]?.id}, ${made[3]?.id})`
      )
      const used = withoutCaller(yield* listAll("sort=lastUsedAt"))
      assert.deepStrictEqual(names(used), ["beetle", "beetle", "Beetle", "cat", "Ant"])
      assert.deepStrictEqual(
        withoutCaller(yield* listAll("sort=-lastUsedAt")).map(({ id }) => id),
        used.map(({ id }) => id).toReversed()
      )
    })
  )

  it.effect("createdFrom includes its moment, createdTo does not", () =>
    Effect.gen(function* () {
      const { list, listAll, service, tenantId } = yield* makeKeys(["one", "two", "three"])
      yield* asSuperuser(
        service.database,
        (sql) => sql`
          UPDATE api_keys SET created_at = CASE name WHEN 'one' THEN '2020-01-01Z' WHEN 'two' THEN '2020-01-02Z' ELSE '2020-01-03Z' END::timestamptz
          WHERE tenant_id = ${tenantId} AND name <> 'administrator'`
      )
      const range = "createdFrom=2020-01-01T00:00:00Z&createdTo=2020-01-03T00:00:00Z"
      assert.deepStrictEqual(names(yield* listAll(range)), ["one", "two"])
      assert.deepStrictEqual(names(yield* listAll(`${range}&sort=-createdAt`)), ["two", "one"])
      assert.deepStrictEqual(names(yield* listAll("createdTo=2020-01-02T00:00:00Z")), ["one"])
      assert.deepStrictEqual(names(yield* listAll("createdFrom=2020-01-03T00:00:00Z")), ["administrator", "three"])
      const backwards = yield* list("createdFrom=2020-01-03T00:00:00Z&createdTo=2020-01-01T00:00:00Z")
      assertProblem(backwards, 400, "validation-failed")
      assert.deepStrictEqual(backwards.body.errors, [
        { path: ["query", "createdFrom"], message: "Expected a moment before `createdTo`" }
      ])
    })
  )

  it.effect("400: a cursor of another order says of which, an unknown sort which there are", () =>
    Effect.gen(function* () {
      const { list } = yield* makeKeys(["one", "two"])
      const { body } = yield* list("sort=-createdAt&limit=1")
      const other = yield* list(`sort=name&cursor=${body.nextCursor}`)
      assertProblem(other, 400, "validation-failed")
      assert.deepStrictEqual(other.body.errors, [
        {
          path: ["query", "cursor"],
          message: "The cursor is of a list with sort=-createdAt: send it with the same sort"
        }
      ])
      assertProblem(yield* list(`cursor=${body.nextCursor}`), 400, "validation-failed")
      const plain = yield* list("limit=1")
      const late = yield* list(`sort=name&cursor=${plain.body.nextCursor}`)
      assert.include(late.body.detail, "The cursor is of a list without sort")
      const unknown = yield* list("sort=expiresAt")
      assertProblem(unknown, 400, "validation-failed")
      assert.include(unknown.body.detail, '"-createdAt"')
      for (const forged of [
        ["name"],
        ["name", "a"],
        ["lastUsedAt", "now", body.items[0].id],
        ["lastUsedAt", "9".repeat(18), body.items[0].id],
        ["createdAt", "", 1]
      ]) {
        const cursor = forgedCursor("/api/api-keys", forged)
        assertProblem(yield* list(`sort=${forged[0]}&cursor=${cursor}`), 400, "validation-failed")
      }
      for (const search of ["", "%20", "x".repeat(201), "%00"])
        assertProblem(yield* list(`search=${search}`), 400, "validation-failed")
    })
  )

  it.effect("a tenant's caller finds nothing of another tenant, whatever the search and the order", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const other = yield* makeKeys(["Quixotic import"])
      const { list, listAll } = yield* makeKeys(["mine"])
      assert.deepStrictEqual((yield* list("search=quixotic")).body, { items: [], nextCursor: null })
      assert.deepStrictEqual((yield* list(`search=${other.made[0]?.id}`)).body.items, [])
      assert.deepStrictEqual(names(yield* listAll("sort=-createdAt")), ["mine", "administrator"])
      const all = yield* service.call("GET", "/api/api-keys?search=quixotic")
      assert.deepStrictEqual(names(all.body.items), ["Quixotic import"])
    })
  )
})
