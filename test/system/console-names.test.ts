import { assert, describe, layer } from "@effect/vitest"
import { DateTime, Effect, Layer } from "effect"
import * as crypto from "node:crypto"
import { bearer, makeAccount, signIn } from "../support/accounts.ts"
import { assertQuiet, Browser, executablePath, openConsole, settled, step } from "../support/browser.ts"
import { writeUsage } from "../support/insights.ts"
import { sharedServiceLayer, TestService } from "../support/service.ts"

const unique = (name: string): string => `${name} ${crypto.randomUUID().slice(0, 8)}`

const make = Effect.fnUntraced(function* (service: TestService["Service"], path: string, body: object) {
  const answer = yield* service.call("POST", path, { body })
  assert.strictEqual(answer.status, 201, answer.text)
  return answer.body
})

describe.skipIf(executablePath === undefined)("names in the console", () => {
  layer(Layer.merge(sharedServiceLayer, Browser.layer), { excludeTestServices: true, timeout: "120 seconds" })((it) => {
    it.effect("agents of one name are told apart by their tenants, and another one is named alone", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const [one, other] = [unique("Initech"), unique("Acme")]
        const [same, single] = [unique("cleaner"), unique("writer")]
        const tenants = [
          yield* make(service, "/api/tenants", { name: one }),
          yield* make(service, "/api/tenants", { name: other })
        ]
        const yesterday = DateTime.formatIso(DateTime.subtract(yield* DateTime.now, { days: 1 }))
        const caps: Array<string> = []
        for (const { id: tenantId } of tenants) {
          for (const name of tenantId === tenants[0]?.id ? [same, single] : [same]) {
            const { id: agentId } = yield* make(service, "/api/agents", { name, tenantId })
            const cap = { name: unique("cap"), unit: "usd", limit: 5, period: "month", tenantId, scope: { agentId } }
            caps.push((yield* make(service, "/api/budgets/caps", cap)).id)
            yield* writeUsage(service.database, tenantId, [{ at: yesterday, cost: 1_000_000_000, agent_id: agentId }])
          }
        }
        const window = yield* openConsole(service)
        const { page } = window
        // Names come after what they are part of.
        const leads = [`agent ${same} · ${one};`, `agent ${single} · ${one};`, `agent ${same} · ${other};`]
        for (const [place, lead] of leads.entries()) {
          yield* window.visit(`/caps/${caps[place]}`)
          yield* step(() => page.locator(".head p").filter({ hasText: lead }).waitFor())
        }
        yield* window.visit("/reservations")
        const options = page.getByLabel("Agent", { exact: true }).locator("option")
        for (const name of [`${same} · ${one}`, `${same} · ${other}`, single]) {
          yield* step(() => options.filter({ hasText: `Agent: ${name}` }).waitFor({ state: "attached" }))
        }
        yield* window.visit("/usage?by=agent")
        for (const name of [`${same} · ${one}`, `${same} · ${other}`, single]) {
          yield* step(() => page.locator("tbody").getByText(name, { exact: true }).waitFor())
        }
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("the audit log names accounts, keys, the service account and what was changed", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const ada = yield* makeAccount(service, ["*:*"], { name: unique("Ada") })
        const { body: account } = yield* service.call("GET", `/api/accounts/${ada.id}`)
        const key = yield* make(service, "/api/api-keys", { name: unique("robot"), scopes: ["*:*"] })
        const tenant = yield* make(service, "/api/tenants", { name: unique("Of names") })
        const path = `/api/tenants/${tenant.id}`
        const renamed = unique("Renamed")
        yield* service.call("PATCH", path, bearer(yield* signIn(service, ada), { body: { settings: { a: 1 } } }))
        yield* service.call("PATCH", path, { key: key.key, body: { name: renamed } })
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit(`/tenants/${tenant.id}`)
        yield* step(() => page.getByRole("link", { name: "History" }).click())
        const rows = page.locator("tbody tr")
        for (const [at, who] of [`key ${key.name}`, account.name, "Service account"].entries()) {
          yield* step(() => rows.nth(at).getByText(who, { exact: true }).waitFor())
          yield* step(() => rows.nth(at).getByText(renamed).waitFor())
        }
        assert.notMatch(yield* step(() => page.innerText("main")), /account:|api-key:|[\da-f]{8}-[\da-f]{4}/)
        yield* step(() => rows.nth(1).getByRole("button", { name: account.name }).click())
        yield* step(() => page.waitForURL("**userId=account**"))
        yield* step(() => page.locator(".pill").getByText(account.name).waitFor())
        yield* settled(page)
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("the audit log names the plan of an agent", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const agent = yield* make(service, "/api/agents", { name: unique("planner") })
        const name = unique("Migration")
        const plan = yield* make(service, `/api/agents/${agent.id}/plans`, { name, budgetUsd: 1 })
        const window = yield* openConsole(service)
        yield* window.visit(`/audit?entityType=Plan&entityId=${plan.id}`)
        yield* step(() => window.page.locator("tbody").getByText(name, { exact: true }).first().waitFor())
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("a month's bill is per tenant, beside the month before", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const [one, other] = [unique("Initech"), unique("Acme")]
        const month = DateTime.startOf(yield* DateTime.now, "month")
        const at = (months: number) => DateTime.formatIso(DateTime.subtract(month, { months, hours: -12 }))
        for (const [name, costs] of [
          [one, [3, 2]],
          [other, [0, 5]]
        ] as const) {
          const { id } = yield* make(service, "/api/tenants", { name })
          const rows = costs.map((cost, back) => ({ at: at(back + 1), cost: cost * 1_000_000_000, model: "large" }))
          yield* writeUsage(
            service.database,
            id,
            rows.filter(({ cost }) => cost > 0)
          )
        }
        const window = yield* openConsole(service, ["insights:read"])
        yield* window.visit(`/billing?month=${at(1).slice(0, 7)}`)
        const rows = window.page.getByRole("region", { name: "Bill per tenant" }).locator("tbody tr")
        for (const [name, now, before, change] of [
          [one, "$3.00", "$2.00", "+50 %"],
          [other, "$0.00", "$5.00", "-100 %"]
        ] as const) {
          const row = rows.filter({ hasText: name })
          yield* step(() => row.waitFor())
          const cells = yield* step(() => row.locator("td, th").allInnerTexts())
          assert.deepStrictEqual(cells.slice(-3), [now, before, change])
        }
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )
  })
})
