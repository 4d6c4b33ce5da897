import { assert, describe, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { type Locator, type Page } from "playwright-core"
import { checkShown } from "../console/pages.ts"
import { makeAgent } from "../support/agents.ts"
import { makeKey, makeTenant } from "../support/authority.ts"
import { assertQuiet, Browser, executablePath, openConsole, settled, step } from "../support/browser.ts"
import { writeUsage } from "../support/insights.ts"
import { doJob } from "../support/jobs.ts"
import { make } from "../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../support/service.ts"

const narrow = { width: 360, height: 800 }
const ordinary = { width: 1280, height: 800 }
const financeCapabilities = ["insights:read", "budgets:read", "agents:read", "audit-logs:read"]

/** A moment in the middle of the last calendar month. */
const lastMonth = () => {
  const now = new Date()
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 1, 15, 12)).toISOString()
}

const named = (name: string) => `${name} ${crypto.randomUUID().slice(0, 8)}`

const setting = Effect.gen(function* () {
  const service = yield* TestService
  const tenantId = yield* makeTenant(service.database)
  const owner = (yield* makeKey(service, ["*:*"], { tenantId })).key
  const name = named("data-cleaner")
  const agent = yield* makeAgent(service, { name, tenantId })
  return { agent, name, owner, service, tenantId }
})

const button = (page: Page, name: string | RegExp): Locator => page.getByRole("button", { name }).last()
const link = (page: Page, name: string): Locator => page.getByRole("link", { name }).first()

const isFocused = (field: Locator) => step(() => field.evaluate((element) => element === document.activeElement))

