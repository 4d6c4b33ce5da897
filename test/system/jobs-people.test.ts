import { assert, describe, layer } from "@effect/vitest"
import { Context, DateTime, Effect, Layer, Option, Redacted } from "effect"
import * as crypto from "node:crypto"
import { ClaimLinks } from "../../src/people/sign-in/initial-admin-setup.ts"
import { checkLooks, type Look } from "../console/pages.ts"
import {
  bearer,
  login,
  makeAccount,
  makeOwnRole,
  newEmail,
  otherPassphrase,
  passphrase,
  signIn,
  works
} from "../support/accounts.ts"
import { makeTenant } from "../support/authority.ts"
import { assertQuiet, Browser, executablePath, openConsole, openWindow, step, type Window } from "../support/browser.ts"
import { makeDatabase } from "../support/database.ts"
import { writeUsage } from "../support/insights.ts"
import { doJob, type Hand } from "../support/jobs.ts"
import { sharedServiceLayer, startServer, TestService } from "../support/service.ts"

/** The widths that jobs are done at, with the clicks that the navigation takes at each. */
const widths = [
  [1280, 1],
  [360, 2]
] as const

const at = Effect.fnUntraced(function* (window: Window, width: number) {
  yield* step(() => window.page.setViewportSize({ width, height: 800 }))
  yield* window.visit("/")
})

/** Opens a page from the navigation, which is in a menu where there is little room. */
const open = Effect.fnUntraced(function* ({ page }: Window, hand: Hand, width: number, name: string) {
  const isNarrow = width < 900
  if (isNarrow) yield* hand.click(page.getByRole("button", { name: "Menu" }))
  const navigation = page.getByRole("navigation", { name: isNarrow ? "Pages" : "Main", exact: true })
  yield* hand.click(navigation.getByRole("link", { name, exact: true }))
})

const looks: ReadonlyArray<Look> = [
  [1280, "light"],
  [360, "dark"]
]

const unique = (name: string): string => `${name} ${crypto.randomUUID().slice(0, 8)}`

