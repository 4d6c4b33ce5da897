import { assert, describe, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as crypto from "node:crypto"
import { checkShown } from "../console/pages.ts"
import { makeAccount } from "../support/accounts.ts"
import { assertQuiet, Browser, consolePaths, executablePath, openConsole, settled, step } from "../support/browser.ts"
import { doJob } from "../support/jobs.ts"
import { sharedServiceLayer, TestService } from "../support/service.ts"

const unique = (name: string): string => `${name} ${crypto.randomUUID().slice(0, 8)}`

describe.skipIf(executablePath === undefined)("dialogs of the console", () => {
  layer(Layer.merge(sharedServiceLayer, Browser.layer), { excludeTestServices: true, timeout: "240 seconds" })((it) => {
    for (const width of [1280, 360]) {
      it.effect(
        `of the main button of every page show what is wrong where it is, and keep what was typed (${width} px)`,
        () =>
          Effect.gen(function* () {
            const service = yield* TestService
            const window = yield* openConsole(service)
            const { page } = window
            yield* step(() => page.setViewportSize({ width, height: 800 }))
            let opened = 0
            const troubles: Array<string> = []
            for (const at of consolePaths) {
              yield* window.visit(at)
              const main = page.locator("main .btn.main:not([aria-disabled=true])").first()
              if ((yield* step(() => main.count())) === 0) continue
              const what = `${at}: ${yield* step(() => main.innerText())}`
              yield* step(() => main.click())
              const dialog = page.locator("dialog[open]")
              const isShown = yield* step(() =>
                dialog.waitFor({ timeout: 1000 }).then(
                  () => true,
                  () => false
                )
              )
              if (!isShown) continue
              yield* settled(page)
              const submit = dialog.locator("button[type=submit]").last()
              if ((yield* step(() => submit.count())) === 0) continue
              opened += 1
              yield* step(() => submit.click())
              const fault = dialog.locator("[aria-invalid=true], [role=alert]").first()
              const isRefused = yield* step(() =>
                fault.waitFor({ timeout: 2000 }).then(
                  () => true,
                  () => false
                )
              )
              if (isRefused) {
                const isFocused = yield* step(() =>
                  dialog.evaluate((element) => {
                    const { activeElement } = document
                    const first = element.querySelector("[aria-invalid=true], [role=alert]")
                    const { bottom = -1, top = -1 } = activeElement?.getBoundingClientRect() ?? {}
                    return activeElement === first && top >= 0 && bottom <= globalThis.innerHeight
                  })
                )
                if (!isFocused) troubles.push(`${what}: the fault is not in sight and focused`)
              } else if (yield* step(() => dialog.isVisible())) troubles.push(`${what}: nothing says what is wrong`)
              const looked = yield* Effect.exit(checkShown(page, what))
              if (looked._tag === "Failure") troubles.push(`${what}: ${String(looked.cause)}`)
              const field = dialog.locator("form :is(input:not([type]), input[type=text], textarea):visible").first()
              if ((yield* step(() => field.count())) === 0 || !(yield* step(() => field.isEditable()))) continue
              yield* step(() => field.fill("typed"))
              yield* step(() => page.keyboard.press("Escape"))
              const asks = page.getByRole("alertdialog", { name: "Discard what you entered?" })
              const isAsked = yield* step(() =>
                asks.waitFor({ timeout: 2000 }).then(
                  () => true,
                  () => false
                )
              )
              if (!isAsked) troubles.push(`${what}: Escape throws away what was typed`)
            }
            assert.deepStrictEqual(troubles, [])
            assert.isAtLeast(opened, 10)
          }).pipe(Effect.scoped)
      )

      it.effect(`an operator lets an agent act for a person, who is found by name (${width} px)`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const person = yield* makeAccount(service, [], { name: unique("Ada") })
          const { body: agent } = yield* service.call("POST", "/api/agents", {
            body: { name: unique("clerk"), description: "", scopeCeiling: ["llm:complete"] }
          })
          const window = yield* openConsole(service)
          const { page } = window
          yield* step(() => page.setViewportSize({ width, height: 800 }))
          yield* window.visit(`/agents/${agent.id}?tab=delegations`)
          const dialog = page.getByRole("dialog")
          yield* doJob(window, { name: "delegate", clicks: 6 }, (hand) =>
            Effect.gen(function* () {
              yield* hand.click(page.getByRole("button", { name: "Delegate" }))
              yield* hand.choose(dialog.getByLabel("It acts for"), "user")
              yield* hand.type(dialog.getByLabel("Search account"), person.email)
              yield* hand.click(dialog.getByRole("radio", { name: new RegExp(person.email) }))
              yield* hand.click(dialog.getByRole("checkbox", { name: "llm:complete" }))
              yield* hand.click(dialog.getByRole("button", { name: "Create the delegation" }))
              yield* step(() => dialog.waitFor({ state: "detached" }))
            })
          )
          const { body: grants } = yield* service.call("GET", `/api/agents/${agent.id}/delegations`)
          const [grant] = grants.items ?? grants
          assert.strictEqual(grant.subject, person.id)
          assertQuiet(window)
        }).pipe(Effect.scoped)
      )
    }
  })
})
