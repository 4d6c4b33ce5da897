import { assert, describe, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { type Page } from "playwright-core"
import { checkLooks, checkShown } from "../console/pages.ts"
import { makeAccount } from "../support/accounts.ts"
import { registration } from "../support/agents.ts"
import { makeKey } from "../support/authority.ts"
import { assertQuiet, Browser, executablePath, openConsole, openWindow, settled, step } from "../support/browser.ts"
import { serviceLayer, TestService } from "../support/service.ts"
import { eventually } from "../support/waiting.ts"

/** Makes something over the API and answers its body. */
const made = (service: TestService["Service"], path: string, body: object) =>
  Effect.map(service.call("POST", path, { body }), (answer) => {
    assert.isTrue(answer.status < 300, answer.text)
    return answer.body
  })

/** The addresses of one thing of each kind. */
const makeDetails = Effect.fnUntraced(function* (service: TestService["Service"]) {
  const ending = crypto.randomUUID().slice(0, 8)
  const name = `Of-a-name-as-long-and-without-spaces-as-people-give-to-things-that-they-type ${ending}`
  const cap = yield* made(service, "/api/budgets/caps", { name, unit: "usd", limit: 10, period: "month" })
  const quota = { unit: "tokens", amount: 1_000_000 }
  const subscription = yield* made(service, "/api/subscriptions", {
    provider: "openai",
    name,
    priceUsd: 200,
    quota,
    period: "month"
  })
  const agent = yield* made(service, "/api/agents", registration({ name }))
  const user = yield* made(service, "/api/trial-users", {
    firstName: "Wilhelmina Charlotte",
    lastName: "Featherstonehaugh-Cholmondeley",
    email: `wilhelmina-charlotte.featherstonehaugh.${ending}@example.com`
  })
  const application = yield* made(service, "/api/applications", { name })
  const file = yield* made(service, "/api/configuration", {
    applicationId: application.id,
    name: "settings.yaml",
    type: "file",
    content: "a: 1\n"
  })
  yield* service.call("PUT", `/api/configuration/${file.id}`, { body: { content: `a: 2\nb: ${"long ".repeat(60)}\n` } })
  const integration = yield* made(service, "/api/integrations", {
    kind: "webhook",
    name,
    url: "https://crm.example/hooks/events",
    eventTypes: ["com.application-manager.trial-user.*"]
  })
  const report = yield* made(service, "/api/security/reports", { kind: "posture" })
  yield* eventually(
    Effect.map(service.call("GET", `/api/security/reports/${report.id}`), ({ body }) => body),
    ({ status }) => status === "completed"
  )
  const { body: entries } = yield* service.call("GET", "/api/audit-logs?limit=1")
  return [
    `/caps/${cap.id}`,
    `/subscriptions/${subscription.id}`,
    ...["identity", "tokens", "keys", "delegations"].map((tab) => `/agents/${agent.id}?tab=${tab}`),
    `/trial-users/${user.id}`,
    `/applications/${application.id}`,
    `/files/${file.id}`,
    `/files/${file.id}?tab=versions`,
    `/files/${file.id}?version=1`,
    `/integrations/${integration.id}`,
    `/security/${report.id}`,
    `/audit/${entries.items[0].id}`,
    "/api-keys?create=first",
    "/applications?tab=tokens"
  ]
})

const focusedName = () => {
  const element = document.activeElement as HTMLInputElement | null
  return (element?.getAttribute("aria-label") ?? element?.labels?.[0]?.textContent ?? element?.textContent ?? "").trim()
}

/** Presses Tab until the control with this name has the focus. */
const tabTo = Effect.fnUntraced(function* (page: Page, name: string) {
  const passed: Array<string> = []
  while (passed.at(-1) !== name) {
    assert.isBelow(passed.length, 150, `Tab does not reach ${name}, but ${passed.join(", ")}`)
    yield* step(() => page.keyboard.press("Tab"))
    passed.push(yield* step(() => page.evaluate(focusedName)))
  }
})

/** Goes to a page by typing a part of its name. */
const jump = (page: Page, name: string) =>
  Effect.andThen(
    step(async () => {
      await page.keyboard.press("Control+k")
      await page.getByRole("dialog", { name: "Jump to" }).waitFor()
      await page.keyboard.type(name)
      await page.keyboard.press("Enter")
      await page.getByRole("heading", { level: 1, name }).waitFor()
    }),
    settled(page)
  )

describe.skipIf(executablePath === undefined)("the console", () => {
  layer(Layer.merge(serviceLayer(), Browser.layer), { excludeTestServices: true, timeout: "5 minutes" })((it) => {
    it.effect("has no axe violation and does not overflow where it shows one thing", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const paths = yield* makeDetails(service)
        const window = yield* openConsole(service)
        for (const at of paths) {
          yield* checkLooks(window, at, [
            [1280, "light"],
            [1280, "dark"],
            [360, "light"],
            [360, "dark"]
          ])
        }
      }).pipe(Effect.scoped)
    )

    for (const [width, colorScheme] of [
      [1280, "light"],
      [360, "dark"]
    ] as const) {
      it.effect(`shows the dialogs of one thing without an axe violation, within ${width} px`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const paths = yield* makeDetails(service)
          const window = yield* openConsole(service)
          const { page } = window
          yield* step(() => page.setViewportSize({ width, height: 800 }))
          yield* step(() => page.emulateMedia({ colorScheme }))
          const troubles: Array<string> = []
          let opened = 0
          // One of them opens a dialog by itself.
          for (const at of paths.filter((at) => !at.includes("create"))) {
            yield* window.visit(at)
            const buttons = page.locator("main button.btn:not([aria-disabled=true], [aria-label])")
            const names = new Set(yield* step(() => buttons.allInnerTexts()))
            for (const name of names) {
              yield* window.visit(at)
              yield* step(() => buttons.filter({ hasText: name }).first().click())
              yield* settled(page)
              const dialog = page.locator("dialog[open]")
              if ((yield* step(() => dialog.count())) === 0) continue
              opened += 1
              const what = `${at}: ${name}`
              const looked = yield* Effect.exit(checkShown(page, what))
              if (looked._tag === "Failure") troubles.push(`${what}: ${String(looked.cause)}`)
              const excess = yield* step(() =>
                dialog.evaluate((element) =>
                  [element, ...element.querySelectorAll(".in, footer, .title")].reduce(
                    (most, { clientWidth, scrollWidth }) => Math.max(most, scrollWidth - clientWidth),
                    0
                  )
                )
              )
              if (excess > 0) troubles.push(`${what}: its dialog scrolls sideways by ${excess} px`)
            }
          }
          assert.deepStrictEqual(troubles, [])
          assert.isAtLeast(opened, 20)
        }).pipe(Effect.scoped)
      )
    }

    it.effect("signs in, makes a key, makes a cap, approves, edits a file and searches by keyboard alone", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const account = yield* makeAccount(service, ["*:*"])
        const window = yield* openWindow(service)
        const { page } = window
        const press = (...keys: ReadonlyArray<string>) =>
          Effect.forEach(keys, (key) => step(() => page.keyboard.press(key)), { discard: true })
        const type = (text: string) => step(() => page.keyboard.type(text))
        const dialogGone = step(() => page.getByRole("dialog").waitFor({ state: "detached" }))
        yield* window.visit("/")
        assert.strictEqual(yield* step(() => page.evaluate(focusedName)), "E-mail address")
        yield* type(account.email)
        yield* tabTo(page, "Password")
        yield* type(account.password)
        yield* press("Enter")
        yield* step(() => page.getByRole("heading", { level: 1, name: "Home" }).waitFor())

        yield* jump(page, "API keys")
        yield* tabTo(page, "Create a key")
        yield* press("Enter")
        yield* type("typed")
        yield* tabTo(page, "Filter scopes")
        yield* type("dashboard")
        yield* tabTo(page, "dashboard:read")
        yield* press("Space")
        yield* tabTo(page, "Create the key")
        yield* press("Enter")
        const key = yield* step(() => page.getByTestId("secret").innerText())
        assert.strictEqual((yield* service.call("GET", "/api/dashboard/metrics", { key })).status, 200)
        yield* tabTo(page, "I have saved it in a safe place")
        yield* press("Space")
        yield* tabTo(page, "Done")
        yield* press("Enter")
        yield* dialogGone

        yield* jump(page, "Caps")
        yield* tabTo(page, "Create a cap")
        yield* press("Enter")
        yield* tabTo(page, "Limit")
        yield* type("1")
        yield* tabTo(page, "When exceeded")
        yield* type("Hold")
        // Its suggestion is replaced.
        yield* tabTo(page, "Name")
        yield* type("Typed cap")
        yield* press("Tab")
        yield* tabTo(page, "Create the cap")
        yield* press("Enter")
        yield* dialogGone
        const { body: caps } = yield* service.call("GET", "/api/budgets/caps?limit=200")
        const cap = caps.items.find(({ name }: { readonly name: string }) => name === "Typed cap")
        assert.deepInclude(cap, { limit: 1, mode: "approval" })

        // An approver does not decide on its own request.
        const { key: spender } = yield* makeKey(service, ["spend:*"])
        const held = yield* service.call("POST", "/api/spend/reserve", {
          key: spender,
          body: { amountUsd: 2, ttlSeconds: 3600 }
        })
        assert.strictEqual(held.status, 202, held.text)
        yield* window.visit("/approvals")
        yield* tabTo(page, "Approve")
        yield* press("Enter")
        yield* tabTo(page, "Approve and raise Typed cap by $1.00")
        yield* press("Enter")
        yield* dialogGone
        const { body: approved } = yield* service.call("GET", `/api/spend/reservations/${held.body.id}`)
        assert.strictEqual(approved.state, "open")

        const application = yield* made(service, "/api/applications", { name: "Aardvark" })
        const file = yield* made(service, "/api/configuration", {
          applicationId: application.id,
          name: "typed.yaml",
          type: "file",
          content: "a: 1\r\nb: 2\r\n"
        })
        yield* window.visit(`/files?application=${application.id}`)
        yield* tabTo(page, "typed.yaml")
        yield* press("Enter")
        yield* step(() => page.getByLabel("Content of typed.yaml").waitFor())
        yield* tabTo(page, "Content of typed.yaml")
        yield* press("Control+End")
        yield* type("c: 3")
        yield* press("Enter")
        yield* tabTo(page, "Save as version 2")
        yield* press("Enter")
        yield* step(() => page.getByRole("button", { name: "Save as version 3" }).waitFor())
        const { body: saved } = yield* service.call("GET", `/api/configuration/${file.id}`)
        assert.strictEqual(saved.content, "a: 1\r\nb: 2\r\nc: 3\r\n")

        yield* jump(page, "Audit log")
        yield* press("/")
        yield* type("service-account")
        yield* press("Enter")
        yield* step(() => page.waitForURL("**service-account**"))
        yield* settled(page)
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )
  })
})
