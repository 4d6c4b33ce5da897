import { assert, describe, layer } from "@effect/vitest"
import { Effect } from "effect"
import { type Locator, type Page } from "playwright-core"
import { checkLooks } from "../console/pages.ts"
import { makeKey, makeTenant } from "../support/authority.ts"
import {
  assertQuiet,
  Browser,
  consolePaths,
  executablePath,
  openConsole,
  settled,
  step,
  type Window
} from "../support/browser.ts"
import { makeDatabase } from "../support/database.ts"
import { ask, configure, model, provider } from "../support/gateway.ts"
import { writeUsage } from "../support/insights.ts"
import { doJob } from "../support/jobs.ts"
import { json, startProvider } from "../support/provider.ts"
import { startService, type TestService } from "../support/service.ts"
import { openAiVendor } from "../support/vendors.ts"
import { eventually } from "../support/waiting.ts"

type Service = TestService["Service"]

const day = 86_400_000
const daysAgo = (days: number) => new Date(Date.now() - days * day).toISOString()
const month = (back: number) => {
  const now = new Date()
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back, 15, 12)).toISOString()
}

const reading = ["insights:read", "budgets:read", "spend:read", "agents:read"]
/** Who does a job: an operator, a tenant's operator, and somebody from finance. */
const roles = (tenantId: string) =>
  [
    ["an operator", ["*:*"], {}],
    ["a tenant's operator", ["*:*"], { tenantId }],
    ["finance", reading, {}]
  ] as const
const widths = [1280, 360] as const

const agents = (service: Service, key: string, names: ReadonlyArray<string>) =>
  Effect.forEach(names, (name) =>
    Effect.map(
      service.call("POST", "/api/agents", { key, body: { name, scopeCeiling: [] } }),
      ({ body }) => body.id as string
    )
  )

/** A service of its own with a tenant whose calls go to a provider that fails with an error. */
const setting = Effect.gen(function* () {
  const service = yield* startService(yield* makeDatabase)
  const standIn = yield* startProvider(openAiVendor)
  yield* configure(service, [provider("vendor", standIn)], [model("gpt", ["vendor"])])
  const tenantId = yield* makeTenant(service.database)
  const { key } = yield* makeKey(service, ["*:*"], { tenantId })
  return { key, service, standIn, tenantId }
})

const open = Effect.fnUntraced(function* (
  service: Service,
  capabilities: ReadonlyArray<string>,
  members: object,
  width: number
) {
  const window = yield* openConsole(service, capabilities, { ...members })
  yield* step(() => window.page.setViewportSize({ width, height: 800 }))
  return window
})

/** Goes to a page of the navigation, which a narrow window has in a menu. */
const goTo = (page: Page, click: (target: Locator) => Effect.Effect<void>, name: string, width: number) =>
  Effect.gen(function* () {
    if (width < 861) yield* click(page.getByRole("button", { name: "Menu" }))
    yield* click(page.getByRole("navigation").getByRole("link", { name, exact: true }))
  })

const forEachRole = <E, R>(
  tenantId: string,
  work: (
    who: string,
    capabilities: ReadonlyArray<string>,
    members: object,
    width: (typeof widths)[number]
  ) => Effect.Effect<void, E, R>
) =>
  Effect.forEach(roles(tenantId), ([who, capabilities, members]) =>
    Effect.forEach(widths, (width) => work(who, capabilities, members, width))
  )

const quiet = (window: Window) =>
  Effect.andThen(
    settled(window.page),
    Effect.sync(() => assertQuiet(window))
  )

