import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as crypto from "node:crypto"
import { makeAgent, tokenOf } from "../../support/agents.ts"
import { makeKey, makeTenant, refusesStrangers } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { make } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

const path = "/api/budgets/caps-that-apply"
const unknownId = "0198a5b0-7c00-7000-8000-00000000002a"

interface Applicable {
  readonly use: {
    readonly tenantId: string | null
    readonly name: string
    readonly spent: number
    readonly headroom: number
    readonly state: string
    readonly scope: object
  }
  readonly dependsOn: ReadonlyArray<string>
}

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(path, (it) => {
  refusesStrangers(it, [{ name: "get", method: "GET", path, capability: "budgets:read", systemOnly: false }])

  const setting = Effect.gen(function* () {
    const service = yield* TestService
    const tenantId = yield* makeTenant(service.database)
    const owner = (yield* makeKey(service, ["*:*"], { tenantId })).key
    const cap = (body: object, key: string | undefined = owner) =>
      make(service, "/api/budgets/caps", { unit: "usd", limit: 10, period: "month", ...body }, key)
    const spend = Effect.fnUntraced(function* (amountUsd: number, of: object) {
      const reserved = yield* make(service, "/api/spend/reserve", { amountUsd, ...of }, owner)
      const body = { reservationId: reserved.id, actualUsd: amountUsd }
      assert.strictEqual((yield* service.call("POST", "/api/spend/reconcile", { key: owner, body })).status, 200)
    })
    const applying = Effect.fnUntraced(function* (query: string, key: string = owner) {
      const { body, status, text } = yield* service.call("GET", `${path}?${query}`, { key })
      assert.strictEqual(status, 200, text)
      return body as { readonly fullOverAllTenants: boolean; readonly items: ReadonlyArray<Applicable> }
    })
    return { applying, cap, owner, service, spend, tenantId }
  })

  it.effect(
    "has every cap that counts an agent's requests with what it has left, the fullest first, then those of some",
    () =>
      Effect.gen(function* () {
        const { applying, cap, service, spend, tenantId } = yield* setting
        const agent = yield* makeAgent(service, { tenantId })
        const other = yield* makeAgent(service, { tenantId })
        yield* cap({ name: "all" })
        yield* cap({ name: "each", limit: 4, scope: { agentId: "each" } })
        yield* cap({ name: "own", limit: 2, scope: { agentId: agent.id } })
        yield* cap({ name: "another's", scope: { agentId: other.id } })
        yield* cap({ name: "on a model", limit: 8, scope: { agentId: agent.id, model: "large" } })
        yield* cap({ name: "on each model", scope: { model: "each" } })
        yield* cap({ name: "paused", status: "paused" })
        yield* spend(1, { agentId: agent.id, model: "large" })
        yield* spend(3, { agentId: other.id, model: "small" })
        const { items } = yield* applying(`agentId=${agent.id}`)
        const shown = items.map(({ dependsOn, use: { headroom, name, spent } }) => [
          name,
          spent,
          headroom,
          dependsOn.join()
        ])
        assert.deepStrictEqual(shown.slice(0, 3), [
          ["own", 1, 1, ""],
          ["all", 4, 6, ""],
          ["each", 1, 3, ""]
        ])
        assert.sameDeepMembers(shown.slice(3), [
          ["on a model", 1, 7, "model"],
          ["on each model", 3, 7, "model"],
          ["on each model", 1, 9, "model"]
        ])
        assert.deepInclude(items[2]?.use.scope, { agentId: agent.id })
        const onModel = (yield* applying(`agentId=${agent.id}&model=large`)).items
        assert.deepStrictEqual(
          onModel.map(({ dependsOn, use: { name, spent } }) => [name, spent, dependsOn.length]),
          [
            ["own", 1, 0],
            ["all", 4, 0],
            ["each", 1, 0],
            ["on a model", 1, 0],
            ["on each model", 1, 0]
          ]
        )
      })
  )

  it.effect("asks about a key with its tenant and its application, and before anything was spent", () =>
    Effect.gen(function* () {
      const { applying, cap, service, tenantId } = yield* setting
      const { id: applicationId } = yield* make(service, "/api/applications", { name: `app ${crypto.randomUUID()}` })
      const wanted = { name: "of the application", scopes: ["llm:complete"], tenantId, applicationId }
      const key = yield* make(service, "/api/api-keys", wanted)
      yield* cap({ name: "of the application", scope: { applicationId } })
      yield* cap({ name: "of each key", limit: 3, scope: { apiKeyId: "each" } })
      yield* cap({ name: "of an agent", scope: { agentId: "each" } })
      for (const caller of [undefined, service.serviceKey]) {
        const { items } = yield* applying(`apiKeyId=${key.id}`, caller)
        assert.deepStrictEqual(
          items
            // Other tests have caps over all tenants.
            .filter(({ use }) => use.tenantId !== null)
            .map(({ dependsOn, use: { headroom, name, state } }) => [name, headroom, state, dependsOn.join()]),
          [
            ["of the application", 10, "ok", ""],
            ["of each key", 3, "ok", ""]
          ]
        )
      }
    })
  )

  it.effect("shows a tenant's caller nothing of a cap over all tenants but that one is full", () =>
    Effect.gen(function* () {
      const { applying, cap, service, spend, tenantId } = yield* setting
      const userId = crypto.randomUUID()
      yield* cap({ name: `everybody with ${userId}`, limit: 1, scope: { userId }, tenantId: null }, service.serviceKey)
      assert.isFalse((yield* applying(`userId=${userId}`)).fullOverAllTenants)
      yield* spend(1, { userId })
      const own = yield* applying(`userId=${userId}`)
      assert.isTrue(own.fullOverAllTenants)
      assert.notInclude(JSON.stringify(own), "everybody")
      const system = yield* applying(`userId=${userId}&tenantId=${tenantId}`, service.serviceKey)
      assert.deepStrictEqual(
        system.items.filter(({ use }) => use.name.includes(userId)).map(({ use }) => use.state),
        ["exhausted"]
      )
    })
  )

  it.effect("an agent sees caps on itself and on its tenant, and none on another agent", () =>
    Effect.gen(function* () {
      const { cap, service, tenantId } = yield* setting
      const agent = yield* makeAgent(service, { scopeCeiling: ["budgets:read"], tenantId })
      const other = yield* makeAgent(service, { tenantId })
      yield* cap({ name: "own", scope: { agentId: agent.id } })
      yield* cap({ name: "another's", scope: { agentId: other.id } })
      yield* cap({ name: "all" })
      const { accessToken } = yield* tokenOf(service, agent)
      const headers = { authorization: `Bearer ${accessToken}` }
      const asked = yield* service.call("GET", path, { key: null, headers })
      assert.sameMembers(
        asked.body.items.map(({ use }: Applicable) => use.name),
        ["own", "all"]
      )
    })
  )

  it.effect("404: an agent or a key that the caller may not see; another tenant has none", () =>
    Effect.gen(function* () {
      const { applying, service } = yield* setting
      const stranger = yield* setting
      const agent = yield* makeAgent(service, { tenantId: stranger.tenantId })
      const key = yield* makeKey(service, ["llm:complete"], { tenantId: stranger.tenantId })
      const { owner } = yield* setting
      const call = (query: string) => service.call("GET", `${path}?${query}`, { key: owner })
      for (const id of [agent.id, unknownId]) assertProblem(yield* call(`agentId=${id}`), 404, "agent-not-found")
      for (const id of [key.id, unknownId]) assertProblem(yield* call(`apiKeyId=${id}`), 404, "api-key-not-found")
      assert.deepStrictEqual((yield* applying(`tenantId=${stranger.tenantId}`)).items, [])
    })
  )
})