describe.skipIf(executablePath === undefined)("jobs about people, keys and tenants", () => {
  layer(Layer.merge(sharedServiceLayer, Browser.layer), { excludeTestServices: true, timeout: "120 seconds" })((it) => {
    for (const [width, opening] of widths) {
      it.effect(`an operator makes a key for models alone, and calls one with it (${width} px)`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const window = yield* openConsole(service)
          const { page } = window
          const name = unique("importer")
          yield* at(window, width)
          yield* doJob(window, { name: "a scoped key and its first call", clicks: opening + 6 }, (hand) =>
            Effect.gen(function* () {
              yield* open(window, hand, width, "API keys")
              yield* hand.click(page.getByRole("button", { name: "Create a key" }))
              yield* hand.type(page.getByLabel("Name", { exact: true }), name)
              // A key that can do nothing is no key.
              yield* hand.press("Enter")
              yield* hand.sees(page.getByText("Select one or more scopes"))
              yield* hand.click(page.getByRole("button", { name: "Call models" }))
              yield* hand.click(page.getByRole("button", { name: "Create the key" }))
              const secret = page.getByTestId("secret")
              yield* hand.sees(secret)
              const key = yield* step(() => secret.innerText())
              const body = { model: "loopback-1", messages: [{ role: "user", content: "Hello" }] }
              assert.strictEqual((yield* service.call("POST", "/v1/chat/completions", { key, body })).status, 200)
              assert.strictEqual((yield* service.call("GET", "/api/api-keys", { key })).status, 403)
              yield* hand.click(page.getByLabel("I have saved it"))
              yield* hand.click(page.getByRole("button", { name: "Done" }))
              yield* hand.click(page.getByRole("link", { name, exact: true }))
              yield* hand.sees(page.getByRole("heading", { name: "Spend in 30 days" }))
            })
          )
          yield* step(() => page.getByRole("tab", { name: "OpenAI Python" }).click())
          const code = yield* step(() => page.getByRole("tabpanel").innerText())
          assert.include(code, `base_url="${service.url}/v1"`)
          assertQuiet(window)
        }).pipe(Effect.scoped)
      )

      it.effect(`an operator rolls a configuration back (${width} px)`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const slug = `rolled-${crypto.randomUUID().slice(0, 8)}`
          const application = yield* service.call("POST", "/api/applications", { body: { name: slug, slug } })
          const applicationId: number = application.body.id
          const made = yield* service.call("POST", "/api/configuration", {
            body: { applicationId, name: "limits.yaml", type: "file", content: "a: 1\n" }
          })
          const file = `/api/configuration/${made.body.id}`
          yield* service.call("PUT", file, { body: { content: "a: 2\n" } })
          const window = yield* openConsole(service)
          const { page } = window
          yield* at(window, width)
          yield* doJob(window, { name: "roll a configuration back", clicks: opening + 5 }, (hand) =>
            Effect.gen(function* () {
              yield* open(window, hand, width, "Files")
              yield* hand.choose(page.getByLabel("Application", { exact: true }), `${applicationId}`)
              yield* hand.click(page.getByRole("link", { name: "limits.yaml" }))
              yield* hand.click(page.getByRole("link", { name: "Versions" }))
              const first = page.getByRole("row", { name: "Version 1" })
              yield* hand.click(first.getByRole("button", { name: "Roll back" }))
              const dialog = page.getByRole("dialog", { name: "Roll limits.yaml back to version 1" })
              yield* hand.sees(dialog.getByText("-a: 2"))
              yield* hand.click(dialog.getByRole("button", { name: "Roll back" }))
              yield* step(() => page.getByRole("row", { name: "Version 3" }).waitFor())
            })
          )
          assert.deepInclude((yield* service.call("GET", file)).body, { version: 3, content: "a: 1\n" })
          assertQuiet(window)
        }).pipe(Effect.scoped)
      )

      it.effect(`an operator finds who changed a role (${width} px)`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const ada = yield* makeAccount(service, ["*:*"], { name: unique("Ada") })
          const { body: account } = yield* service.call("GET", `/api/accounts/${ada.id}`)
          const token = yield* signIn(service, ada)
          const id = yield* makeOwnRole(service, ["roles:read"])
          const name = unique("Clerk")
          const changed = yield* service.call("PATCH", `/api/roles/${id}`, bearer(token, { body: { name } }))
          assert.strictEqual(changed.status, 200, changed.text)
          const window = yield* openConsole(service)
          const { page } = window
          yield* at(window, width)
          yield* doJob(window, { name: "who changed a role", clicks: opening + 2 }, (hand) =>
            Effect.gen(function* () {
              yield* open(window, hand, width, "Audit log")
              yield* hand.type(page.getByLabel("Entity:"), "Role")
              const row = page.getByRole("row").filter({ hasText: name }).first()
              yield* step(() => row.getByText(account.name).waitFor())
              yield* hand.click(row.getByRole("link", { name: "Role updated" }))
              yield* hand.sees(page.getByRole("link", { name: account.name }))
            })
          )
          assertQuiet(window)
        }).pipe(Effect.scoped)
      )

      it.effect(`an operator invites a person, who chooses the password (${width} px)`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const window = yield* openConsole(service)
          const { page } = window
          const [email, name] = [newEmail(), unique("Grace")]
          let link = ""
          yield* at(window, width)
          yield* doJob(window, { name: "invite a person", clicks: opening + 6 }, (hand) =>
            Effect.gen(function* () {
              yield* open(window, hand, width, "Accounts")
              yield* hand.click(page.getByRole("button", { name: "Invite a person" }))
              yield* hand.type(page.getByLabel("E-mail address"), email)
              yield* hand.type(page.getByLabel("Name", { exact: true }), name)
              yield* hand.click(page.getByRole("checkbox", { name: /^Viewer/ }))
              yield* hand.click(page.getByRole("button", { name: "Create the link" }))
              yield* hand.sees(page.getByTestId("secret"))
              // The address of the service that is known is that of production: here it has another port.
              const { hash, pathname } = new URL(yield* step(() => page.getByTestId("secret").innerText()))
              link = `${service.url}${pathname}${hash}`
              yield* hand.click(page.getByLabel("I have sent it"))
              yield* hand.click(page.getByRole("button", { name: "Done" }))
            })
          )
          yield* step(() => page.getByRole("row").filter({ hasText: email }).getByText("invited").waitFor())
          assertQuiet(window)

          const theirs = yield* openWindow(service, { viewport: { width, height: 800 } })
          yield* step(() => theirs.page.goto(link))
          assert.notInclude(theirs.page.url(), "amv_")
          yield* doJob(theirs, { name: "accept an invitation", clicks: 1 }, (hand) =>
            Effect.gen(function* () {
              const field = theirs.page.getByLabel("Password", { exact: true })
              yield* hand.type(field, "short")
              yield* hand.press("Enter")
              yield* hand.sees(theirs.page.getByText("Expected 12 characters or more"))
              yield* hand.click(theirs.page.getByRole("button", { name: "Show the password" }))
              assert.strictEqual(yield* step(() => field.getAttribute("type")), "text")
              yield* step(() => field.fill(passphrase))
              yield* step(() => field.press("Enter"))
              yield* step(() => theirs.page.waitForURL("**/console/"))
            })
          )
          yield* step(() => theirs.page.getByRole("button", { name: "Account" }).click())
          yield* step(() => theirs.page.getByText(email).waitFor())
          assertQuiet(theirs)

          const again = yield* openWindow(service)
          yield* step(() => again.page.goto(link))
          yield* step(() => again.page.getByLabel("Password", { exact: true }).fill(passphrase))
          yield* step(() => again.page.keyboard.press("Enter"))
          yield* step(() => again.page.getByRole("alert").waitFor())
        }).pipe(Effect.scoped)
      )

      for (const [who, capabilities] of [
        ["an operator", ["*:*"]],
        ["a reader of usage, budgets and bills", ["tenants:read", "insights:read", "budgets:read"]]
      ] as const) {
        it.effect(`${who} looks at one customer (${width} px)`, () =>
          Effect.gen(function* () {
            const service = yield* TestService
            const name = unique("Customer")
            const { body: tenant } = yield* service.call("POST", "/api/tenants", { body: { name } })
            const moment = DateTime.formatIso(DateTime.subtract(yield* DateTime.now, { days: 2 }))
            yield* writeUsage(service.database, tenant.id, [{ at: moment, cost: 3_000_000_000, model: "large" }])
            const body = { name: "monthly", unit: "usd", limit: 20, period: "month", tenantId: tenant.id }
            yield* service.call("POST", "/api/budgets/caps", { body })
            yield* service.call("POST", "/api/agents", { body: { name: "theirs", tenantId: tenant.id } })
            const isOperator = capabilities.length === 1
            const window = yield* openConsole(service, capabilities)
            const { page } = window
            yield* at(window, width)
            yield* doJob(window, { name: "look at one customer", clicks: opening + (isOperator ? 2 : 1) }, (hand) =>
              Effect.gen(function* () {
                yield* open(window, hand, width, "Tenants")
                yield* hand.click(page.getByRole("link", { name }))
                yield* hand.sees(page.getByText("$3.00").first())
                yield* step(() => page.getByRole("link", { name: "monthly" }).waitFor())
                if (!isOperator) return
                yield* hand.click(page.getByRole("link", { name: "Agents", exact: true }).last())
                yield* hand.sees(page.getByRole("link", { name: "theirs" }))
              })
            )
            assertQuiet(window)
          }).pipe(Effect.scoped)
        )
      }
    }

    it.effect("an operator of one tenant makes a key and invites a person of it, and does not see other tenants", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const tenantId = yield* makeTenant(service.database)
        const roleId = yield* makeOwnRole(service, ["llm:complete"])
        const { body: role } = yield* service.call("GET", `/api/roles/${roleId}`)
        const window = yield* openConsole(service, ["api-keys:*", "accounts:*", "llm:*"], { tenantId })
        const { page } = window
        yield* at(window, 1280)
        const email = newEmail()
        yield* doJob(window, { name: "a key and a person of one tenant", clicks: 10 }, (hand) =>
          Effect.gen(function* () {
            yield* open(window, hand, 1280, "API keys")
            yield* hand.click(page.getByRole("button", { name: "Create a key" }))
            yield* hand.type(page.getByLabel("Name", { exact: true }), "theirs")
            yield* hand.click(page.getByRole("button", { name: "Call models" }))
            assert.strictEqual(yield* step(() => page.getByRole("button", { name: "Read everything" }).count()), 0)
            // No key of a tenant could use them.
            assert.strictEqual(
              yield* step(() => page.getByRole("checkbox", { name: /^(?:roles|tenants):/ }).count()),
              0
            )
            yield* hand.click(page.getByRole("button", { name: "Create the key" }))
            yield* hand.click(page.getByLabel("I have saved it"))
            yield* hand.click(page.getByRole("button", { name: "Done" }))
            yield* open(window, hand, 1280, "Accounts")
            yield* hand.click(page.getByRole("button", { name: "Invite a person" }))
            yield* hand.type(page.getByLabel("E-mail address"), email)
            yield* hand.press("Tab")
            yield* hand.type(page.getByLabel("Name", { exact: true }), "Grace")
            yield* hand.click(page.getByRole("checkbox", { name: role.name }))
            yield* hand.click(page.getByRole("button", { name: "Create the link" }))
            yield* hand.sees(page.getByTestId("secret"))
          })
        )
        yield* window.visit("/accounts")
        yield* step(() => page.getByRole("row", { name: email }).getByText(role.name, { exact: true }).waitFor())
        const { body } = yield* service.call("GET", `/api/accounts?search=${encodeURIComponent(email)}`)
        assert.strictEqual(body.items[0].tenantId, tenantId)
        yield* window.visit(`/tenants/${tenantId}`)
        yield* step(() => page.getByText("You may not see this").waitFor())
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("a person changes the own password, and ends the sessions elsewhere", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const account = yield* makeAccount(service, [], { name: unique("Ada") })
        const elsewhere = yield* signIn(service, account)
        const window = yield* openWindow(service)
        const { page } = window
        const value = yield* signIn(service, account)
        yield* step(() => window.context.addCookies([{ name: "am_session", value, url: service.url, httpOnly: true }]))
        yield* at(window, 1280)
        const dialog = page.getByRole("dialog")
        yield* doJob(window, { name: "one's own password and sessions", clicks: 9 }, (hand) =>
          Effect.gen(function* () {
            yield* hand.click(page.getByRole("button", { name: "Account" }))
            yield* hand.click(page.getByRole("link", { name: "Your account" }))
            yield* hand.sees(page.getByText("this one"))
            yield* hand.click(page.getByRole("button", { name: "End all others" }))
            yield* hand.click(dialog.getByRole("button", { name: "End them" }))
            yield* step(() => dialog.waitFor({ state: "detached" }))
            assert.isFalse(yield* works(service, elsewhere))
            yield* hand.click(page.getByRole("button", { name: "Change password" }))
            yield* hand.type(dialog.getByLabel("Current password"), otherPassphrase)
            yield* hand.type(dialog.getByLabel("New password"), otherPassphrase)
            yield* hand.press("Enter")
            yield* hand.sees(dialog.getByText("The current password is another one; nothing was changed."))
            yield* hand.type(dialog.getByLabel("Current password"), account.password)
            yield* hand.click(dialog.getByRole("button", { name: "Change the password" }))
            yield* step(() => dialog.waitFor({ state: "detached" }))
            yield* hand.click(page.getByRole("link", { name: "Home" }))
          })
        )
        assert.strictEqual((yield* login(service, { ...account, password: otherPassphrase })).status, 200)
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("an operator revokes the link of an invitation", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const name = unique("Joan")
        const { body: invited } = yield* service.call("POST", "/api/accounts/invitations", {
          body: { name, email: newEmail(), roleIds: [] }
        })
        const window = yield* openConsole(service)
        const { page } = window
        yield* at(window, 1280)
        const row = page.getByRole("row").filter({ hasText: name })
        yield* doJob(window, { name: "revoke an invitation", clicks: 4 }, (hand) =>
          Effect.gen(function* () {
            yield* open(window, hand, 1280, "Accounts")
            yield* hand.click(row.getByRole("button", { name: "Link" }))
            yield* hand.click(page.getByRole("button", { name: "Revoke the link" }))
            yield* hand.click(page.getByRole("dialog").getByRole("button", { name: "Revoke the link" }))
            yield* step(() => row.getByText("invited").waitFor({ state: "detached" }))
          })
        )
        const token = String(invited.link).split("#")[1]
        const body = { token, password: passphrase }
        assert.strictEqual((yield* service.call("POST", "/api/auth/invitation", { key: null, body })).status, 403)
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("the page to sign in says how to claim, and the claim of an installation with keys leads home", () =>
      Effect.gen(function* () {
        const { context, service } = yield* startServer(yield* makeDatabase)
        yield* service.call("POST", "/api/api-keys", { body: { name: "of a demo", scopes: ["llm:read"] } })
        const link = Option.getOrThrow(yield* Context.get(context, ClaimLinks).make)
        const window = yield* openWindow(service)
        const { page } = window
        yield* window.visit("/login")
        yield* step(() => page.getByText("No account exists yet.").waitFor())
        yield* checkLooks(window, "/login", looks)
        yield* step(() => page.goto(`${service.url}/console/claim#${Redacted.value(link).split("#")[1]}`))
        yield* step(() => page.getByLabel("E-mail address").fill("ada@example.com"))
        yield* step(() => page.getByLabel("Name", { exact: true }).fill("Ada Lovelace"))
        yield* step(() => page.getByLabel("Password", { exact: true }).fill(passphrase))
        yield* step(() => page.keyboard.press("Enter"))
        yield* step(() => page.waitForURL("**/console/"))
        yield* window.visit("/login")
        yield* step(() => page.waitForURL("**/console/"))
        assertQuiet(window)
        const later = yield* openWindow(service)
        yield* later.visit("/login")
        assert.strictEqual(yield* step(() => later.page.getByText("No account exists yet.").count()), 0)
      }).pipe(Effect.scoped)
    )

    it.effect("pages of keys, tenants and people, and their dialogs with a fault, have no axe violation", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const window = yield* openConsole(service)
        const { page } = window
        const { body: key } = yield* service.call("POST", "/api/api-keys", {
          body: { name: unique("looked at"), scopes: ["llm:complete", "llm:read"], expiresAt: "2099-12-31T23:59:59Z" }
        })
        const { body: tenant } = yield* service.call("POST", "/api/tenants", { body: { name: unique("Looked at") } })
        for (const path of [
          `/api-keys/${key.id}`,
          ...["overview", "agents", "keys", "people"].map((tab) => `/tenants/${tenant.id}?tab=${tab}`),
          "/account"
        ]) {
          yield* checkLooks(window, path, looks)
        }
        const withFault = (path: string, button: string, submit: string, fault: string) =>
          checkLooks(window, `${path}: ${button}`, looks, () =>
            Effect.andThen(
              window.visit(path),
              step(async () => {
                await page.getByRole("button", { name: button }).click()
                await page.getByRole("dialog").getByRole("button", { name: submit }).click()
                await page.getByRole("dialog").getByText(fault).first().waitFor()
              })
            )
          )
        yield* withFault("/api-keys", "Create a key", "Create the key", "Fill this in")
        yield* withFault("/accounts", "Invite a person", "Create the link", "Fill this in")
        yield* withFault("/account", "Change password", "Change the password", "Fill this in")
        yield* window.visit(`/api-keys/${key.id}`)
        yield* step(() => page.getByRole("button", { name: "Change" }).click())
        yield* step(() => page.getByLabel("Name", { exact: true }).fill("another name"))
        yield* step(() => page.getByRole("button", { name: "Remove llm:read" }).click())
        yield* step(() => page.getByRole("button", { name: "Save" }).click())
        yield* step(() => page.getByRole("dialog").waitFor({ state: "detached" }))
        const { body: changed } = yield* service.call("GET", `/api/api-keys/${key.id}`)
        assert.deepInclude(changed, { name: "another name", scopes: ["llm:complete"], expiresAt: key.expiresAt })
      }).pipe(Effect.scoped)
    )
  })
})