describe.skipIf(executablePath === undefined)("jobs with requests and figures", () => {
  layer(Browser.layer, { excludeTestServices: true, timeout: "60 seconds" })((it) => {
    it.effect("why did a call fail: from Home to the reason, and to the next request by keyboard", () =>
      Effect.gen(function* () {
        const { key, service, standIn, tenantId } = yield* setting
        yield* ask(service, key, { max_tokens: 30 })
        standIn.answer = (_, response) =>
          json(response, 429, { error: { code: "rate_limit_exceeded", message: "No." } })
        yield* ask(service, key, { max_tokens: 30 })
        standIn.answer = (_, response) =>
          json(response, 400, { error: { code: "context_length_exceeded", message: "" } })
        yield* ask(service, key, { max_tokens: 30 })
        // Reports come a few seconds after the calls.
        yield* eventually(
          service.call("GET", `/api/insights/overview?tenantId=${tenantId}`),
          ({ body }) => body.totals.errors === 2
        )
        yield* forEachRole(tenantId, (who, capabilities, members, width) =>
          Effect.gen(function* () {
            const window = yield* open(service, capabilities, members, width)
            const { page } = window
            yield* window.visit("/")
            const panel = page.getByRole("region", { name: "Request", exact: true })
            yield* doJob(window, { name: `J11 ${who} ${width}`, clicks: 2 }, ({ click, press, sees }) =>
              Effect.gen(function* () {
                yield* click(page.getByRole("link", { name: /^2 failed/ }))
                yield* step(() => page.waitForURL("**/requests?failed=true"))
                const rows = page.getByRole("region", { name: "Requests" }).locator("tbody tr")
                yield* step(() => rows.nth(1).waitFor())
                yield* settled(page)
                assert.strictEqual(yield* step(() => rows.count()), 2)
                yield* click(rows.first().getByRole("link").first())
                yield* sees(panel.getByText("The request is longer than the model's context.").first())
                yield* press("j")
                yield* sees(panel.getByText("The provider's rate limit is reached.").first())
                yield* press("k")
                yield* sees(panel.getByText("The request is longer than the model's context.").first())
              })
            )
            // Its address has all of it, with the list beside it or without.
            assert.match(page.url(), /\/requests\/[\da-f-]{36}\?failed=true&panel=1$/)
            yield* step(() => page.keyboard.press("Escape"))
            yield* step(() => panel.waitFor({ state: "detached" }))
            yield* step(() => page.keyboard.press("Enter"))
            yield* step(() => panel.waitFor())
            yield* step(() => panel.getByRole("link", { name: "Open as a page" }).click())
            yield* step(() => page.getByRole("heading", { name: "Request", level: 1 }).waitFor())
            yield* step(() => page.getByText("context_length_exceeded").first().waitFor())
            yield* quiet(window)
          }).pipe(Effect.scoped)
        )
      }).pipe(Effect.scoped)
    )

    it.effect("a request's page and panel have no axe violation and do not overflow, in both themes and widths", () =>
      Effect.gen(function* () {
        const { key, service, standIn, tenantId } = yield* setting
        yield* service.call("POST", "/api/budgets/caps", {
          body: { tenantId, name: "Everything", unit: "usd", period: "month", limit: 10 }
        })
        standIn.answer = (_, response) =>
          json(response, 400, { error: { code: "context_length_exceeded", message: "" } })
        yield* ask(service, key, { max_tokens: 30 })
        standIn.answer = openAiVendor
        const answer = yield* ask(service, key, { max_tokens: 30 })
        const id = answer.headers.get("x-reservation-id")
        const looks = widths.flatMap((width) => [[width, "light"] as const, [width, "dark"] as const])
        const window = yield* openConsole(service)
        yield* checkLooks(window, `/requests/${id}`, looks)
        for (const text of ["Everything", "Price per million", "Attempts at providers"]) {
          yield* step(() => window.page.getByText(text).first().waitFor())
        }
        yield* checkLooks(window, `/requests/${id}?panel=1`, looks)
        yield* checkLooks(window, "/requests?failed=true", looks)
      }).pipe(Effect.scoped)
    )

    it.effect("who spent most last week, on which model", () =>
      Effect.gen(function* () {
        const { key, service, tenantId } = yield* setting
        const [dear, cheap] = yield* agents(service, key, ["dear", "cheap"])
        const call = { status: 200, provider: "vendor", latency_ms: 10 }
        yield* writeUsage(service.database, tenantId, [
          { ...call, at: daysAgo(2), agent_id: dear!, model: "large", cost: 3_000_000_000 },
          { ...call, at: daysAgo(3), agent_id: dear!, model: "small", cost: 1_000_000_000 },
          { ...call, at: daysAgo(3), agent_id: cheap!, model: "large", cost: 2_000_000_000 },
          { ...call, at: daysAgo(20), agent_id: cheap!, model: "small", cost: 9_000_000_000 }
        ])
        yield* forEachRole(tenantId, (who, capabilities, members, width) =>
          Effect.gen(function* () {
            const window = yield* open(service, capabilities, members, width)
            const { page } = window
            yield* window.visit("/")
            const first = (name: string) =>
              page
                .getByRole("region", { name: `Cost by ${name}` })
                .locator("tbody tr")
                .first()
            yield* doJob(window, { name: `J5 ${who} ${width}`, clicks: 4 }, ({ choose, click, sees }) =>
              Effect.gen(function* () {
                yield* click(page.getByRole("link", { name: "Spend in 30 days" }))
                yield* choose(page.getByLabel("Range"), "7d")
                yield* choose(page.getByLabel("Group by"), "agent")
                yield* settled(page)
                yield* click(first("agent").getByRole("link", { name: "dear" }))
                yield* step(() => first("model").getByText("$3.00").waitFor())
                yield* settled(page)
                assert.include(yield* step(() => first("model").innerText()), "large")
                yield* sees(first("model").getByText("$3.00"))
              })
            )
            yield* quiet(window)
          }).pipe(Effect.scoped)
        )
      }).pipe(Effect.scoped)
    )

    it.effect(
      "figures answer the pointer and typing: exact amounts, bars that lead on, a legend, a search, old figures",
      () =>
        Effect.gen(function* () {
          const { key, service, tenantId } = yield* setting
          yield* agents(service, key, ["searched for", "another"])
          yield* writeUsage(service.database, tenantId, [
            { at: daysAgo(1), model: "large", cost: 3_000_000_000, status: 200 },
            { at: daysAgo(1), model: "tiny", cost: 29_312_770, status: 200 },
            { at: daysAgo(2), model: "large", cost: 5_000, status: 500 }
          ])
          const window = yield* openConsole(service, ["*:*"], { tenantId })
          const { page } = window
          yield* window.visit("/requests")
          const costs = page.locator("tbody tr td:nth-child(6) span")
          assert.deepStrictEqual(yield* step(() => costs.allInnerTexts()), ["$0.0293", "$3.00", "< $0.0001"])
          const titles = yield* step(() => costs.evaluateAll((all) => all.map((one) => one.getAttribute("title"))))
          assert.deepStrictEqual(titles, ["$0.02931277", "$3.00", "$0.000005"])

          yield* window.visit("/usage?range=7d")
          const chart = page.getByRole("img", { name: /^Cost by day and model/ })
          yield* step(() => chart.locator("canvas").waitFor())
          const tiny = page.getByRole("group", { name: "Shown in the chart" }).getByRole("button", { name: "tiny" })
          yield* step(() => tiny.click())
          assert.strictEqual(yield* step(() => tiny.getAttribute("aria-pressed")), "false")
          // Yesterday is the last bar but one of those that have usage, and the first of them is at the left.
          const plot = chart.locator(".u-over")
          const bar = yield* step(() =>
            plot.evaluate((over) => ({ x: over.clientWidth * 0.75, y: over.clientHeight - 10 }))
          )
          yield* step(() => plot.hover({ position: bar }))
          const tip = page.locator(".tip")
          yield* step(() => tip.getByText("$3.00").first().waitFor())
          assert.notInclude(yield* step(() => tip.innerText()), "tiny")
          yield* step(() => plot.click({ position: bar }))
          yield* step(() => page.waitForURL("**/requests?range=custom**"))
          const day = daysAgo(1).slice(0, 10)
          assert.include(page.url(), `first=${day}&last=${day}&model=large`)

          // The old figures stay until the new ones are here.
          yield* window.visit("/usage")
          const held = Promise.withResolvers<void>()
          yield* step(() =>
            page.route("**/api/insights/**", async (route) => {
              await held.promise
              await route.continue()
            })
          )
          yield* step(() => page.getByLabel("Range").selectOption("7d"))
          yield* step(() => page.locator("section[aria-busy=true]").getByText("large").waitFor())
          assert.strictEqual(yield* step(() => page.locator(".skeleton").count()), 0)
          held.resolve()
          yield* settled(page)

          yield* window.visit("/agents")
          const rows = page.locator("tbody tr")
          yield* step(() => rows.nth(1).waitFor())
          yield* step(() => page.keyboard.press("/"))
          yield* step(() => page.keyboard.type("searched"))
          yield* step(() => rows.filter({ hasText: "another" }).waitFor({ state: "detached" }))
          yield* step(() => rows.filter({ hasText: "searched for" }).waitFor())
          assert.include(page.url(), "search=searched")
          yield* step(() => page.keyboard.type(" for"))
          yield* step(() => page.waitForURL("**search=searched+for"))
          assert.strictEqual(yield* step(() => page.getByRole("searchbox").inputValue()), "searched for")
          // What was typed is one step back.
          yield* step(() => page.goBack())
          yield* step(() => rows.filter({ hasText: "another" }).waitFor())
          assert.strictEqual(yield* step(() => page.getByRole("searchbox").inputValue()), "")
          yield* quiet(window)
        }).pipe(Effect.scoped)
    )

    it.effect("last month's bill", () =>
      Effect.gen(function* () {
        const { service, tenantId } = yield* setting
        yield* writeUsage(service.database, tenantId, [
          { at: month(1), model: "large", provider: "vendor", cost: 3_210_000_000 },
          { at: month(2), model: "large", provider: "vendor", cost: 1_000_000_000 }
        ])
        yield* forEachRole(tenantId, (who, capabilities, members, width) =>
          Effect.gen(function* () {
            const window = yield* open(service, capabilities, members, width)
            const { page } = window
            yield* window.visit("/")
            const clicks = width === 360 ? 4 : 3
            yield* doJob(window, { name: `J9 ${who} ${width}`, clicks }, ({ choose, click, sees }) =>
              Effect.gen(function* () {
                yield* goTo(page, click, "Billing report", width)
                yield* choose(page.getByLabel("Month"), month(1).slice(0, 7))
                yield* sees(page.getByText("$3.21").first())
                const [download] = yield* Effect.all(
                  [step(() => page.waitForEvent("download")), click(page.getByRole("button", { name: "Download" }))],
                  { concurrency: 2 }
                )
                assert.strictEqual(download.suggestedFilename(), `billing-${month(1).slice(0, 7)}.csv`)
                const csv = yield* step(async () => {
                  const chunks: Array<Buffer> = []
                  for await (const chunk of await download.createReadStream()) chunks.push(chunk as Buffer)
                  return Buffer.concat(chunks).toString("utf8")
                })
                assert.match(csv, /^tenantId,.*tenantName\r\n.*,3\.21,A tenant\r\n$/)
              })
            )
            assert.include(page.url(), `month=${month(1).slice(0, 7)}`)
            yield* quiet(window)
          }).pipe(Effect.scoped)
        )
      }).pipe(Effect.scoped)
    )

    it.effect("who reads what was spent reads names, and no page asks for what it may not have", () =>
      Effect.gen(function* () {
        const { key, service, tenantId } = yield* setting
        const other = yield* makeTenant(service.database)
        const foreign = yield* makeKey(service, ["*:*"], { tenantId: other })
        const [namesake = ""] = yield* agents(service, foreign.key, ["writer"])
        yield* writeUsage(service.database, other, [
          { at: daysAgo(1), model: "large", cost: 1_000_000_000, agent_id: namesake }
        ])
        const [agentId = ""] = yield* agents(service, key, ["writer"])
        yield* writeUsage(service.database, tenantId, [
          { at: daysAgo(1), model: "large", provider: "vendor", cost: 3_000_000_000, agent_id: agentId }
        ])
        const cap = { name: "Writing", unit: "usd", limit: 10, period: "month", scope: { agentId } }
        assert.strictEqual((yield* service.call("POST", "/api/budgets/caps", { key, body: cap })).status, 201)
        const reserved = { agentId, amountUsd: 0.5 }
        assert.strictEqual((yield* service.call("POST", "/api/spend/reserve", { key, body: reserved })).status, 201)
        for (const members of [{}, { tenantId }]) {
          const window = yield* openConsole(service, ["insights:read", "budgets:read", "spend:read"], members)
          const { page } = window
          const refused: Array<string> = []
          page.on("response", (response) => {
            if (response.status() === 403) refused.push(`${new URL(page.url()).pathname}: ${response.url()}`)
          })
          for (const at of ["/usage?by=agent", "/requests", "/caps", "/reservations"]) {
            yield* window.visit(at)
            yield* step(() => page.locator("main").getByText("writer").first().waitFor({ state: "attached" }))
            const text = yield* step(() => page.innerText("main"))
            assert.notMatch(text, /…[\da-f]{8}|[\da-f]{8}-[\da-f]{4}-/, at)
            // Of two with one name each has its tenant beside it, for who sees both.
            if (!/^\/usage|^\/requests/.test(at)) continue
            const apart = page.locator("tbody tr").filter({ hasText: /writer\s*· A tenant/ })
            assert.strictEqual(yield* step(() => apart.count()), "tenantId" in members ? 0 : 2, at)
          }
          for (const at of consolePaths) {
            yield* window.visit(at)
            yield* settled(page)
          }
          assert.deepStrictEqual(refused, [])
          assertQuiet(window)
        }
      }).pipe(Effect.scoped)
    )

    it.effect("30 days are the same on every page", () =>
      Effect.gen(function* () {
        const { key, service, tenantId } = yield* setting
        const [agentId] = yield* agents(service, key, ["one"])
        const call = { status: 200, model: "large", agent_id: agentId! }
        yield* writeUsage(service.database, tenantId, [
          { ...call, at: daysAgo(1), cost: 3_000_000_000 },
          // Within 30 times 24 hours, and before the first of 30 days.
          { ...call, at: new Date(Date.now() - 30 * day + 60_000).toISOString(), cost: 5_000_000_000 }
        ])
        const window = yield* openConsole(service, ["*:*"], { tenantId })
        const { page } = window
        const figures: Array<string> = []
        const read = (path: string, at: Locator) =>
          Effect.gen(function* () {
            yield* window.visit(path)
            yield* step(() => at.getByText("$").first().waitFor())
            figures.push(yield* step(async () => /\$[\d.,]+/.exec(await at.innerText())?.[0] ?? ""))
          })
        yield* read("/", page.locator(".kpi", { hasText: "Spend in 30 days" }))
        yield* read("/usage", page.locator(".kpi", { hasText: "Cost" }).first())
        yield* read("/usage?by=agent", page.getByRole("row", { name: "one" }))
        yield* read("/agents", page.getByRole("row", { name: "one" }))
        yield* read(`/agents/${agentId}`, page.locator("section", { hasText: "Spend in 30 days" }))
        assert.match(figures[0] ?? "", /^\$[38]\.00$/)
        assert.strictEqual(new Set(figures).size, 1, figures.join(", "))
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )
  })
})