describe.skipIf(executablePath === undefined)("jobs about money", () => {
  layer(Layer.merge(sharedServiceLayer, Browser.layer), { excludeTestServices: true, timeout: "90 seconds" })((it) => {
    for (const [role, members] of [
      ["the operator", {}],
      ["a tenant's operator", { ofTenant: true }]
    ] as const) {
      it.effect(`${role} gives an agent a cap of $5 a month, and sees first what last month would have cost`, () =>
        Effect.gen(function* () {
          const { agent, name, service, tenantId } = yield* setting
          yield* writeUsage(service.database, tenantId, [
            { at: lastMonth(), agent_id: agent.id, cost: 2_500_000_000 },
            { at: lastMonth(), cost: 9_000_000_000 }
          ])
          const own = "ofTenant" in members ? { tenantId } : {}
          const window = yield* openConsole(service, ["*:*"], own)
          const { page } = window
          yield* window.visit("/")
          yield* doJob(window, { name: "set a cap", clicks: 4 }, ({ click, sees, type }) =>
            Effect.gen(function* () {
              yield* click(link(page, "Agents"))
              yield* settled(page)
              yield* click(page.getByRole("main").getByRole("link", { name }).first())
              yield* settled(page)
              yield* click(button(page, "Set a cap"))
              const dialog = page.getByRole("dialog", { name: `Set a cap for ${name}` })
              yield* sees(dialog.getByText(/it would have counted \$2\.50/))
              yield* sees(dialog.getByText(/It counts from now on; earlier spend does not count/))
              yield* type(dialog.getByLabel("Limit"), "5")
              yield* click(button(page, "Create the cap"))
              yield* step(() => dialog.waitFor({ state: "detached" }))
              yield* sees(page.getByText(/\$0\.00 of \$5\.00 each month/))
            })
          )
          const { items } = (yield* service.call("GET", `/api/budgets/caps?agentId=${agent.id}`)).body
          assert.lengthOf(items, 1)
          assert.deepInclude(items[0], {
            tenantId,
            name: `${name}, monthly`,
            unit: "usd",
            limit: 5,
            period: "month",
            scope: { agentId: agent.id },
            mode: "hard"
          })
          assertQuiet(window)
        }).pipe(Effect.scoped)
      )
    }

    it.effect("the same in a narrow window, from the agent's page", () =>
      Effect.gen(function* () {
        const { agent, name, service } = yield* setting
        const window = yield* openConsole(service)
        const { page } = window
        yield* step(() => page.setViewportSize(narrow))
        yield* window.visit(`/agents/${agent.id}`)
        yield* doJob(window, { name: "set a cap at 360 px", clicks: 2 }, ({ click, type }) =>
          Effect.gen(function* () {
            yield* click(button(page, "Set a cap"))
            const dialog = page.getByRole("dialog", { name: `Set a cap for ${name}` })
            yield* checkShown(page, "the dialog of a cap")
            yield* type(dialog.getByLabel("Limit"), "5")
            yield* click(button(page, "Create the cap"))
            yield* step(() => dialog.waitFor({ state: "detached" }))
          })
        )
        yield* step(() => page.getByText(/\$0\.00 of \$5\.00 each month/).waitFor())
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect(
      "Caps: the tenant follows the agent, names that repeat have their tenant, and a fault is shown at its field",
      () =>
        Effect.gen(function* () {
          const { agent, name, service, tenantId } = yield* setting
          const { id: elsewhere } = yield* make(service, "/api/tenants", { name: named("Elsewhere") })
          const twin = yield* makeAgent(service, { name, tenantId: elsewhere })
          const application = yield* make(service, "/api/applications", { name: named("to be deleted") })
          const window = yield* openConsole(service)
          const { page } = window
          yield* window.visit("/caps")
          yield* step(() => page.getByRole("button", { name: "Create a cap" }).first().click())
          const dialog = page.getByRole("dialog", { name: "Create a cap" })
          assert.isTrue(yield* isFocused(dialog.getByLabel("Tenant")))
          const agents = dialog.getByLabel("Agent")
          const texts = yield* step(() => agents.locator("option").allTextContents())
          assert.lengthOf(new Set(texts.filter((text) => text.startsWith(`${name} · `))), 2)
          yield* step(() => agents.selectOption(twin.id))
          assert.strictEqual(yield* step(() => dialog.getByLabel("Tenant").inputValue()), elsewhere)
          yield* step(() => dialog.getByLabel("Tenant").selectOption(tenantId))
          assert.strictEqual(yield* step(() => agents.inputValue()), "")
          yield* step(() => agents.selectOption(agent.id))

          // An application that is deleted meanwhile is a fault of the field, which was closed and above what is seen.
          yield* step(() => dialog.getByText("Limit it to an application, provider, task type or user").click())
          yield* step(() => dialog.getByLabel("Application").selectOption(String(application.id)))
          yield* step(() => dialog.getByText("Limit it to an application, provider, task type or user").click())
          yield* step(() => dialog.getByLabel("Limit").fill("5"))
          assert.strictEqual((yield* service.call("DELETE", `/api/applications/${application.id}`)).status, 204)
          yield* step(() => page.setViewportSize({ width: 1280, height: 400 }))
          yield* doJob(window, { name: "a fault in sight", clicks: 1 }, ({ click, sees }) =>
            Effect.gen(function* () {
              yield* click(button(page, "Create the cap"))
              yield* sees(dialog.locator("small.fault").filter({ hasText: /application/i }))
              yield* sees(dialog.getByLabel("Application"))
            })
          )
          assert.isTrue(yield* isFocused(dialog.getByLabel("Application")))
          yield* checkShown(page, "a refused cap")
          for (const size of [ordinary, narrow]) {
            yield* step(() => page.setViewportSize(size))
            yield* checkShown(page, `a refused cap at ${size.width} px`)
          }
          assertQuiet(window)
        }).pipe(Effect.scoped)
    )

    it.effect("what a cap denies is found from Home, with the cap, what was asked for and what was left", () =>
      Effect.gen(function* () {
        const { agent, name, owner, service, tenantId } = yield* setting
        const scope = { agentId: agent.id }
        const capName = `${name}, daily`
        yield* make(service, "/api/budgets/caps", { name: capName, unit: "usd", limit: 1, period: "day", scope }, owner)
        for (const amountUsd of [2, 3, 4]) {
          const body = { amountUsd, agentId: agent.id }
          assert.strictEqual((yield* service.call("POST", "/api/spend/reserve", { key: owner, body })).status, 402)
        }
        for (const [capabilities, size] of [
          [["*:*"], ordinary],
          [financeCapabilities, narrow]
        ] as const) {
          const window = yield* openConsole(service, capabilities, { tenantId })
          const { page } = window
          yield* step(() => page.setViewportSize(size))
          yield* window.visit("/")
          yield* doJob(window, { name: "see it deny", clicks: 1 }, ({ click, sees }) =>
            Effect.gen(function* () {
              yield* click(link(page, "View"))
              yield* settled(page)
              const row = page.getByRole("row").filter({ hasText: capName })
              yield* step(() => row.first().waitFor())
              const text = yield* step(() => row.first().innerText())
              assert.match(text, /1 so far/)
              assert.match(text, /Asked for: \$2\.00; limit: \$1\.00; spent: \$0\.00; reserved: \$0\.00; resets/)
              if (size === ordinary) yield* sees(row.first())
            })
          )
          assertQuiet(window)
        }
      }).pipe(Effect.scoped)
    )

    for (const size of [ordinary, narrow]) {
      it.effect(`a held reservation is approved, and its cap raised by what the button says, at ${size.width} px`, () =>
        Effect.gen(function* () {
          const { agent, name, owner, service, tenantId } = yield* setting
          const cap = { name: "Asks first", unit: "usd", limit: 1, period: "month", mode: "approval" }
          const { id: capId } = yield* make(service, "/api/budgets/caps", cap, owner)
          const asking = (yield* makeKey(service, ["spend:*"], { tenantId, name: "nightly" })).key
          const body = { amountUsd: 1.45, agentId: agent.id, model: "gpt-5", taskType: "review", ttlSeconds: 3600 }
          const held = yield* service.call("POST", "/api/spend/reserve", { key: asking, body })
          assert.strictEqual(held.status, 202, held.text)
          const window = yield* openConsole(service, ["*:*"], { tenantId })
          const { page } = window
          yield* step(() => page.setViewportSize(size))
          yield* window.visit("/")
          yield* doJob(window, { name: "approve", clicks: 3 }, ({ click, sees }) =>
            Effect.gen(function* () {
              yield* click(link(page, "Review"))
              yield* settled(page)
              yield* click(page.getByRole("row").filter({ hasText: name }).getByRole("button", { name: "Approve" }))
              const dialog = page.getByRole("dialog", { name: "Approve $1.45" })
              for (const text of [name, "gpt-5", "review", "key nightly"]) yield* sees(dialog.getByText(text).first())
              yield* sees(dialog.getByText(/lacks \$0\.45: \$0\.00 of \$1\.00 is spent/))
              yield* checkShown(page, "the dialog of an approval")
              yield* click(button(page, "Approve and raise Asks first by $0.45"))
              yield* step(() => dialog.waitFor({ state: "detached" }))
            })
          )
          const { body: approved } = yield* service.call("GET", `/api/spend/reservations/${held.body.id}`)
          assert.strictEqual(approved.state, "open")
          const { items } = (yield* service.call("GET", `/api/budgets/caps/${capId}/grants`)).body
          assert.deepStrictEqual(
            items.map(({ amount }: { readonly amount: number }) => amount),
            [0.45]
          )
          assertQuiet(window)
        }).pipe(Effect.scoped)
      )
    }

    it.effect(
      "an approval promises no raise that it cannot make, and fits a ceiling; who may not raise or approve reads why",
      () =>
        Effect.gen(function* () {
          const { agent, name, owner, service, tenantId } = yield* setting
          const cap = { unit: "usd", limit: 1, period: "month" }
          yield* make(service, "/api/budgets/caps", { ...cap, name: "Asks first", mode: "approval" }, owner)
          const asking = (yield* makeKey(service, ["spend:*"], { tenantId })).key
          const body = { amountUsd: 3, agentId: agent.id, ttlSeconds: 3600 }
          assert.strictEqual((yield* service.call("POST", "/api/spend/reserve", { key: asking, body })).status, 202)
          yield* make(service, "/api/budgets/caps", { ...cap, name: "Stays", limit: 2 }, owner)
          const window = yield* openConsole(service, ["*:*"], { tenantId })
          const { page } = window
          yield* window.visit("/approvals")
          yield* step(() =>
            page.getByRole("row").filter({ hasText: name }).getByRole("button", { name: "Approve" }).click()
          )
          const dialog = page.getByRole("dialog", { name: "Approve $3.00" })
          yield* step(() => dialog.getByText(/It is a hard cap, which no approval raises/).waitFor())
          assert.isTrue(yield* step(() => dialog.getByRole("button", { name: "Approve", exact: true }).isDisabled()))
          yield* checkShown(page, "an approval that cannot be made")
          yield* step(() => dialog.getByLabel("Ceiling in US dollars").fill("1.5"))
          yield* step(() => dialog.getByRole("button", { name: "Approve and raise Asks first by $0.50" }).click())
          yield* step(() => dialog.waitFor({ state: "detached" }))
          assertQuiet(window)

          const reader = yield* openConsole(service, financeCapabilities, { tenantId })
          yield* reader.visit(`/agents/${agent.id}`)
          const set = reader.page.getByRole("button", { name: "Set a cap" })
          assert.strictEqual(yield* step(() => set.getAttribute("title")), "Needs the capability budgets:write")
          yield* step(() => reader.page.getByText("Asks first").first().waitFor())
          assertQuiet(reader)
        }).pipe(Effect.scoped)
    )
  })
})
