import { assert, describe, layer } from "@effect/vitest"
import { Context, Effect, Layer, Option, Redacted } from "effect"
import * as crypto from "node:crypto"
import { ClaimLinks } from "../../src/people/sign-in/initial-admin-setup.ts"
import { makeAccount } from "../support/accounts.ts"
import { makeKey, makeTenant } from "../support/authority.ts"
import {
  assertQuiet,
  Browser,
  consolePaths,
  executablePath,
  openConsole,
  openWindow,
  settled,
  step
} from "../support/browser.ts"
import { makeDatabase } from "../support/database.ts"
import { sharedServiceLayer, startServer, TestService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"

describe.skipIf(executablePath === undefined)("access in the console", () => {
  layer(Layer.merge(sharedServiceLayer, Browser.layer), { excludeTestServices: true, timeout: "60 seconds" })((it) => {
    it.effect("an installation is claimed with the link, and the first key is made", () =>
      Effect.gen(function* () {
        const { context, service } = yield* startServer(yield* makeDatabase)
        const link = Option.getOrThrow(yield* Context.get(context, ClaimLinks).make)
        const window = yield* openWindow(service)
        const { page } = window
        yield* step(() => page.goto(`${service.url}/console/claim#${Redacted.value(link).split("#")[1]}`))
        assert.notInclude(page.url(), "amc_")
        yield* step(() => page.getByLabel("E-mail address").fill("ada@example.com"))
        yield* step(() => page.getByLabel("Name", { exact: true }).fill("Ada Lovelace"))
        yield* step(() => page.getByLabel("Password").fill("seven grey herons at dawn"))
        yield* step(() => page.keyboard.press("Enter"))
        const dialog = page.getByRole("dialog", { name: "Create the first API key" })
        yield* step(() => dialog.getByLabel("Name").fill("first"))
        yield* step(() => page.keyboard.press("Enter"))
        const key = yield* step(() => page.getByTestId("secret").innerText())
        assert.match(key, /^amk_/)
        assert.strictEqual((yield* service.call("GET", "/v1/models", { key })).status, 200)
        yield* step(() => page.getByLabel("I have saved it").check())
        yield* step(() => page.getByRole("button", { name: "Done" }).click())
        yield* step(() => page.getByRole("heading", { name: "First steps" }).waitFor())
        yield* settled(page)
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("signs in with Enter, goes on where it was asked for, and signs out", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const account = yield* makeAccount(service, ["*:*"])
        const window = yield* openWindow(service)
        const { page } = window
        yield* window.visit("/api-keys")
        assert.include(page.url(), "/console/login?next=%2Fapi-keys")
        yield* step(() => page.getByLabel("E-mail address").fill(account.email))
        yield* step(() => page.getByLabel("Password").fill("not the password"))
        yield* step(() => page.keyboard.press("Enter"))
        yield* step(() => page.getByRole("alert").waitFor())
        yield* step(() => page.getByLabel("Password").fill(account.password))
        yield* step(() => page.keyboard.press("Enter"))
        yield* step(() => page.waitForURL("**/console/api-keys"))
        yield* step(() => page.getByRole("button", { name: "Account" }).click())
        yield* step(() => page.getByRole("button", { name: "Sign out" }).click())
        yield* step(() => page.waitForURL("**/console/login**"))
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("an address of another script signs in, and makes an account, as it is typed", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const account = yield* makeAccount(service, ["*:*"], { email: "संपर्क@डाटामेल.भारत" })
        const window = yield* openWindow(service)
        const { page } = window
        yield* window.visit("/accounts")
        yield* step(() => page.getByLabel("E-mail address").fill(account.email))
        yield* step(() => page.getByLabel("Password").fill(account.password))
        yield* step(() => page.keyboard.press("Enter"))
        yield* step(() => page.getByRole("button", { name: "Invite a person" }).click())
        yield* step(() => page.getByLabel("E-mail address").fill("jörg@exämple.de"))
        yield* step(() => page.getByLabel("Name", { exact: true }).fill("Jörg"))
        yield* step(() => page.getByRole("button", { name: "Create the link" }).click())
        yield* step(() => page.getByLabel("I have sent it").check())
        yield* step(() => page.getByRole("button", { name: "Done" }).click())
        yield* step(() => page.getByRole("row", { name: "jörg@exämple.de" }).waitFor())
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("a sign-in that is to lead away from the console leads to its front page", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const account = yield* makeAccount(service, ["*:*"])
        const window = yield* openWindow(service)
        const { page } = window
        yield* window.visit("/login?next=/..//evil.com")
        yield* step(() => page.getByLabel("E-mail address").fill(account.email))
        yield* step(() => page.getByLabel("Password").fill(account.password))
        yield* step(() => page.keyboard.press("Enter"))
        yield* step(() => page.waitForURL((url) => !url.pathname.endsWith("/login")))
        assert.strictEqual(page.url(), `${service.url}/console/`)
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("a key is made, shown once, used, rotated and revoked", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit("/api-keys")
        yield* step(() => page.getByRole("button", { name: "Create a key" }).click())
        yield* step(() => page.getByLabel("Name", { exact: true }).fill("by hand"))
        yield* step(() => page.getByLabel("dashboard:read", { exact: true }).check())
        yield* step(() => page.getByRole("button", { name: "Create the key" }).click())
        const key = yield* step(() => page.getByTestId("secret").innerText())
        assert.strictEqual((yield* service.call("GET", "/api/dashboard/metrics", { key })).status, 200)
        yield* step(() => page.keyboard.press("Escape"))
        assert.isTrue(yield* step(() => page.getByTestId("secret").isVisible()), "closed before it was confirmed")
        yield* step(() => page.getByLabel("I have saved it").check())
        yield* step(() => page.getByRole("button", { name: "Done" }).click())
        yield* settled(page)
        assert.notInclude(yield* step(() => page.content()), key)

        const row = page.getByRole("row", { name: "by hand" }).first()
        yield* step(() => row.getByRole("button", { name: "Rotate" }).click())
        yield* step(() => page.getByLabel("Grace period in hours").fill("0"))
        yield* step(() => page.getByRole("dialog").getByRole("button", { name: "Rotate" }).click())
        const next = yield* step(() => page.getByTestId("secret").innerText())
        assert.notStrictEqual(next, key)
        assert.strictEqual((yield* service.call("GET", "/api/dashboard/metrics", { key })).status, 401)
        yield* step(() => page.getByLabel("I have saved it").check())
        yield* step(() => page.getByRole("button", { name: "Done" }).click())

        const active = page.getByRole("row", { name: "by hand" }).filter({ hasText: "active" })
        yield* step(() => active.getByRole("button", { name: "Revoke" }).click())
        yield* step(() => page.getByRole("button", { name: "Revoke the key" }).click())
        yield* step(() => page.getByRole("dialog").waitFor({ state: "detached" }))
        assert.strictEqual((yield* service.call("GET", "/api/dashboard/metrics", { key: next })).status, 401)
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("keys are searched from the keyboard and sorted by a column, which the address says", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const word = crypto.randomUUID()
        for (const name of ["b", "a", "c"]) yield* makeKey(service, [], { name: `${name} ${word}` })
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit("/api-keys")
        const first = page.locator("tbody tr").first()
        assert.include(yield* step(() => first.innerText()), `c ${word}`, "the newest is first")
        yield* step(() => page.keyboard.press("/"))
        yield* step(() => page.keyboard.type(word.toUpperCase()))
        yield* step(() => page.keyboard.press("Enter"))
        yield* step(() => page.waitForURL(`**search=${word.toUpperCase()}`))
        yield* step(() => page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 3))
        yield* step(() => page.getByRole("columnheader", { name: "Name" }).getByRole("button").click())
        yield* step(() =>
          page
            .getByRole("row", { name: `a ${word}` })
            .first()
            .waitFor()
        )
        yield* step(() => page.locator("th[aria-sort=ascending]").waitFor())
        yield* settled(page)
        assert.include(yield* step(() => first.innerText()), `a ${word}`)
        assert.include(page.url(), "sort=name")
        yield* step(() => window.context.grantPermissions(["clipboard-read", "clipboard-write"]))
        yield* step(() => page.getByRole("button", { name: "Copy as curl" }).click())
        const command = yield* step(() => page.evaluate(() => navigator.clipboard.readText()))
        assert.include(command, `search=${word.toUpperCase()}&sort=name`)
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("the next page of a list begins at its head and is announced", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const tenantId = yield* makeTenant(service.database)
        yield* asSuperuser(
          service.database,
          (sql) => sql`
            INSERT INTO agents (tenant_id, name, description, scope_ceiling, max_credential_ttl_seconds, allowed_task_types,
              status, created_at, created_by, updated_at)
            SELECT ${tenantId}, 'agent ' || i, '', '{}', 3600, '{}', 'active', now(), 'test', now() FROM generate_series(1, 51) i`
        )
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit(`/agents?tenantId=${tenantId}&sort=name`)
        const announced = page.getByRole("status").filter({ hasText: "row" })
        assert.strictEqual(yield* step(() => announced.innerText()), "50 rows")
        yield* step(() => page.getByRole("link", { name: "Next" }).click())
        yield* step(() => page.getByText("1 row", { exact: true }).waitFor({ state: "attached" }))
        yield* step(() => page.getByRole("button", { name: "Previous" }).click())
        yield* step(() => page.getByText("50 rows", { exact: true }).waitFor({ state: "attached" }))
        const next = page.getByRole("link", { name: "Next" })
        yield* step(() => next.scrollIntoViewIfNeeded())
        assert.isAbove(yield* step(() => page.evaluate(() => scrollY)), 0)
        yield* step(() => next.click())
        yield* step(() => page.getByText("1 row", { exact: true }).waitFor({ state: "attached" }))
        yield* step(() => page.getByRole("columnheader", { name: "Name" }).waitFor())
        assert.isTrue(
          yield* step(() => page.evaluate(() => document.querySelector("thead")!.getBoundingClientRect().top >= 0))
        )
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("who lacks a capability sees why a control cannot be used, and a page not at all", () =>
      Effect.gen(function* () {
        const window = yield* openConsole(yield* TestService, ["api-keys:read"])
        const { page } = window
        yield* window.visit("/api-keys")
        const create = page.getByRole("button", { name: "Create a key" })
        assert.strictEqual(yield* step(() => create.getAttribute("title")), "Needs the capability api-keys:write")
        yield* step(() => create.click({ force: true }))
        assert.strictEqual(yield* step(() => page.getByRole("dialog").count()), 0)
        yield* window.visit("/attestation")
        assert.include(yield* step(() => page.innerText("main")), "attestation:read")
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect(
      "an operator of a tenant meets no failure on any page, and learns which are of the whole installation",
      () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const tenantId = yield* makeTenant(service.database)
          const window = yield* openConsole(service, ["*:*"], { tenantId })
          const { page } = window
          const failed: Array<string> = []
          page.on("response", (answer) => {
            if (answer.status() >= 400) failed.push(`${answer.status()} ${answer.url()}`)
          })
          yield* window.visit("/")
          const shown = yield* step(() => page.getByRole("navigation", { name: "Main" }).innerText())
          assert.notInclude(shown, "Tenants")
          assert.include(shown, "Caps")
          const closed: Array<string> = []
          for (const at of consolePaths) {
            yield* step(() => page.evaluate((path) => history.pushState(null, "", `/console${path}`), at))
            yield* settled(page)
            assert.strictEqual(yield* step(() => page.getByRole("alert").count()), 0, at)
            if (yield* step(() => page.getByText("This page is about the whole installation").isVisible()))
              closed.push(at)
          }
          assert.deepStrictEqual(failed, [])
          assert.includeMembers(closed, ["/tenants", "/trial-users", "/files", "/attestation", "/settings"])
          const open = ["/", "/caps", "/agents", "/gateway", "/audit"]
          assert.deepStrictEqual(
            open.filter((at) => closed.includes(at)),
            []
          )
          assertQuiet(window)
        }).pipe(Effect.scoped)
    )
  })
})
