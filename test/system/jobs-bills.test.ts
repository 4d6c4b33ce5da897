import { assert, describe, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { type Locator, type Page } from "playwright-core"
import { checkLooks, checkShown } from "../console/pages.ts"
import { makeTenant } from "../support/authority.ts"
import { assertQuiet, Browser, executablePath, openConsole, settled, step } from "../support/browser.ts"
import { writeUsage } from "../support/insights.ts"
import { doJob } from "../support/jobs.ts"
import { openAiAdminKey, startVendorBills } from "../support/provider-bills.ts"
import { sharedServiceLayer, TestService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"

const button = (page: Page, name: string | RegExp): Locator => page.getByRole("button", { name }).last()
const link = (page: Page, name: string): Locator => page.getByRole("link", { name }).first()

const dayMillis = 86_400_000
const looks = [
  [1280, "light"],
  [360, "dark"]
] as const

/** A day of which figures are final, and its month. */
const settledDay = () => new Date(Date.now() - 6 * dayMillis).toISOString().slice(0, 10)
const monthName = (day: string) =>
  new Intl.DateTimeFormat("en-GB", { month: "long", year: "numeric", timeZone: "UTC" }).format(new Date(day))

describe.skipIf(executablePath === undefined)("jobs about providers' bills", () => {
  layer(Layer.merge(sharedServiceLayer, Browser.layer), { excludeTestServices: true, timeout: "90 seconds" })((it) => {
    it.effect("the operator finds out why a bill is higher than what was charged, and whom to ask", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const vendor = yield* startVendorBills
        const day = settledDay()
        const tenantId = yield* makeTenant(service.database)
        yield* writeUsage(service.database, tenantId, [
          {
            at: `${day}T10:00:00Z`,
            provider: "openai",
            model: "gpt-5",
            input_tokens: 1_000_000,
            output_tokens: 0,
            cost: 2_000_000_000
          }
        ])
        // As a call that the gateway priced itself.
        yield* asSuperuser(
          service.database,
          (sql) => sql`
            UPDATE usage_rows SET operation = 'chat', rates = '{"input":"2000000000","output":"8000000000"}'
            WHERE tenant_id = ${tenantId}`
        )
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit("/reconciliation")
        yield* step(() => page.getByText("No provider has an admin key").first().waitFor())
        yield* checkLooks(window, "/reconciliation", looks)
        yield* step(() => page.setViewportSize({ width: 1280, height: 800 }))

        // The key is given where the empty page leads to.
        yield* step(() => page.getByRole("link", { name: "Providers" }).last().click())
        yield* settled(page)
        yield* step(() => button(page, "Add a provider").click())
        const form = page.getByRole("dialog", { name: "Add a provider" })
        yield* step(() => form.getByLabel("Vendor").selectOption({ label: "OpenAI" }))
        yield* step(() => form.getByLabel("Base URL").fill(`${vendor.url}/v1`))
        yield* step(() => form.getByLabel("Admin key").fill(openAiAdminKey))
        yield* step(() => form.getByRole("button", { name: "Add the provider" }).click())
        yield* step(() => form.waitFor({ state: "detached" }))
        const stored = yield* service.call("GET", "/api/llm/admin/config")
        assert.match(stored.text, /"adminKey":"secret:/)
        yield* step(() =>
          page
            .getByRole("row", { name: /openai/ })
            .getByRole("button", { name: "Change" })
            .click()
        )
        const change = page.getByRole("dialog", { name: "Change openai" })
        yield* step(() => change.getByLabel("Another admin key").waitFor())
        yield* step(() => change.getByRole("button", { name: "Save" }).click())
        yield* step(() => change.waitFor({ state: "detached" }))
        const kept = yield* service.call("GET", "/api/llm/admin/config")
        assert.deepStrictEqual(kept.body.providers[0].billing, stored.body.providers[0].billing)
        vendor.openAiCosts = [{ day, item: "gpt-5-2025-08-07, input", amount: "3.5", key: "key_1" }]
        vendor.openAiUsage = [
          { day, model: "gpt-5-2025-08-07", input: 1_000_000, output: 0, requests: 1, key: "key_1" }
        ]
        yield* window.visit("/")
        const isThisMonth = day.slice(0, 7) === new Date().toISOString().slice(0, 7)
        yield* doJob(window, { name: "compare a bill", clicks: isThisMonth ? 2 : 3 }, ({ choose, click, sees }) =>
          Effect.gen(function* () {
            yield* click(link(page, "Provider bills"))
            yield* settled(page)
            if (!isThisMonth) yield* choose(page.getByLabel("Month"), `Month: ${monthName(day)}`)
            yield* click(button(page, "Read them now"))
            yield* step(() => page.getByRole("cell", { name: /gpt-5/ }).first().waitFor())
            yield* sees(page.getByText("$3.50").first())
            yield* sees(page.getByText("$1.50").first())
            yield* sees(page.getByText(/input is billed at 3\.5 and charged at 2/))
            yield* sees(page.getByText("finding", { exact: true }))
          })
        )
        yield* checkShown(page, "a bill that differs")
        yield* checkLooks(window, `/reconciliation?month=${day.slice(0, 7)}`, looks)
        yield* step(() => page.setViewportSize({ width: 1280, height: 800 }))

        // It is among the anomalies, which lead back to it, and in the billing report.
        yield* window.visit("/anomalies")
        yield* step(() =>
          page
            .getByRole("cell", { name: /unexplained bill/ })
            .first()
            .waitFor()
        )
        yield* step(() => page.getByRole("main").getByRole("link", { name: "openai" }).first().click())
        yield* settled(page)
        yield* step(() => page.getByText(/input is billed at 3\.5 and charged at 2/).waitFor())
        yield* window.visit(`/billing?month=${day.slice(0, 7)}`)
        yield* step(() => page.getByText(/The provider says \$3\.50 for 1 day /).waitFor())

        // The provider is not read: the page says why.
        vendor.answer = (_, response) => {
          response.writeHead(403, { "content-type": "application/json" }).end("{}")
          return true
        }
        yield* window.visit(`/reconciliation?month=${day.slice(0, 7)}`)
        yield* step(() => button(page, "Read them now").click())
        yield* step(() => page.getByText(/does not let the admin key read usage and costs/).waitFor())
        yield* step(() => page.getByText("$3.50").first().waitFor())
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("who is of a tenant has no such page, and is answered why", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const window = yield* openConsole(service, ["*:*"], { tenantId: yield* makeTenant(service.database) })
        const { page } = window
        yield* window.visit("/")
        assert.strictEqual(yield* step(() => page.getByRole("link", { name: "Provider bills" }).count()), 0)
        yield* window.visit("/reconciliation")
        yield* step(() => page.getByText(/This page is about the whole installation/).waitFor())
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )
  })
})
