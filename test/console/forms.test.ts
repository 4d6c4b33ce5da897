import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { members } from "../../src/console/declarations.ts"
import { isNeeded } from "../../src/console/web/kit/forms/members.ts"
import { registration } from "../support/agents.ts"
import { assertQuiet, Browser, executablePath, openConsole, step } from "../support/browser.ts"
import { sharedServiceLayer, TestService } from "../support/service.ts"

describe("the members of bodies, as forms of the console know them", () => {
  const all = members()
  const of = (operation: string, member: string) => {
    const found = all[operation]?.[member]
    assert.isDefined(found, `${operation} ${member}`)
    return Object.fromEntries(Object.entries(found ?? {}).filter(([, value]) => value !== undefined))
  }

  it.each([
    ["apiKeys.create", "name", { kind: "string", maxLength: 100, isRequired: true, isFilled: true }],
    ["apiKeys.create", "expiresAt", { kind: "date-time", isNullable: true }],
    ["apiKeys.rotate", "graceSeconds", { kind: "integer", min: 0, max: 604_800 }],
    ["accounts.create", "password", { kind: "string", maxLength: 128, isRequired: true, isFilled: true }],
    ["agents.update", "description", { kind: "string", maxLength: 1000 }],
    ["agents.update", "perTurnBudget", { kind: "number", isNullable: true }],
    ["configuration.move", "parentId", { kind: "integer", isNullable: true }],
    ["budgetCaps.create", "scope.applicationId", { kind: "integer" }],
    ["agents.update", "allowedTaskTypes", { kind: "array" }],
    ["integrations.update", "eventTypes", { kind: "array", ofWords: true }],
    ["integrations.create", "kind", { kind: "string", options: ["webhook", "slack", "cloudevents"], isRequired: true }],
    ["subscriptions.create", "quota.amount", { kind: "number", min: 0, max: Number.MAX_SAFE_INTEGER, isRequired: true }]
  ])("%s takes %s", (operation, member, expected) => {
    assert.deepInclude(of(operation, member), expected)
  })

  it("are needed where the schema says so, or where what is changed cannot go without", () => {
    assert.isTrue(isNeeded({ kind: "string", isFilled: true, isRequired: true }, undefined))
    assert.isTrue(isNeeded({ kind: "string", isFilled: true }, "a name"))
    assert.isTrue(isNeeded({ kind: "integer" }, 60))
    assert.isFalse(isNeeded({ kind: "string", isFilled: true }, undefined))
    assert.isFalse(isNeeded({ kind: "string", isFilled: true, isNullable: true }, "an owner"))
    assert.isFalse(isNeeded({ kind: "string" }, "a description"))
  })
})

describe.skipIf(executablePath === undefined)("forms of the console", () => {
  layer(Layer.merge(sharedServiceLayer, Browser.layer), { excludeTestServices: true, timeout: "60 seconds" })((it) => {
    it.effect("take their limits from the schema, take away what is emptied, and leave a refusal at its field", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { body: agent } = yield* service.call("POST", "/api/agents", {
          body: registration({ ownerUserId: "ada", description: "Reads", allowedTaskTypes: ["one", "two words"] })
        })
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit(`/agents/${agent.id}`)
        yield* step(() => page.getByRole("button", { name: "Change", exact: true }).click())
        const dialog = page.getByRole("dialog")
        const name = dialog.getByLabel("Name", { exact: true })
        assert.deepStrictEqual(
          yield* step(() => name.evaluate((field: HTMLInputElement) => [field.required, field.maxLength, field.value])),
          [true, 100, agent.name]
        )
        const ttl = dialog.getByLabel("Maximum token lifetime in seconds")
        assert.deepStrictEqual(
          yield* step(() =>
            ttl.evaluate((field: HTMLInputElement) => [field.type, field.min, field.max, field.required])
          ),
          ["number", "60", "86400", true]
        )
        yield* step(() => dialog.getByLabel("Owner").fill(""))
        yield* step(() => dialog.getByLabel("Description").fill(""))
        yield* step(() => dialog.getByLabel("Task types").fill("two words, three"))
        yield* step(() => dialog.getByLabel("Default task type").fill("four"))
        yield* step(() => dialog.getByRole("button", { name: "Save" }).click())
        yield* step(() => dialog.getByRole("alert").waitFor())

        yield* step(() => dialog.getByLabel("Default task type").fill(" three "))
        yield* step(() => dialog.getByRole("button", { name: "Save" }).click())
        yield* step(() => dialog.waitFor({ state: "detached" }))
        const { body: changed } = yield* service.call("GET", `/api/agents/${agent.id}`)
        assert.deepInclude(changed, {
          name: agent.name,
          ownerUserId: null,
          description: "",
          allowedTaskTypes: ["two words", "three"],
          defaultTaskType: "three",
          scopeCeiling: agent.scopeCeiling
        })
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("show hours for seconds, and leave the dialog open that its row has left", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const name = `rotated-${crypto.randomUUID()}`
        yield* service.call("POST", "/api/api-keys", { body: { name, scopes: ["llm:read"] } })
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit(`/api-keys?search=${name}`)
        yield* step(() => page.getByRole("button", { name: "Rotate" }).click())
        const grace = page.getByLabel("Grace period in hours")
        assert.deepStrictEqual(
          yield* step(() => grace.evaluate((field: HTMLInputElement) => [field.value, field.min, field.max])),
          ["24", "0", "168"]
        )
        yield* step(() => grace.fill("2"))
        const [sent] = yield* step(() =>
          Promise.all([
            page.waitForRequest((request) => request.method() === "POST"),
            page.getByRole("dialog").getByRole("button", { name: "Rotate" }).click()
          ])
        )
        assert.deepStrictEqual(sent.postDataJSON(), { graceSeconds: 7200 })
        yield* step(() =>
          page
            .getByRole("dialog", { name: `Key ${name}` })
            .getByTestId("secret")
            .waitFor()
        )
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )
  })
})
