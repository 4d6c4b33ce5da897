import { assert, describe, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { assertQuiet, Browser, executablePath, openConsole, settled, step } from "../support/browser.ts"
import { sharedServiceLayer, TestService } from "../support/service.ts"

/** Makes something over the API and answers its body. */
const made = (service: TestService["Service"], path: string, body: object) =>
  Effect.map(service.call("POST", path, { body }), (answer) => {
    assert.strictEqual(answer.status, 201, answer.text)
    return answer.body
  })

describe.skipIf(executablePath === undefined)("agents, roles and configuration in the console", () => {
  layer(Layer.merge(sharedServiceLayer, Browser.layer), { excludeTestServices: true, timeout: "60 seconds" })((it) => {
    it.effect("a token is issued to an agent, and refused once the agent is suspended", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit("/agents")
        yield* step(() => page.getByRole("button", { name: "Register an agent" }).click())
        yield* step(() => page.getByLabel("Name", { exact: true }).fill("console-clerk"))
        yield* step(() => page.getByLabel("agents:read", { exact: true }).check())
        yield* step(() => page.getByRole("button", { name: "Register the agent" }).click())
        yield* step(() => page.getByRole("heading", { name: "console-clerk" }).waitFor())

        yield* step(() => page.getByRole("link", { name: "Tokens" }).click())
        yield* step(() => page.getByRole("button", { name: "Issue a token" }).click())
        yield* step(() => page.getByRole("button", { name: "Issue the token" }).click())
        const token = yield* step(() => page.getByTestId("secret").innerText())
        const headers = { authorization: `Bearer ${token}` }
        assert.strictEqual((yield* service.call("GET", "/api/agents", { key: null, headers })).status, 200)
        yield* step(() => page.getByLabel("I have saved it").check())
        yield* step(() => page.getByRole("button", { name: "Done" }).click())

        yield* step(() => page.getByRole("button", { name: "Suspend" }).click())
        yield* step(() => page.getByRole("button", { name: "Suspend the agent" }).click())
        yield* step(() => page.getByRole("button", { name: "Activate" }).waitFor())
        assert.strictEqual((yield* service.call("GET", "/api/agents", { key: null, headers })).status, 401)

        yield* step(() => page.getByRole("link", { name: "Keys", exact: true }).click())
        const register = page.getByRole("button", { name: "Register a key" })
        assert.strictEqual(yield* step(() => register.getAttribute("title")), "The agent is suspended")
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("a role is edited by keyboard alone, and what changes is shown before it is saved", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const window = yield* openConsole(service)
        const { page } = window
        const application = yield* made(service, "/api/applications", { name: "Keyed" })
        const role = yield* made(service, "/api/roles", {
          applicationId: application.id,
          name: "Clerk",
          capabilities: ["invoices:*", "letters:read"]
        })
        yield* made(service, "/api/roles", {
          applicationId: application.id,
          name: "Reader",
          capabilities: ["invoices:read", "invoices:write", "letters:read"]
        })
        yield* window.visit(`/roles?application=${application.id}`)
        const press = (...keys: ReadonlyArray<string>) =>
          Effect.forEach(keys, (key) => step(() => page.keyboard.press(key)), { discard: true })
        const focused = step(() => page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? ""))
        yield* step(() => page.getByRole("button", { name: "Reader" }).focus())
        yield* press("Tab")
        assert.strictEqual(yield* focused, "*:* for Clerk")
        yield* press("ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown")
        assert.strictEqual(yield* focused, "invoices:read for Clerk")
        // All of a resource but one: the other is named in the place of the star.
        yield* press("Space", "Control+End", "Space")
        assert.strictEqual(yield* focused, "letters:read for Reader")
        yield* press("ArrowLeft", "ArrowUp", "Space", "Space")
        assert.strictEqual(yield* focused, "all of letters for Clerk")
        yield* step(() => page.getByRole("button", { name: "Review and save 2 roles" }).press("Enter"))
        const shown = yield* step(() => page.getByRole("dialog").getByRole("region", { name: "Clerk" }).innerText())
        assert.deepStrictEqual(
          shown.split("\n").filter((line) => /^[+-]/.test(line)),
          ["+ invoices:write", "- invoices:*"]
        )
        yield* step(() => page.getByRole("dialog").getByRole("button", { name: "Save" }).press("Enter"))
        yield* step(() => page.getByRole("dialog").waitFor({ state: "detached" }))
        const { body } = yield* service.call("GET", `/api/roles/${role.id}`)
        assert.sameMembers(body.capabilities, ["letters:read", "invoices:write"])
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("a save keeps the end of each line in a file that mixes them", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { page, visit } = yield* openConsole(service)
        const application = yield* made(service, "/api/applications", { name: "Of mixed line ends" })
        const content = "one\r\ntwo\nthree\r\n\nfive\rsix\n"
        const file = yield* made(service, "/api/configuration", {
          applicationId: application.id,
          name: "hosts.txt",
          type: "file",
          content
        })
        yield* visit(`/files/${file.id}`)
        const editor = page.getByLabel("Content of hosts.txt")
        yield* step(() => editor.fill("one\ntwo, changed\nthree\nnew\n\nfive\nsix\n"))
        yield* step(() => page.getByRole("button", { name: "Save as version 2" }).click())
        yield* step(() => page.getByRole("button", { name: "Save as version 3" }).waitFor())
        assert.strictEqual(
          (yield* service.call("GET", `/api/configuration/${file.id}`)).body.content,
          "one\r\ntwo, changed\nthree\r\nnew\r\n\nfive\rsix\n"
        )
      }).pipe(Effect.scoped)
    )

    it.effect("a conflict of two saves is resolved, and the file rolled back to an earlier version", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const window = yield* openConsole(service)
        const { page } = window
        const application = yield* made(service, "/api/applications", { name: "Edited in the console" })
        const file = yield* made(service, "/api/configuration", {
          applicationId: application.id,
          name: "settings.json",
          type: "file",
          content: '{\n  "a": 1,\n  "b": 1,\n  "c": 1,\n  "d": 1,\n  "e": 1,\n  "f": 1\n}\n'
        })
        const path = `/api/configuration/${file.id}`
        yield* window.visit(`/files/${file.id}`)
        const editor = page.getByLabel("Content of settings.json")
        const mine = file.content.replace('"a": 1', '"a": 2')
        yield* step(() => editor.fill(`${mine}]`))
        yield* step(() => page.getByText(/The document has ended before this/).waitFor())
        yield* step(() => editor.fill(mine))
        yield* step(() => page.getByText("No fault in the JSON").waitFor())

        const theirs = file.content.replace('"f": 1', '"f": 3')
        assert.strictEqual((yield* service.call("PUT", path, { body: { content: theirs } })).status, 200)
        yield* step(() => page.getByRole("button", { name: "Save as version 2" }).click())
        const conflict = page.getByRole("region", { name: "Conflict" })
        yield* step(() => conflict.getByText('+  "f": 3').waitFor())
        yield* step(() => conflict.getByRole("tab", { name: "Mine" }).click())
        yield* step(() => conflict.getByText('+  "a": 2').waitFor())
        yield* step(() => conflict.getByRole("button", { name: "Save the result as version 3" }).click())
        yield* step(() => conflict.waitFor({ state: "detached" }))
        assert.strictEqual((yield* service.call("GET", path)).body.content, theirs.replace('"a": 1', '"a": 2'))

        yield* step(() => page.getByRole("link", { name: "Versions" }).click())
        const first = page.getByRole("row", { name: "Version 1" })
        yield* step(() => first.getByRole("button", { name: "Roll back" }).click())
        const dialog = page.getByRole("dialog", { name: "Roll settings.json back to version 1" })
        yield* step(() => dialog.getByText('-  "a": 2').waitFor())
        yield* step(() => dialog.getByRole("button", { name: "Roll back" }).click())
        yield* step(() => page.getByRole("row", { name: "Version 4" }).waitFor())
        assert.deepInclude((yield* service.call("GET", path)).body, { version: 4, content: file.content })

        yield* window.visit(`/files/${file.id}?version=2`)
        assert.include(yield* step(() => page.innerText("main pre")), '"f": 3')
        yield* settled(page)
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )
  })
})
