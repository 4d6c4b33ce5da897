import { assert, describe, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { once } from "node:events"
import * as net from "node:net"
import { Webhook } from "standardwebhooks"
import { issuerOf } from "../support/agents.ts"
import { assertQuiet, Browser, executablePath, openConsole, openWindow, settled, step } from "../support/browser.ts"
import { makeProvider } from "../support/openid-provider.ts"
import { makeRegistration } from "../support/registrations.ts"
import { serviceLayer, TestService } from "../support/service.ts"
import { startReceiver } from "../support/webhook-receiver.ts"

/** A port that is free now: what an identity provider sends browsers back to has to be known before the service listens. */
const freePort = Effect.promise(async () => {
  const server = net.createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as net.AddressInfo
  server.close()
  await once(server, "close")
  return port
})

const layers = Layer.merge(
  Layer.unwrap(
    Effect.map(freePort, (port) =>
      serviceLayer({
        Api__Port: `${port}`,
        IdentityProviders__AllowPrivateAddresses: "true",
        Integrations__AllowPrivateAddresses: "true"
      })
    )
  ),
  Browser.layer
)

describe.skipIf(executablePath === undefined)("other systems and people in the console", () => {
  layer(layers, { excludeTestServices: true, timeout: "60 seconds" })((it) => {
    it.effect("an application that registered itself is approved with fewer scopes, another is rejected", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const wanted = yield* makeRegistration(service, ["agents:read", "llm:complete"], {
          client_name: "Billing agent"
        })
        const unwanted = yield* makeRegistration(service, ["*:*"], { client_name: "Wants all" })
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit("/applications")
        yield* step(() => page.getByText("2 waiting").waitFor())
        yield* step(() => page.getByRole("link", { name: "Review" }).click())
        yield* step(() => page.getByRole("link", { name: "Billing agent" }).click())
        yield* step(() => page.getByRole("button", { name: "Approve" }).click())
        const approval = page.getByRole("dialog", { name: "Approve Billing agent" })
        yield* step(() => approval.getByLabel("agents:read", { exact: true }).uncheck())
        yield* step(() => approval.getByRole("button", { name: "Approve" }).click())
        yield* step(() => approval.waitFor({ state: "detached" }))
        yield* step(() => page.locator(".tag.ok", { hasText: "active" }).waitFor())
        const { body: told } = yield* wanted.get
        assert.strictEqual(told.status, "active")
        const { body: key } = yield* service.call("GET", "/api/api-keys?limit=200")
        const made = key.items.find(({ name }: { readonly name: string }) => name.includes("illing"))
        assert.deepStrictEqual(made?.scopes, ["llm:complete"])
        assert.strictEqual((yield* service.call("GET", "/v1/models", { key: told.client_secret })).status, 200)

        yield* window.visit("/applications?status=pending")
        yield* step(() => page.getByRole("link", { name: "Wants all" }).click())
        yield* step(() => page.getByRole("button", { name: "Reject" }).click())
        const rejection = page.getByRole("dialog", { name: "Reject Wants all" })
        yield* step(() => rejection.getByRole("button", { name: "Reject" }).click())
        yield* step(() => rejection.waitFor({ state: "detached" }))
        assert.strictEqual((yield* unwanted.get).body.status, "rejected")
        yield* window.visit("/applications?status=pending")
        yield* step(() => page.getByText("Nothing matches").waitFor())
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("trials are extended, and their users deactivated, together", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const users = yield* Effect.forEach(["Ada", "Barbara", "Grace"], (firstName) =>
          Effect.map(
            service.call("POST", "/api/trial-users", {
              body: { firstName, lastName: "Hopeful", email: `${firstName.toLowerCase()}@example.com` }
            }),
            ({ body }) => body
          )
        )
        const now = Effect.forEach(users, ({ id }) =>
          Effect.map(service.call("GET", `/api/trial-users/${id}`), ({ body }) => body)
        )
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit("/trial-users")
        yield* step(() => page.getByLabel("Select all on this page").check())
        const bulk = page.getByRole("group", { name: "With the selected rows" })
        yield* step(() => bulk.getByText("3 selected").waitFor())
        yield* step(() => bulk.getByRole("button", { name: "Extend" }).click())
        const dialog = page.getByRole("dialog")
        assert.include(yield* step(() => dialog.innerText()), "Grace Hopeful, Barbara Hopeful, Ada Hopeful")
        yield* step(() => dialog.getByLabel("Days").fill("10"))
        yield* step(() => page.keyboard.press("Enter"))
        yield* step(() => page.getByText("3 changed").waitFor())
        for (const [index, { trialEndDate }] of (yield* now).entries()) {
          const days = (Date.parse(trialEndDate) - Date.parse(users[index]!.trialEndDate)) / 86_400_000
          assert.strictEqual(days, 10)
        }

        yield* step(() => page.getByLabel("Select Ada Hopeful").check())
        yield* step(() => page.getByLabel("Select Grace Hopeful").check())
        yield* step(() => bulk.getByRole("button", { name: "Deactivate" }).click())
        yield* step(() => dialog.getByRole("button", { name: "Deactivate" }).click())
        yield* step(() => dialog.waitFor({ state: "detached" }))
        assert.deepStrictEqual(
          (yield* now).map(({ isActive }) => isActive),
          [false, true, false]
        )
        yield* step(() => page.getByRole("row", { name: "Ada Hopeful" }).getByText("inactive").waitFor())
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect(
      "a receiver is subscribed with a secret, receives signed events until it is disabled, and is deleted",
      () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const receiver = yield* startReceiver
          receiver.answerHeaders = { "WebHook-Allowed-Origin": "*" }
          const window = yield* openConsole(service)
          const { page } = window
          yield* window.visit("/events")
          yield* step(() => page.getByRole("button", { name: "Add a receiver" }).click())
          const form = page.getByRole("dialog", { name: "Add a receiver" })
          yield* step(() => form.getByLabel("Receiver").fill(receiver.url))
          yield* step(() => form.getByLabel("Event types", { exact: true }).selectOption("Selected types"))
          yield* step(() => form.getByRole("checkbox", { name: "Tenant", exact: true }).check())
          yield* step(() => form.getByLabel("Sign deliveries").check())
          yield* step(() => form.getByRole("button", { name: "Add the receiver" }).click())
          const secret = yield* step(() => page.getByTestId("secret").innerText())
          yield* step(() => page.getByLabel("I have saved it").check())
          yield* step(() => page.getByRole("button", { name: "Done" }).click())
          const row = page.getByRole("row").filter({ hasText: receiver.url })
          yield* step(() => row.getByText("active").waitFor())
          assert.notInclude(yield* step(() => page.content()), secret)
          yield* service.call("POST", "/api/tenants", { body: { name: "Told of" } })
          const [hook] = yield* receiver.until(1)
          new Webhook(secret).verify(hook!.body, hook!.headers)

          const change = Effect.fnUntraced(function* (button: string) {
            yield* step(() => row.getByRole("button", { name: button }).click())
            yield* step(() => page.getByRole("button", { name: `${button} the subscription` }).click())
            yield* step(() => page.getByRole("dialog").waitFor({ state: "detached" }))
          })
          yield* change("Disable")
          yield* step(() => row.getByText("disabled").waitFor())
          yield* service.call("POST", "/api/tenants", { body: { name: "Not told of" } })
          yield* change("Enable")
          yield* step(() => row.getByText("active").waitFor())
          yield* service.call("POST", "/api/tenants", { body: { name: "Told of again" } })
          const [, next] = yield* receiver.until(2)
          new Webhook(secret).verify(next!.body, next!.headers)
          assert.include(next!.body, "Told of again")
          yield* change("Delete")
          yield* step(() => page.getByText("No receiver is subscribed").waitFor())
          assertQuiet(window)
        }).pipe(Effect.scoped)
    )

    it.effect("an integration shows its secret once, is tested, and lists what it was sent", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const receiver = yield* startReceiver
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit("/integrations")
        yield* step(() => page.getByRole("button", { name: "Create an integration" }).click())
        const form = page.getByRole("dialog", { name: "Create an integration" })
        yield* step(() => form.getByLabel("Name").fill("CRM"))
        yield* step(() => form.getByLabel("Address").fill(receiver.url))
        const types = form.getByLabel("Event types", { exact: true })
        const filter = form.getByLabel("Filter event types")
        yield* step(() => filter.fill("*.of-all"))
        yield* step(() => form.getByRole("button", { name: "Add *.of-all" }).click())
        yield* step(() => form.getByRole("button", { name: "Create the integration" }).click())
        yield* step(() => form.locator("[aria-invalid=true]").waitFor())
        assert.strictEqual(yield* step(() => types.getAttribute("aria-invalid")), "true")
        const hint = yield* step(() => types.getAttribute("aria-describedby"))
        assert.include(yield* step(() => form.locator(`[id="${hint}"]`).innerText()), "Expected")
        assert.notInclude(yield* step(() => form.innerText()), "payload")
        yield* step(() => form.getByRole("checkbox", { name: "*.of-all" }).click())
        yield* step(() => filter.fill("tenant"))
        yield* step(() => form.getByRole("checkbox", { name: "Tenant", exact: true }).check())
        yield* step(() => form.getByRole("button", { name: "Create the integration" }).click())
        const secret = yield* step(() => page.getByTestId("secret").innerText())
        yield* step(() => page.getByLabel("I have saved it").check())
        yield* step(() => page.getByRole("button", { name: "Done" }).click())
        yield* step(() => page.getByRole("link", { name: "CRM" }).click())
        yield* step(() => page.getByRole("button", { name: "Test" }).click())
        yield* step(() => page.getByText("Delivered: the receiver answered 204").waitFor())
        const [hook] = yield* receiver.until(1)
        new Webhook(secret).verify(hook!.body, hook!.headers)
        yield* service.call("POST", "/api/tenants", { body: { name: "Delivered" } })
        yield* receiver.until(2)
        yield* step(() => page.getByRole("row", { name: "tenant.created" }).getByText("delivered").waitFor())
        yield* step(() => page.getByRole("button", { name: "Delete" }).click())
        yield* step(() => page.getByRole("button", { name: "Delete the integration" }).click())
        yield* step(() => page.getByText("There is no integration yet").waitFor())
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("an identity provider is set up and tested, and signs a person in", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const provider = yield* makeProvider
        provider.user = { sub: "grace", email: "grace@example.com", name: "Grace Hopper" }
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit("/identity-providers")
        yield* step(() => page.getByRole("button", { name: "Add an identity provider" }).click())
        const form = page.getByRole("dialog", { name: "Add an identity provider" })
        yield* step(() => form.getByLabel("Issuer").fill(provider.issuer))
        yield* step(() => form.getByLabel("Client id").fill(provider.client.clientId))
        yield* step(() => form.getByLabel("Client secret").fill(provider.client.clientSecret))
        yield* step(() => form.getByLabel("Viewer").check())
        yield* step(() => form.getByRole("button", { name: "Add the provider" }).click())
        yield* step(() => form.waitFor({ state: "detached" }))
        const row = page.getByRole("row").filter({ hasText: new URL(provider.issuer).host })
        yield* step(() => row.getByRole("button", { name: "Test" }).click())
        const test = page.getByRole("dialog", { name: `Test ${provider.issuer}` })
        yield* step(() => test.getByRole("button", { name: "Test" }).click())
        yield* step(() => test.getByText("it works").waitFor())
        const redirect = yield* step(() => test.locator("dd code").innerText())
        assert.include(redirect, yield* step(() => issuerOf(service)))
        provider.allowRedirect(redirect)
        assertQuiet(window)

        const other = yield* openWindow(service, { ignoreHTTPSErrors: true })
        yield* other.visit("/caps?search=monthly")
        yield* step(() => other.page.getByRole("link", { name: "Sign in with" }).click())
        yield* step(() => other.page.waitForURL("**/console/caps?search=monthly"))
        yield* settled(other.page)
        yield* step(() => other.page.getByRole("button", { name: "Account" }).click())
        yield* step(() => other.page.getByText("grace@example.com").waitFor())
        assert.deepStrictEqual([...new Set(other.complaints)], [`request to ${provider.issuer}`])
      }).pipe(Effect.scoped)
    )
  })
})
