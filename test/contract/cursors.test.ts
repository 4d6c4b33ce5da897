import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { signedInService } from "../platform/http/bad-input.ts"
import { makeKey, makeTenant } from "../support/authority.ts"
import { operations } from "../support/operations.ts"
import { assertProblem } from "../support/problem.ts"
import { TestService } from "../support/service.ts"
import { forgedCursor, nextLink } from "../support/walk.ts"

const uuid = "01890a5d-ac96-774b-bcce-b302099a8057"
/** Where a row may be in some list. */
const places = [
  uuid,
  7,
  [uuid, uuid],
  ["1", "key"],
  ["2026-11-24", "openai", "gpt-5"],
  ["2024-02-29 00:00:00.000001+00", uuid],
  { kind: "agent", id: uuid },
  { kind: "api-key", id: uuid },
  { occurredAt: "2026-01-31T09:30:00.000Z", id: uuid }
] as const

const lists = operations
  .filter(({ queryParameters }) => queryParameters.some(({ name }) => name === "cursor"))
  .map(({ address, name, queryParameters }) => {
    const [path = "", needed = ""] = address().split("?")
    return { name, queryParameters, path, needed: needed === "" ? "" : `&${needed}` }
  })

const anotherList = /that one is of another list, or was answered with other filters$/

layer(signedInService, { excludeTestServices: true, timeout: "120 seconds" })("a cursor", (it) => {
  it("belongs to one of many lists", () => assert.isAbove(lists.length, 30))

  for (const list of lists) {
    it.effect(`of another list, or of ${list.name} with other filters, is refused by ${list.name}`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const send = (cursor: string, more = "") =>
          service.call("GET", `${list.path}?cursor=${cursor}${list.needed}${more}`)
        const faultsOf = (cursor: string, more = "") =>
          Effect.map(send(cursor, more), ({ body }): ReadonlyArray<{ path: ReadonlyArray<string>; message: string }> =>
            (body?.errors ?? []).filter(
              ({ path }: { path: ReadonlyArray<string> }) => path.join(".") === "query.cursor"
            )
          )
        const own = `${list.path}?${list.needed}`
        const accepted = yield* Effect.filter(places, (place) =>
          Effect.map(faultsOf(forgedCursor(own, place)), (faults) => faults.length === 0)
        )
        const [place] = accepted
        assert.isDefined(place, "no place is one of this list")
        const others = lists.filter(({ path }) => path !== list.path).map(({ needed, path }) => `${path}?${needed}`)
        const filters = list.queryParameters.flatMap(({ name }) =>
          ["cursor", "limit", "sort"].includes(name) ? [] : [`${own}&${name}=1`]
        )
        for (const address of [...others, ...filters]) {
          const [fault] = yield* faultsOf(forgedCursor(address, place))
          assert.match(fault?.message ?? "none", anotherList, address)
        }
        const sent = yield* send(forgedCursor(others[0] ?? "", place))
        assertProblem(sent, 400, "validation-failed")
        // The size of a page may change, and what is left of a list be read on with the same filters in another order.
        assert.isEmpty(yield* faultsOf(forgedCursor(`${own}&limit=1`, place), "&limit=2"))
      })
    )
  }

  it.effect("goes on where its page ended, with its filters alone", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      for (const name of ["one key", "two keys", "three keys"]) yield* makeKey(service, [], { name, tenantId })
      const list = (query: string) => service.call("GET", `/api/api-keys?${query}`)
      const filter = `tenantId=${tenantId}&search=key`
      const { body } = yield* list(`${filter}&limit=1&sort=name`)
      const behind = (query: string) => list(`${query}&sort=name&cursor=${body.nextCursor}`)
      const same = yield* behind(`search=key&limit=5&tenantId=${tenantId.toUpperCase()}`)
      assert.deepStrictEqual(
        same.body.items.map(({ name }: { readonly name: string }) => name),
        ["three keys", "two keys"]
      )
      for (const other of ["", `tenantId=${tenantId}`, `tenantId=${tenantId}&search=keys`, `${filter}&active=true`]) {
        assertProblem(yield* behind(other), 400, "validation-failed")
      }
    })
  )

  it.effect("of a Link leads on through a search with a question mark", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const name of ["who?", "who? me"]) {
        yield* service.call("POST", "/api/trial-users", {
          body: { firstName: name, lastName: "Linked", email: `${crypto.randomUUID()}@example.com` }
        })
      }
      const first = yield* service.call("GET", "/api/trial-users?search=who?&limit=1")
      const second = yield* service.call("GET", nextLink(first) ?? assert.fail("no next page"))
      assert.deepStrictEqual(
        [first, second].map(({ body }) => body.map(({ firstName }: { readonly firstName: string }) => firstName)),
        [["who?"], ["who? me"]]
      )
    })
  )
})
