import { assert, describe, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { type Page } from "playwright-core"
import { bearer, makeAccount, signIn } from "../support/accounts.ts"
import { makeKey, makeTenant } from "../support/authority.ts"
import { assertQuiet, Browser, executablePath, openConsole, openWindow, settled, step } from "../support/browser.ts"
import { makeDatabase } from "../support/database.ts"
import { configure, model, provider } from "../support/gateway.ts"
import { writeUsage } from "../support/insights.ts"
import { json, sse, startProvider } from "../support/provider.ts"
import { sharedServiceLayer, startService, TestService } from "../support/service.ts"

const press = (page: Page, name: string) => step(() => page.getByRole("button", { name, exact: true }).click())

const delta = (content: string) => ({ id: "1", choices: [{ index: 0, delta: { content } }] })

const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString()

describe.skipIf(executablePath === undefined)("money in the console", () => {
  layer(Layer.merge(sharedServiceLayer, Browser.layer), { excludeTestServices: true, timeout: "60 seconds" })((it) => {
    it.effect("a cap is made, fills its three parts, holds what is beyond until it is approved, and is deleted", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const taskType = `task-${crypto.randomUUID()}`
        // An approver does not decide on its own request.
        const { key } = yield* makeKey(service, ["spend:*"])
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit("/caps")
        yield* step(() => page.getByRole("button", { name: "Create a cap" }).first().click())
        const form = page.getByRole("dialog", { name: "Create a cap" })
        yield* step(() => form.getByLabel("Name").fill("Ten dollars for one task"))
        yield* step(() => form.getByLabel("Limit").fill("10"))
        yield* step(() => form.getByLabel("When exceeded").selectOption("approval"))
        yield* step(() => form.getByText("Limit it to an application, provider, task type or user").click())
        yield* step(() => form.getByLabel("Task type").fill(taskType))
        const [made] = yield* step(() =>
          Promise.all([
            page.waitForResponse((answer) => answer.request().method() === "POST"),
            form.getByRole("button", { name: "Create the cap" }).click()
          ])
        )
        const { id } = yield* step(() => made.json())

        const reserve = (amountUsd: number) =>
          service.call("POST", "/api/spend/reserve", { key, body: { amountUsd, taskType, ttlSeconds: 3600 } })
        const { body: first } = yield* reserve(6)
        yield* service.call("POST", "/api/spend/reconcile", { key, body: { reservationId: first.id, actualUsd: 6 } })
        yield* reserve(3)
        yield* window.visit(`/caps/${id}`)
        const meter = page.getByRole("meter", { name: "Ten dollars for one task" })
        assert.strictEqual(
          yield* step(() => meter.getAttribute("aria-valuetext")),
          "$6.00 spent, $3.00 reserved, $1.00 free"
        )
        assert.deepStrictEqual(
          yield* step(() => meter.locator("i").evaluateAll((parts) => parts.map((part) => part.style.width))),
          ["60%", "30%"]
        )

        const { body: held, status } = yield* reserve(5)
        assert.strictEqual(status, 202)
        yield* window.visit("/approvals")
        const row = page.getByRole("row").filter({ hasText: taskType })
        yield* step(() => row.getByRole("button", { name: "Approve" }).click())
        yield* press(page, "Approve and raise Ten dollars for one task by $4.00")
        yield* step(() => row.waitFor({ state: "detached" }))
        const { body: approved } = yield* service.call("GET", `/api/spend/reservations/${held.id}`)
        assert.strictEqual(approved.state, "open")

        yield* window.visit(`/caps/${id}`)
        yield* press(page, "Delete")
        yield* press(page, "Delete the cap")
        yield* step(() => page.waitForURL("**/console/caps"))
        assert.strictEqual((yield* service.call("GET", `/api/budgets/caps/${id}`)).status, 404)
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("one person alone goes from the first cap to a denial that is found, and to an approval", () =>
      Effect.gen(function* () {
        const service = yield* startService(yield* makeDatabase)
        const account = yield* makeAccount(service, ["*:*"])
        const window = yield* openWindow(service)
        const { page } = window
        const value = yield* signIn(service, account)
        yield* step(() => window.context.addCookies([{ name: "am_session", value, url: service.url, httpOnly: true }]))
        const { body: made } = yield* service.call("POST", "/api/api-keys", {
          ...bearer(value),
          body: { name: "nightly", scopes: ["llm:*"] }
        })
        const key: string = made.key
        const ask = () =>
          service.call("POST", "/v1/chat/completions", {
            key,
            body: { model: "loopback-1", max_tokens: 50_000, messages: [{ role: "user", content: "Hello" }] }
          })
        yield* window.visit("/")
        yield* step(() => page.getByText("First steps").waitFor())
        yield* step(() => page.getByRole("link", { name: "Create a cap" }).first().click())
        const form = page.getByRole("dialog", { name: "Create a cap" })
        yield* step(() => form.getByLabel("Name").fill("A few cents"))
        yield* step(() => form.getByLabel("Limit").fill("0.05"))
        yield* step(() => form.getByRole("button", { name: "Create the cap" }).click())
        yield* step(() => form.waitFor({ state: "detached" }))
        assert.strictEqual((yield* ask()).status, 402)

        yield* window.visit("/")
        yield* step(() => page.getByText("1 refused").waitFor())
        yield* step(() => page.getByRole("link", { name: "View" }).click())
        const refused = page.getByRole("region", { name: "Refused requests" })
        yield* step(() => refused.getByRole("row", { name: "key nightly" }).first().waitFor())
        yield* step(() => refused.getByRole("link", { name: "A few cents" }).click())
        yield* step(() => page.getByText("The amount is more than it ever allows").click())
        yield* step(() => page.getByRole("heading", { name: "What was requested" }).waitFor())

        yield* step(() => page.goBack())
        yield* press(page, "Edit")
        yield* step(() => page.getByLabel("When exceeded").selectOption("approval"))
        yield* press(page, "Save")
        yield* step(() => page.getByRole("dialog").waitFor({ state: "detached" }))
        const held = yield* ask()
        assert.strictEqual(held.body.error.code, "approval_required")
        const id = held.headers.get("x-reservation-id") ?? ""

        yield* window.visit("/approvals")
        yield* step(() => page.locator("tbody").getByRole("button", { name: "Approve" }).click())
        const dialog = page.getByRole("dialog", { name: /Approve/ })
        assert.include(yield* step(() => dialog.innerText()), id)
        yield* step(() => dialog.getByLabel("Key of the service account").fill("not the key"))
        yield* step(() => dialog.getByRole("button", { name: /^Approve and raise A few cents by/ }).click())
        yield* step(() => dialog.getByRole("alert").waitFor())
        yield* step(() => dialog.getByLabel("Key of the service account").fill(service.serviceKey))
        yield* step(() => dialog.getByRole("button", { name: /^Approve and raise A few cents by/ }).click())
        yield* step(() => dialog.waitFor({ state: "detached" }))
        const answer = yield* service.call("POST", "/v1/chat/completions", {
          key,
          headers: { "x-reservation-id": id },
          body: { model: "loopback-1", max_tokens: 50_000, messages: [{ role: "user", content: "Hello" }] }
        })
        assert.strictEqual(answer.status, 200, answer.text)
        yield* settled(page)
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("an address is tested with a key that is kept nowhere, and a configured model answers in a chat", () =>
      Effect.gen(function* () {
        const service = yield* startService(yield* makeDatabase, { Llm__Gateway__AllowPrivateAddresses: "true" })
        const standIn = yield* startProvider((request, response) => {
          if (request.method === "GET") {
            json(response, 200, { data: [{ id: "small", object: "model", owned_by: "the-vendor" }] })
            return
          }
          sse(response, [
            delta("It is "),
            delta("noon."),
            { id: "1", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
            { id: "1", choices: [], usage: { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 } },
            "data: [DONE]\n\n"
          ])
          response.end()
        })
        yield* configure(service, [provider("vendor", standIn)], [model("small", ["vendor"])])
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit("/gateway")
        yield* press(page, "Add a provider")
        const form = page.getByRole("dialog", { name: "Add a provider" })
        yield* step(() => form.getByLabel("Base URL").fill(`${standIn.url}/v1`))
        yield* step(() => form.getByLabel("API key").fill("sk-only-in-the-page"))
        yield* step(() => form.getByRole("button", { name: "Test and list models" }).click())
        yield* step(() => form.getByText("It answers").waitFor())
        assert.strictEqual(standIn.requests.at(-1)?.headers.authorization, "Bearer sk-only-in-the-page")
        yield* step(() => form.getByRole("checkbox", { name: "small", exact: true }).waitFor())
        yield* step(() => form.getByRole("button", { name: "Cancel" }).click())

        // With its stored key a provider is tested by who has a key of the installation.
        const row = page.getByRole("row").filter({ hasText: standIn.url })
        yield* step(() => row.getByRole("button", { name: "Test" }).click())
        const stored = page.getByRole("dialog", { name: "Test vendor" })
        yield* step(() => stored.getByLabel("Key of the service account").fill(service.serviceKey))
        yield* step(() => stored.getByRole("button", { name: "List models" }).click())
        yield* step(() => stored.getByText("the-vendor").waitFor())
        const kept = yield* step(() => page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage })))
        assert.notInclude(kept, "sk-only-in-the-page")

        yield* window.visit("/try?model=small")
        yield* step(() => page.getByLabel("Message").fill("What time is it?"))
        yield* step(() => page.keyboard.press("Enter"))
        const answer = page.getByRole("article", { name: "small" })
        yield* step(() => answer.getByText("$0.0003").waitFor())
        const text = yield* step(() => answer.innerText())
        assert.match(text, /^It is noon\./)
        assert.match(text, /100 in, 10 out/)
        assert.match(text, /vendor\/small/)
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("agents show what they spent and are sorted by it, which the address says, and lead to their usage", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const tenantId = yield* makeTenant(service.database)
        const { key } = yield* makeKey(service, ["*:*"], { tenantId })
        const made = (name: string) =>
          Effect.map(service.call("POST", "/api/agents", { key, body: { name, scopeCeiling: [] } }), ({ body }) => body)
        const [dear, cheap] = yield* Effect.all([made("dear"), made("cheap"), made("idle")])
        yield* writeUsage(service.database, tenantId, [
          { at: daysAgo(2), agent_id: dear.id, cost: 3_000_000_000 },
          { at: daysAgo(3), agent_id: cheap.id, cost: 1_000_000_000 },
          { at: daysAgo(40), agent_id: cheap.id, cost: 9_000_000_000 }
        ])
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit(`/agents?tenantId=${tenantId}&sort=name`)
        const rows = page.locator("tbody tr")
        const shown = step(async () => {
          await page.waitForFunction(() => /\$/.test(document.querySelector("tbody tr")?.textContent ?? ""))
          const texts = await rows.allInnerTexts()
          return texts.map((text) => [/^\w+/.exec(text)?.[0], /\$[\d.]+/.exec(text)?.[0]])
        })
        assert.deepStrictEqual(yield* shown, [
          ["cheap", "$1.00"],
          ["dear", "$3.00"],
          ["idle", "$0.00"]
        ])
        yield* step(() => page.getByRole("button", { name: "Spend, 30 days" }).click())
        yield* step(() => page.locator("th[aria-sort=descending]", { hasText: "Spend" }).waitFor())
        yield* settled(page)
        assert.include(page.url(), "sort=-spend")
        assert.deepStrictEqual(yield* shown, [
          ["dear", "$3.00"],
          ["cheap", "$1.00"]
        ])
        yield* window.visit(`/agents?tenantId=${tenantId}&sort=-spend&search=e`)
        assert.deepStrictEqual(yield* shown, [
          ["dear", "$3.00"],
          ["cheap", "$1.00"],
          ["idle", "$0.00"]
        ])
        yield* step(() => rows.first().getByRole("link", { name: "$3.00" }).click())
        yield* step(() => page.waitForURL(`**/usage?agentId=${dear.id}`))
        yield* settled(page)
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("usage is shown by day and model against the period before, narrowed, and exported", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const tenantId = yield* makeTenant(service.database)
        const call = { method: "provider_usage", latency_ms: 800, status: 200, provider: "vendor" }
        yield* writeUsage(service.database, tenantId, [
          { ...call, at: daysAgo(2), model: "large", cost: 3_000_000_000 },
          { ...call, at: daysAgo(3), model: "large", cost: 3_000_000_000, status: 500 },
          { ...call, at: daysAgo(3), model: "small", cost: 2_000_000_000 },
          { ...call, at: daysAgo(40), model: "large", cost: 4_000_000_000 }
        ])
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit(`/usage?tenantId=${tenantId}&compare=previous`)
        yield* step(() => page.locator(".chart canvas").waitFor())
        const table = page.getByRole("region", { name: "Cost by model" })
        const cells = (name: string) =>
          step(() => table.getByRole("row").filter({ hasText: name }).getByRole("cell").allInnerTexts())
        assert.deepStrictEqual((yield* cells("large")).slice(1, 5), ["$6.00", "75.0 %", "$4.00", "+50 %"])
        assert.includeMembers(yield* cells("large"), ["2", "50.00 %"])
        assert.deepStrictEqual((yield* cells("small")).slice(1, 5), ["$2.00", "25.0 %", "$0.00", "new"])

        yield* step(() => table.getByRole("link", { name: "small" }).click())
        yield* step(() => table.getByText("large").waitFor({ state: "detached" }))
        assert.include(page.url(), "model=small")
        const [download] = yield* step(() =>
          Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Export requests" }).click()])
        )
        const exported = yield* step(async () => {
          const chunks: Array<Buffer> = []
          for await (const chunk of await download.createReadStream()) chunks.push(chunk as Buffer)
          return Buffer.concat(chunks).toString("utf8")
        })
        assert.lengthOf(exported.trim().split("\n"), 2)
        assert.include(exported, "small")
        yield* settled(page)
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )
  })
})
