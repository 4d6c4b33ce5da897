import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { makeSetting } from "../../support/plans.ts"
import { assertProblem } from "../../support/problem.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { forgedCursor } from "../../support/walk.ts"

interface Row {
  readonly id: string
  readonly model?: string
  readonly actionType?: string
}

/** A tenant whose key, called Zephyr importer, reserved for three models, the last with a user, and settled two of these. */
const makeSpend = Effect.gen(function* () {
  const service = yield* TestService
  const tenantId = yield* makeTenant(service.database)
  const { id: keyId, key } = yield* makeKey(service, ["*:*"], { tenantId, name: "Zephyr importer" })
  const reservations = yield* Effect.forEach(
    [
      ["alpha-large", {}],
      ["beta-large", {}],
      ["beta-small", { userId: "zygmunt" }]
    ] as const,
    ([model, more]) =>
      Effect.map(
        service.call("POST", "/api/spend/reserve", { key, body: { amountUsd: 1, model, ...more } }),
        ({ body }): Row => body
      )
  )
  const charges = yield* Effect.forEach(reservations.slice(1), ({ id }) =>
    Effect.map(
      service.call("POST", "/api/spend/reconcile", { key, body: { reservationId: id, actualUsd: 0.5 } }),
      ({ body }): string => body.charge.id
    )
  )
  const list = (address: string, search: string, more = "") =>
    service.call("GET", `${address}?search=${encodeURIComponent(search)}${more}`, { key })
  const found = (address: string, search: string, more = "") =>
    Effect.map(list(address, search, more), ({ body, status, text }): ReadonlyArray<Row> => {
      assert.strictEqual(status, 200, text)
      return body.items
    })
  return { service, tenantId, keyId, key, reservations, charges, list, found }
})

