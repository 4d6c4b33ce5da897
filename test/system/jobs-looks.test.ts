import { assert, describe, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { type Page } from "playwright-core"
import { checkLooks, checkShown } from "../console/pages.ts"
import { makeKey, makeTenant } from "../support/authority.ts"
import {
  assertQuiet,
  Browser,
  executablePath,
  openConsole,
  openWindow,
  settled,
  step,
  type Window
} from "../support/browser.ts"
import { doJob } from "../support/jobs.ts"
import { sharedServiceLayer, TestService } from "../support/service.ts"

type Service = TestService["Service"]

const reading = ["insights:read", "budgets:read", "spend:read", "agents:read"]

/** What was spent for a task, as a program reports it. */
const spend = Effect.fnUntraced(function* (service: Service, key: string, taskType: string, amountUsd: number) {
  const { body } = yield* service.call("POST", "/api/spend/reserve", { key, body: { amountUsd, taskType } })
  const { status, text } = yield* service.call("POST", "/api/spend/reconcile", {
    key,
    body: { reservationId: body.id, actualUsd: amountUsd }
  })
  assert.strictEqual(status, 200, text)
})

/** The answers of 400 and above that a window gets. */
const refusalsOf = ({ page }: Window): ReadonlyArray<string> => {
  const found: Array<string> = []
  page.on("response", (answer) => {
    if (answer.status() >= 400) found.push(`${answer.status()} ${new URL(answer.url()).pathname}`)
  })
  return found
}

const middlesOf = (page: Page) =>
  page
    .locator(".filters > *")
    .evaluateAll((shown) =>
      shown.map((one) => one.getBoundingClientRect()).map(({ bottom, top }) => Math.round((top + bottom) / 2))
    )

describe.skipIf(executablePath === undefined)("what the console looks like at work", () => {
  layer(Layer.merge(sharedServiceLayer, Browser.layer), { excludeTestServices: true, timeout: "60 seconds" })((it) => {
    for (const at of ["/login", "/", "/caps?order=use"]) {
      it.effect(`a browser without a session gets no refusal at ${at}`, () =>
        Effect.gen(function* () {
          const window = yield* openWindow(yield* TestService)
          const refusals = refusalsOf(window)
          yield* window.visit(at)
          yield* step(() => window.page.getByRole("button", { name: "Sign in" }).waitFor())
          yield* step(() => window.page.waitForLoadState("networkidle"))
          assert.deepStrictEqual(refusals, [])
          assertQuiet(window)
        }).pipe(Effect.scoped)
      )
    }

    it.effect("signing out leads to the sign-in, which leads back to the page", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const window = yield* openConsole(service)
        yield* window.visit("/caps")
        yield* step(() => window.page.getByRole("button", { name: "Account" }).click())
        yield* step(() => window.page.getByRole("button", { name: "Sign out" }).click())
        yield* step(() => window.page.getByRole("button", { name: "Sign in" }).waitFor())
        assert.match(window.page.url(), /\/login\?next=%2Fcaps$/)
      }).pipe(Effect.scoped)
    )

    for (const [who, capabilities, isOfTenant] of [
      ["an operator", ["*:*"], false],
      ["a tenant's operator", ["*:*"], true],
      ["finance", reading, false]
    ] as const) {
      for (const width of [1280, 360]) {
        it.effect(`${who} sees at ${width} px what a cap counted since when, and which requests`, () =>
          Effect.gen(function* () {
            const service = yield* TestService
            const tenantId = yield* makeTenant(service.database)
            const { key } = yield* makeKey(service, ["*:*"], { tenantId })
            const taskType = `task-${crypto.randomUUID()}`
            yield* spend(service, key, taskType, 3)
            const { body: cap } = yield* service.call("POST", "/api/budgets/caps", {
              key,
              body: { name: "One task", unit: "usd", limit: 10, period: "year", scope: { taskType } }
            })
            yield* spend(service, key, taskType, 2)
            const window = yield* openConsole(service, capabilities, isOfTenant ? { tenantId } : {})
            const { page } = window
            yield* step(() => page.setViewportSize({ width, height: 800 }))
            yield* window.visit(`/caps/${cap.id}`)
            yield* step(() => page.getByText("when it was created; earlier spend does not count").waitFor())
            yield* step(() => page.getByRole("img", { name: "Running totals of the period by model" }).waitFor())
            yield* step(() => page.getByText("the dashed line is the limit of $10.00").waitFor())
            yield* checkShown(page, "a cap")
            yield* doJob(window, { name: "the requests that a cap counted", clicks: 1 }, ({ click }) =>
              click(page.getByRole("link", { name: "Requests counted" }))
            )
            yield* settled(page)
            const rows = page.getByRole("region", { name: "Requests" }).locator("tbody tr")
            assert.strictEqual(yield* step(() => rows.count()), 1)
            assert.include(yield* step(() => rows.innerText()), "$2.00")
            assertQuiet(window)
          }).pipe(Effect.scoped)
        )
      }
    }

    it.effect("filters stand in one row, the rarer ones behind a button that counts them, by keyboard", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const tenantId = yield* makeTenant(service.database)
        const { key } = yield* makeKey(service, ["*:*"], { tenantId })
        for (let at = 0; at < 30; at += 1) {
          yield* service.call("POST", "/api/agents", { key, body: { name: `runner-${at}`, scopeCeiling: [] } })
        }
        const { body: sought } = yield* service.call("POST", "/api/agents", {
          key,
          body: { name: "needle", scopeCeiling: [] }
        })
        const window = yield* openConsole(service, ["*:*"], { tenantId })
        const { page } = window
        yield* window.visit("/requests?range=custom&first=2026-01-01&status=200")
        const agent = page.getByLabel("Agent:", { exact: true })
        yield* step(() => agent.focus())
        yield* step(() => page.keyboard.type("needl"))
        yield* step(() => page.keyboard.press("Enter"))
        yield* step(() => page.waitForURL(new RegExp(`agentId=${sought.id}`)))
        const middles = yield* step(() => middlesOf(page))
        assert.isAbove(middles.length, 5)
        assert.isAtMost(Math.max(...middles) - Math.min(...middles), 1, `one row: ${middles}`)

        const more = page.getByText("More filters: 1")
        yield* step(() => more.focus())
        yield* step(() => page.keyboard.press("Enter"))
        const zone = page.getByLabel("Time zone:")
        yield* step(() => zone.focus())
        yield* step(() => page.keyboard.type("antarctica/tr"))
        yield* step(() => page.keyboard.press("Enter"))
        yield* step(() => page.waitForURL(/timeZone=Antarctica%2FTroll/))
        yield* step(() => page.getByText("More filters: 2").waitFor())
        yield* checkShown(page, "more filters")
        yield* step(() => zone.focus())
        yield* step(() => page.keyboard.press("Escape"))
        yield* step(() => zone.waitFor({ state: "hidden" }))

        yield* step(() => page.getByRole("button", { name: "Remove the filter on Agent" }).click())
        yield* step(() => page.waitForFunction(() => !location.search.includes("agentId")))
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect(
      "no column of requests and reservations is cut at 1280 px, and in a narrow window the first one stays",
      () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const tenantId = yield* makeTenant(service.database)
          const { key } = yield* makeKey(service, ["*:*"], { tenantId })
          yield* spend(service, key, "a task with quite a long name", 123_456)
          const window = yield* openConsole(service, ["*:*"], { tenantId })
          const { page } = window
          for (const [at, name] of [
            ["/requests", "Requests"],
            ["/reservations", "Reservations"]
          ] as const) {
            yield* step(() => page.setViewportSize({ width: 1280, height: 800 }))
            yield* window.visit(at)
            const table = page.getByRole("region", { name, exact: true })
            const excess = () => table.evaluate((place) => place.scrollWidth - place.clientWidth)
            assert.strictEqual(yield* step(excess), 0, at)
            yield* step(() => page.setViewportSize({ width: 360, height: 800 }))
            yield* step(() => table.evaluate((place) => place.scrollBy(400, 0)))
            const first = table.locator("tbody tr td").first()
            const left = yield* step(() => first.evaluate((cell) => cell.getBoundingClientRect().left))
            assert.isAtLeast(left, 0, at)
            assert.isAbove(yield* step(excess), 0, at)
          }
          assertQuiet(window)
        }).pipe(Effect.scoped)
    )

    it.effect("what the address asked for is not asked again once its dialog was closed", () =>
      Effect.gen(function* () {
        const window = yield* openConsole(yield* TestService)
        const { page } = window
        for (const at of ["/caps?create=first", "/caps?create=new", "/tenants?create=new"]) {
          yield* window.visit(at)
          const dialog = page.getByRole("dialog")
          yield* step(() => dialog.waitFor())
          yield* step(() => dialog.getByRole("button", { name: "Cancel" }).click())
          yield* step(() => dialog.waitFor({ state: "detached" }))
          yield* step(() => page.waitForFunction(() => location.search === ""))
        }
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("the first load of Home takes at most 230 KB over the network", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { page, visit } = yield* openConsole(service)
        const network = yield* step(() => page.context().newCDPSession(page))
        yield* step(() => network.send("Network.enable"))
        let bytes = 0
        network.on("Network.loadingFinished", ({ encodedDataLength }) => {
          bytes += encodedDataLength
        })
        yield* visit("/")
        yield* settled(page)
        assert.isAbove(bytes, 50_000)
        assert.isAtMost(bytes, 230_000)
      }).pipe(Effect.scoped)
    )

    it.effect("Home has its figures two in a row at 360 px, and its checks are checks", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const window = yield* openConsole(service)
        const { page } = window
        yield* checkLooks(window, "/", [
          [1280, "light"],
          [360, "dark"]
        ])
        const tiles = yield* step(() =>
          page.locator(".kpi").evaluateAll((shown) => shown.map((tile) => tile.getBoundingClientRect().top))
        )
        assert.strictEqual(new Set(tiles).size, tiles.length / 2)
        yield* step(() => page.getByText(/^All \d checks/).click())
        const checks = page.getByRole("region", { name: "Health checks" })
        assert.notInclude(yield* step(() => checks.innerText()), "Database kind")
      }).pipe(Effect.scoped)
    )
  })
})
