import { assert, describe, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as fs from "node:fs"
import { assertQuiet, Browser, executablePath, openConsole, settled, step } from "../support/browser.ts"
import { makeDatabase } from "../support/database.ts"
import { sharedServiceLayer, startService, TestService } from "../support/service.ts"

describe.skipIf(executablePath === undefined)("trust in the console", () => {
  layer(Layer.merge(sharedServiceLayer, Browser.layer), { excludeTestServices: true, timeout: "60 seconds" })((it) => {
    it.effect("an audit entry is found, shows what changed, and is exported; the chain is verified", () =>
      Effect.gen(function* () {
        // Of its own: others tamper with the chain of theirs.
        const service = yield* startService(yield* makeDatabase)
        const made = yield* service.call("POST", "/api/tenants", { body: { name: "Looked at", slug: "looked-at" } })
        const id: string = made.body.id
        yield* service.call("PATCH", `/api/tenants/${id}`, { body: { name: "Looked at again" } })
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit("/audit")
        yield* step(() => page.getByLabel("Entity:").fill("Tenant"))
        yield* step(() => page.getByLabel("Action", { exact: true }).selectOption("TenantUpdated"))
        yield* step(() => page.waitForURL("**actionType=TenantUpdated**"))
        yield* settled(page)
        yield* step(() => page.getByRole("link", { name: "Tenant updated" }).first().click())
        yield* step(() => page.getByRole("heading", { name: "What changed" }).waitFor())
        yield* step(() => page.locator("ins", { hasText: "Looked at again" }).waitFor())
        yield* step(() => page.getByRole("link", { name: id }).click())
        yield* step(() => page.waitForURL(`**entityId=${id}**`))
        yield* settled(page)
        assert.strictEqual(yield* step(() => page.locator("tbody tr").count()), 2)

        const file = yield* step(async () => {
          const [download] = await Promise.all([
            page.waitForEvent("download"),
            page.getByRole("link", { name: "JSON Lines" }).click()
          ])
          return download.path()
        })
        const lines = fs.readFileSync(file, "utf8").trimEnd().split("\n")
        assert.strictEqual(lines.filter((line) => line.includes(`"entityId":"${id}"`)).length, 2)

        yield* step(() => page.getByRole("button", { name: "Verify" }).click())
        yield* step(() => page.getByRole("dialog").getByText("Intact").waitFor())
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("a security report is made and a finding is acknowledged", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        yield* service.call("POST", "/api/api-keys", { body: { name: "without an end", scopes: ["*:*"] } })
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit("/security")
        yield* step(() => page.getByRole("button", { name: "Create a report" }).click())
        yield* step(() => page.getByLabel("Kind", { exact: true }).last().selectOption("keys"))
        yield* step(() => page.getByRole("button", { name: "Create the report" }).click())
        const row = page.getByRole("row", { name: "Keys" }).filter({ hasText: "completed" }).first()
        yield* step(() => row.waitFor())
        yield* step(() => row.getByRole("link").click())
        yield* settled(page)
        yield* step(() =>
          page.getByRole("row", { name: "without an end" }).first().getByRole("button", { name: "Decide" }).click()
        )
        yield* step(() => page.getByLabel("Reason").fill("It is of the test"))
        yield* step(() => page.getByRole("button", { name: "Save" }).click())
        yield* step(() => page.getByRole("dialog").waitFor({ state: "detached" }))
        yield* step(() =>
          page.getByRole("row", { name: "without an end" }).filter({ hasText: "acknowledged" }).first().waitFor()
        )
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )
  })
})