const models = Effect.map((rows: ReadonlyArray<Row>) => rows.map(({ model }) => model))
const ids = Effect.map((rows: ReadonlyArray<Row>) => rows.map(({ id }) => id))
const actions = Effect.map((rows: ReadonlyArray<Row>) => rows.map(({ actionType }) => actionType))

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("searches", (it) => {
  it.effect("reservations are found by the model, the user, their id and the name of the key that made them", () =>
    Effect.gen(function* () {
      const { found, list, reservations } = yield* makeSpend
      const spend = "/api/spend/reservations"
      const all = ["beta-small", "beta-large", "alpha-large"]
      assert.deepStrictEqual(yield* models(found(spend, "BETA")), ["beta-small", "beta-large"])
      assert.deepStrictEqual(yield* models(found(spend, "beta", "&state=open")), [])
      assert.deepStrictEqual(yield* models(found(spend, "zygmunt")), ["beta-small"])
      assert.deepStrictEqual(yield* models(found(spend, "zephyr")), all)
      assert.deepStrictEqual(yield* models(found(spend, "zephyr", "&sort=createdAt")), all.toReversed())
      assert.deepStrictEqual(yield* models(found(spend, "nothing like it")), [])
      for (const { id } of reservations) assert.deepStrictEqual(yield* ids(found(spend, id)), [id])
      const { body } = yield* list(spend, "large", "&limit=1")
      assert.deepStrictEqual(yield* models(found(spend, "large", `&cursor=${body.nextCursor}`)), ["alpha-large"])
    })
  )

  it.effect("usage is found by the model, the user, the ids of a charge and a reservation, and the name of a key", () =>
    Effect.gen(function* () {
      const { charges, found, list, reservations } = yield* makeSpend
      const usage = "/api/usage"
      assert.deepStrictEqual(yield* models(found(usage, "Beta")), ["beta-small", "beta-large"])
      assert.deepStrictEqual(yield* models(found(usage, "beta", "&userId=zygmunt")), ["beta-small"])
      assert.deepStrictEqual(yield* models(found(usage, "alpha")), [])
      assert.deepStrictEqual(yield* models(found(usage, "zephyr")), ["beta-small", "beta-large"])
      for (const id of charges) assert.deepStrictEqual(yield* ids(found(usage, id.toUpperCase())), [id])
      assert.deepStrictEqual(yield* ids(found(usage, reservations[1]?.id ?? "")), [charges[0]])
      const { body } = yield* list(usage, "beta", "&limit=1")
      assert.deepStrictEqual(yield* models(found(usage, "beta", `&cursor=${body.nextCursor}`)), ["beta-large"])
    })
  )

  it.effect("reservations and usage are found by letters that databases and languages lower in different ways", () =>
    Effect.gen(function* () {
      const { call, settle, tenantId } = yield* makeSetting(yield* TestService)
      const texts = ["İstanbul", "ΟΔΟΣ", "STRASSE ẞ", "Kelvin K"]
      for (const model of texts) {
        const { body } = yield* call("POST", "/api/spend/reserve", { amountUsd: 1, model })
        yield* settle(body.id, 0.5)
      }
      for (const address of ["/api/spend/reservations", "/api/usage"]) {
        for (const model of texts) {
          const search = `${address}?search=${encodeURIComponent(model)}&tenantId=${tenantId}`
          const { body, text } = yield* call("GET", search)
          assert.deepStrictEqual(yield* models(Effect.succeed(body.items)), [model], text)
        }
      }
    })
  )

  it.effect("400: a cursor of usage with a moment that there is not", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const id = "01a20886-b2b2-716e-95b9-4269138023ec"
      const list = (moment: string, more = "") => {
        const cursor = forgedCursor(`/api/usage?${more}`, [moment, id])
        return service.call("GET", `/api/usage?cursor=${cursor}${more}`)
      }
      assert.strictEqual((yield* list("2024-02-29 00:00:00.000001+00")).status, 200)
      for (const moment of ["2026-02-30 00:00:00+00", "2026-02-29 00:00:00.5+00", "0000-01-01 00:00:00+00"]) {
        for (const more of ["", "&search=beta"]) {
          assertProblem(yield* list(moment, more), 400, "validation-failed")
        }
      }
    })
  )

  it.effect("audit entries are found by their action, actor, thing, id and trace", () =>
    Effect.gen(function* () {
      const { found, key, keyId, list, service } = yield* makeSpend
      const audit = "/api/audit-logs"
      const { body: agent } = yield* service.call("POST", "/api/agents", {
        key,
        body: { name: "night crawler", description: "", scopeCeiling: [] }
      })
      yield* service.call("DELETE", `/api/agents/${agent.id}`, { key })
      const both = ["AgentRetired", "AgentRegistered"]
      assert.deepStrictEqual(yield* actions(found(audit, "retired")), ["AgentRetired"])
      assert.deepStrictEqual(yield* actions(found(audit, agent.id.toUpperCase())), both)
      assert.deepStrictEqual(yield* actions(found(audit, "NIGHT crawl")), both)
      assert.includeMembers([...(yield* actions(found(audit, "zephyr")))], both)
      assert.includeMembers([...(yield* actions(found(audit, keyId)))], both)
      assert.includeMembers([...(yield* actions(found(audit, `api-key:${keyId}`)))], both)
      assert.deepStrictEqual(yield* actions(found(audit, "nothing like it")), [])
      const { body } = yield* list(audit, "zephyr", "&limit=1&entityType=Agent")
      assert.deepStrictEqual(yield* actions(Effect.succeed(body.items)), ["AgentRetired"])
      const next = found(audit, "zephyr", `&entityType=Agent&cursor=${body.nextCursor}`)
      assert.deepStrictEqual(yield* actions(next), ["AgentRegistered"])
      const [entry] = body.items
      assert.deepStrictEqual(yield* ids(found(audit, entry.id)), [entry.id])
      assert.include(yield* ids(found(audit, entry.traceId)), entry.id)
      assertProblem(yield* list(audit, " "), 400, "validation-failed")
    })
  )

  it.effect("a tenant's caller finds nothing of another tenant, by no name and no id", () =>
    Effect.gen(function* () {
      const other = yield* makeSpend
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const { key } = yield* makeKey(service, ["*:*"], { tenantId, name: "mine" })
      for (const address of ["/api/spend/reservations", "/api/usage", "/api/audit-logs"]) {
        for (const search of ["zephyr", "beta", other.keyId, other.reservations[1]?.id, other.charges[0]]) {
          const { body, status, text } = yield* service.call("GET", `${address}?search=${search}`, { key })
          assert.strictEqual(status, 200, text)
          assert.deepStrictEqual(body, { items: [], nextCursor: null }, `${address} ${search}`)
        }
      }
    })
  )
})
