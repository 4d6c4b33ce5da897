import { assert, describe, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { type Locator, type Page } from "playwright-core"
import { assertQuiet, Browser, executablePath, openConsole, settled, step, type Window } from "../support/browser.ts"
import { doJob } from "../support/jobs.ts"
import { json, startProvider } from "../support/provider.ts"
import { serviceLayer, TestService } from "../support/service.ts"
import { startReceiver } from "../support/webhook-receiver.ts"

const axe = fs.readFileSync(path.resolve(import.meta.dirname, "../../node_modules/axe-core/axe.min.js"), "utf8")

/** What axe finds wrong with what is shown. */
const violationsOf = ({ page }: Window) =>
  step(async () => {
    if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe)
    return page.evaluate(async () => {
      const { axe } = globalThis as unknown as {
        readonly axe: {
          readonly run: () => Promise<{
            readonly violations: ReadonlyArray<{ readonly id: string; readonly nodes: ReadonlyArray<{ html: string }> }>
          }>
        }
      }
      return (await axe.run()).violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html.slice(0, 200)}`)
    })
  })

/** Whether what is in an element is not wider than it. */
const isWhole = (one: Element) => one.scrollWidth <= one.clientWidth

const vendorKey = "sk-of-the-vendor-0123456789"

/** A vendor's service: it lists a model that the catalogue knows and one of its own, and answers calls. */
const startVendor = startProvider(({ body, headers, path }, response) => {
  if (headers.authorization !== `Bearer ${vendorKey}`) {
    return json(response, 401, { error: { message: "Incorrect API key provided.", type: "invalid_request_error" } })
  }
  if (path.endsWith("/models")) {
    const models = ["gpt-4o", "house-model"].map((id) => ({ id, object: "model", owned_by: "vendor", created: 1 }))
    return json(response, 200, { object: "list", data: models })
  }
  return json(response, 200, {
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1,
    model: body.model,
    choices: [{ index: 0, message: { role: "assistant", content: "Hello" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 1_000, completion_tokens: 500, total_tokens: 1_500 }
  })
})

const named = (service: TestService["Service"], name: string, tenantId?: string) =>
  Effect.gen(function* () {
    const body = { name, description: "", scopeCeiling: [], ...(tenantId === undefined ? {} : { tenantId }) }
    const answer = yield* service.call("POST", "/api/agents", { body })
    assert.strictEqual(answer.status, 201, answer.text)
    return answer.body as { readonly id: string; readonly tenantId: string }
  })

const statusOf = (service: TestService["Service"], id: string) =>
  Effect.map(service.call("GET", `/api/agents/${id}`), ({ body }) => body.status as string)

/** The link to a page: in the navigation, or in its drawer on a narrow screen. */
const linkIn = (page: Page, isNarrow: boolean, name: string): Locator =>
  page.getByRole("navigation", { name: isNarrow ? "Pages" : "Main" }).getByRole("link", { name, exact: true })

const widths = [
  [1280, 0],
  [360, 1]
] as const

describe.skipIf(executablePath === undefined)("jobs with providers and in the frame", () => {
  layer(
    Layer.merge(
      serviceLayer({ Llm__Gateway__AllowPrivateAddresses: "true", Integrations__AllowPrivateAddresses: "true" }),
      Browser.layer
    ),
    { excludeTestServices: true, timeout: "2 minutes" }
  )((it) => {
    for (const [width, more] of widths) {
      it.effect(`a provider is added with its key and its models, at ${width} px`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const vendor = yield* startVendor
          const window = yield* openConsole(service)
          const { page } = window
          yield* step(() => page.setViewportSize({ width, height: 800 }))
          yield* window.visit("/")
          const id = width === 1280 ? "openai" : "house"
          yield* doJob(
            window,
            { name: "add a provider", clicks: 9 + more },
            Effect.fnUntraced(function* (hand) {
              if (more > 0) yield* hand.click(page.getByRole("button", { name: "Menu" }))
              yield* hand.click(linkIn(page, more > 0, "Providers"))
              yield* hand.click(page.getByRole("button", { name: "Add a provider" }))
              const form = page.getByRole("dialog", { name: "Add a provider" })
              yield* hand.type(form.getByLabel("API key"), vendorKey)
              yield* hand.type(form.getByLabel("Base URL"), `${vendor.url}/v1`)
              yield* hand.type(form.getByLabel("Name"), id)
              yield* hand.click(form.getByRole("button", { name: "Test and list models" }))
              yield* step(() => form.getByText("It answers").waitFor())
              assert.deepStrictEqual(yield* violationsOf(window), [])
              yield* hand.click(form.getByLabel("house-model", { exact: true }))
              yield* hand.type(form.getByLabel("that house-model reads"), "2")
              yield* hand.press("Tab")
              yield* hand.type(form.getByLabel("that house-model writes"), "10")
              if (width === 1280) {
                assert.include(yield* step(() => form.innerText()), "All 1 that the catalogue prices")
                assert.isTrue(yield* step(() => form.getByLabel("gpt-4o", { exact: true }).isDisabled()))
              } else assert.include(yield* step(() => form.innerText()), "knows none of these models")
              yield* hand.click(form.getByRole("button", { name: "Add the provider" }))
              yield* step(() => form.waitFor({ state: "detached" }))
              yield* hand.sees(page.getByText("The provider is added"))
            })
          )
          yield* settled(page)
          assert.notInclude(yield* step(() => page.content()), vendorKey)
          const { body: document, text } = yield* service.call("GET", "/api/llm/admin/config")
          assert.notInclude(text, vendorKey)
          const provider = document.providers.find((one: { readonly id: string }) => one.id === id)
          assert.match(provider.apiKey, /^secret:/)
          const model = width === 1280 ? "house-model" : `${id}/house-model`
          const answer = yield* service.call("POST", "/v1/chat/completions", {
            body: { model, messages: [{ role: "user", content: "Hello" }] }
          })
          assert.strictEqual(answer.status, 200, answer.text)
          assert.strictEqual(answer.headers.get("x-cost-usd"), "0.007")

          // What ran of the environment is no version to return to.
          const undo = page.getByRole("button", { name: "Undo" })
          if (width === 1280) assert.strictEqual(yield* step(() => undo.count()), 0)
          else {
            yield* step(() => undo.click())
            yield* step(() => page.getByText("Undone").waitFor())
            const { body } = yield* service.call("GET", "/api/llm/admin/config")
            assert.notInclude(
              body.providers.map((one: { readonly id: string }) => one.id),
              id
            )
          }
          assertQuiet(window)
        }).pipe(Effect.scoped)
      )
    }

    it.effect("a wrong key, an unusable name and a model that is not wanted are met in the form of a provider", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const vendor = yield* startVendor
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit("/gateway?create=new")
        const form = page.getByRole("dialog", { name: "Add a provider" })
        yield* step(() => form.getByLabel("Vendor").selectOption("Another, with OpenAI's API"))
        yield* step(() => form.getByLabel("API key").fill("sk-wrong"))
        yield* step(() => form.getByLabel("Base URL").fill(`${vendor.url}/v1`))
        yield* step(() => form.getByLabel("Name").fill("loopback"))
        yield* step(() => form.getByRole("button", { name: "Test and list models" }).click())
        yield* step(() => form.getByText("It fails").waitFor())
        assert.include(yield* step(() => form.innerText()), "status 401")
        yield* step(() => form.getByRole("button", { name: "Add the provider" }).click())
        yield* step(() => form.locator("[aria-invalid=true]").waitFor())
        assert.include(yield* step(() => form.innerText()), "This id is the loopback provider's")
        assert.deepStrictEqual(yield* violationsOf(window), [])

        yield* step(() => form.getByLabel("Name").fill("openai"))
        yield* step(() => form.getByLabel("API key").fill(vendorKey))
        yield* step(() => form.getByRole("button", { name: "Test and list models" }).click())
        yield* step(() => form.getByLabel("Only the models selected here").check())
        yield* step(() => form.getByLabel("house-model", { exact: true }).check())
        yield* step(() => form.getByRole("button", { name: "Add the provider" }).click())
        yield* step(() => form.waitFor({ state: "detached" }))
        const { body: models } = yield* service.call("GET", "/api/llm/models")
        const names = models.map(({ id }: { readonly id: string }) => id)
        assert.include(names, "house-model")
        assert.notInclude(names, "gpt-4o")

        // Another key alone changes nothing else.
        const row = page.getByRole("row").filter({ hasText: vendor.url })
        yield* step(() => row.getByRole("button", { name: "Change" }).click())
        const change = page.getByRole("dialog", { name: "Change openai" })
        yield* step(() => change.getByLabel("Another API key").fill("sk-of-the-vendor-next"))
        yield* step(() => change.getByRole("button", { name: "Save" }).click())
        yield* step(() => change.waitFor({ state: "detached" }))
        const { body: after } = yield* service.call("GET", "/api/llm/models")
        assert.deepStrictEqual(
          after.map(({ id }: { readonly id: string }) => id),
          names
        )
        yield* step(() => row.getByRole("button", { name: "Remove" }).click())
        yield* step(() => page.getByRole("button", { name: "Remove the provider" }).click())
        yield* step(() => row.waitFor({ state: "detached" }))
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    for (const [width] of widths) {
      it.effect(`providers of a cloud and of one's own machines have what their vendors say, at ${width} px`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const window = yield* openConsole(service)
          const { page } = window
          yield* step(() => page.setViewportSize({ width, height: 800 }))
          const added = (id: string) =>
            Effect.map(service.call("GET", "/api/llm/admin/config"), ({ body }) =>
              body.providers.find((one: { readonly id: string }) => one.id === id)
            )
          yield* window.visit("/gateway?create=new")
          const form = page.getByRole("dialog", { name: "Add a provider" })
          const choose = (label: string, option: string) => step(() => form.getByLabel(label).selectOption(option))
          const fill = (label: string, text: string) => step(() => form.getByLabel(label, { exact: true }).fill(text))

          yield* choose("Vendor", "Vertex AI, Claude")
          assert.strictEqual(yield* step(() => form.getByLabel("API key").count()), 0)
          assert.isTrue(yield* step(() => form.getByRole("button", { name: "Test and list models" }).isDisabled()))
          yield* fill("Region", "eu")
          assert.strictEqual(
            yield* step(() => form.getByLabel("Base URL").inputValue()),
            "https://aiplatform.eu.rep.googleapis.com"
          )
          yield* fill("Region", "europe-west1")
          yield* fill("Project", "my-project")
          yield* fill("Impersonate", "not an address")
          assert.deepStrictEqual(yield* violationsOf(window), [])
          yield* step(() => form.getByRole("button", { name: "Add the provider" }).click())
          yield* step(() => form.locator("[aria-invalid=true]").waitFor())
          const account = "models@my-project.iam.gserviceaccount.com"
          yield* fill("Impersonate", account)
          yield* step(() => form.getByRole("button", { name: "Add the provider" }).click())
          yield* step(() => form.waitFor({ state: "detached" }))
          const cloud = {
            id: "vertex-claude",
            dialect: "anthropic",
            baseUrl: "https://europe-west1-aiplatform.googleapis.com",
            platform: "vertex",
            project: "my-project",
            region: "europe-west1",
            credential: { type: "google", impersonate: account }
          }
          assert.deepStrictEqual(yield* added("vertex-claude"), cloud)

          // What its form does not ask for again stays.
          const row = page.getByRole("row").filter({ hasText: cloud.baseUrl })
          yield* step(() => row.getByRole("button", { name: "Change" }).click())
          const change = page.getByRole("dialog", { name: "Change vertex-claude" })
          yield* step(() => change.getByLabel("Impersonate").fill(""))
          yield* step(() => change.getByLabel("Key file").waitFor())
          yield* step(() => change.getByRole("button", { name: "Save" }).click())
          yield* step(() => change.waitFor({ state: "detached" }))
          assert.deepStrictEqual(yield* added("vertex-claude"), { ...cloud, credential: { type: "google" } })

          yield* window.visit("/gateway?create=new")
          yield* choose("Vendor", "Ollama")
          assert.strictEqual(yield* step(() => form.getByLabel("Base URL").inputValue()), "http://localhost:11434/v1")
          assert.strictEqual(yield* step(() => form.getByLabel("API key").count()), 0)
          yield* choose("Requests are authorized by", "An API key")
          yield* step(() => form.getByLabel("API key").waitFor())
          yield* choose("Requests are authorized by", "Nothing")
          yield* step(() => form.getByRole("button", { name: "Add the provider" }).click())
          yield* step(() => form.waitFor({ state: "detached" }))
          assert.deepStrictEqual(yield* added("ollama"), {
            id: "ollama",
            dialect: "openai",
            baseUrl: "http://localhost:11434/v1",
            apis: ["chat", "responses", "completions", "embeddings"]
          })
          const { body: document } = yield* service.call("GET", "/api/llm/admin/config")
          const others = document.providers.filter(
            ({ id }: { readonly id: string }) => !["vertex-claude", "ollama"].includes(id)
          )
          yield* service.call("PUT", "/api/llm/admin/config", { body: { ...document, providers: others } })
          assertQuiet(window)
        }).pipe(Effect.scoped)
      )
    }

    for (const [width] of widths) {
      it.effect(`a model of one's own machines is charged by the time of its GPU, at ${width} px`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const vendor = yield* startVendor
          const window = yield* openConsole(service)
          const { page } = window
          yield* step(() => page.setViewportSize({ width, height: 800 }))
          const { body: before } = yield* service.call("GET", "/api/llm/admin/config")
          yield* window.visit("/gateway?create=new")
          const form = page.getByRole("dialog", { name: "Add a provider" })
          yield* step(() => form.getByLabel("Vendor").selectOption("vLLM"))
          yield* step(() => form.getByLabel("Requests are authorized by").selectOption("An API key"))
          yield* step(() => form.getByLabel("API key").fill(vendorKey))
          yield* step(() => form.getByLabel("Base URL").fill(`${vendor.url}/v1`))
          yield* step(() => form.getByLabel("Name", { exact: true }).fill("gpu"))
          yield* step(() => form.getByRole("button", { name: "Test and list models" }).click())
          yield* step(() => form.getByLabel("house-model", { exact: true }).check())
          yield* step(() => form.getByLabel("calls of house-model are charged by").selectOption("by GPU time"))
          assert.strictEqual(yield* step(() => form.getByLabel("that house-model reads").count()), 0)
          assert.include(yield* step(() => form.innerText()), "shared by the calls that a GPU runs at once")
          const [hour, slots] = ["Dollars for an hour of the GPU", "Calls of house-model that a GPU runs at once"]
          yield* step(() => form.getByLabel(hour).fill("4"))
          // Half of a price is none.
          yield* step(() => form.getByRole("button", { name: "Add the provider" }).click())
          assert.isTrue(yield* step(() => form.getByLabel(slots).evaluate((input) => input.matches(":invalid"))))
          yield* step(() => form.getByLabel(slots).fill("8"))
          assert.isTrue(yield* step(() => form.locator(".models .choices").evaluate(isWhole)))
          assert.deepStrictEqual(yield* violationsOf(window), [])
          yield* step(() => form.getByRole("button", { name: "Add the provider" }).click())
          yield* step(() => form.waitFor({ state: "detached" }))
          const { body: document } = yield* service.call("GET", "/api/llm/admin/config")
          const { prices } = document.models.find(({ id }: { readonly id: string }) => id === "house-model")
          assert.deepStrictEqual(prices, { gpuHour: { usd: 4, slots: 8 } })
          const answer = yield* service.call("POST", "/v1/chat/completions", {
            body: { model: "house-model", messages: [{ role: "user", content: "Hello" }] }
          })
          assert.strictEqual(answer.status, 200, answer.text)
          // Its tokens have no price.
          assert.isAbove(Number(answer.headers.get("x-cost-usd")), 0)

          yield* window.visit("/models?provider=gpu")
          yield* step(() => page.getByText("$4.00 a GPU-hour, over 8 calls").waitFor())
          yield* window.visit("/gateway")
          const row = page.getByRole("row").filter({ hasText: vendor.url })
          yield* step(() => row.getByRole("button", { name: "Change" }).click())
          const change = page.getByRole("dialog", { name: "Change gpu" })
          yield* step(() => change.getByLabel("Another API key").fill(vendorKey))
          yield* step(() => change.getByRole("button", { name: "Test and list models" }).click())
          yield* step(() => change.getByLabel(hour).waitFor())
          const shown = [hour, slots].map((label) => step(() => change.getByLabel(label).inputValue()))
          assert.deepStrictEqual(yield* Effect.all(shown), ["4", "8"])
          yield* service.call("PUT", "/api/llm/admin/config", { body: before })
          assertQuiet(window)
        }).pipe(Effect.scoped)
      )
    }

    for (const [width, more] of widths) {
      it.effect(`an agent that leaks is suspended, which is undone, at ${width} px`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const name = `leaking ${width}`
          const agent = yield* named(service, name)
          const window = yield* openConsole(service, ["agents:read", "agents:write"], { tenantId: agent.tenantId })
          const { page } = window
          yield* step(() => page.setViewportSize({ width, height: 800 }))
          yield* window.visit("/")
          yield* doJob(
            window,
            { name: "suspend an agent", clicks: 5 + more },
            Effect.fnUntraced(function* (hand) {
              if (more > 0) yield* hand.click(page.getByRole("button", { name: "Menu" }))
              yield* hand.click(linkIn(page, more > 0, "Agents"))
              yield* hand.click(page.getByRole("link", { name }))
              yield* hand.click(page.getByRole("button", { name: "Suspend" }))
              yield* hand.click(page.getByRole("button", { name: "Suspend the agent" }))
              yield* hand.sees(page.getByText(`${name} is suspended`))
              assert.strictEqual(yield* statusOf(service, agent.id), "suspended")
              yield* hand.click(page.getByRole("button", { name: "Undo" }))
              yield* hand.sees(page.getByText(`Undone: ${name} is suspended`))
              assert.strictEqual(yield* statusOf(service, agent.id), "active")
            })
          )
          assertQuiet(window)
        }).pipe(Effect.scoped)
      )
    }

    it.effect("what others have done since is not undone", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { body: cap } = yield* service.call("POST", "/api/budgets/caps", {
          body: { name: "undone", unit: "usd", limit: 5, period: "month" }
        })
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit(`/caps/${cap.id}`)
        yield* step(() => page.getByRole("button", { name: "Pause" }).click())
        yield* step(() => page.getByRole("dialog").getByRole("button", { name: "Pause the cap" }).click())
        const undo = page.getByRole("button", { name: "Undo" })
        yield* step(() => undo.waitFor())
        const raised = yield* service.call("PUT", `/api/budgets/caps/${cap.id}`, {
          body: { name: "undone", limit: 7, status: "paused" }
        })
        assert.strictEqual(raised.status, 200, raised.text)
        yield* step(() => undo.click())
        yield* step(() => page.getByText("It could not be undone").waitFor())
        assert.strictEqual((yield* service.call("GET", `/api/budgets/caps/${cap.id}`)).body.limit, 7)
        yield* service.call("DELETE", `/api/budgets/caps/${cap.id}`)
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("a webhook is made for some kinds of events, and gets those alone", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const receiver = yield* startReceiver
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit("/")
        yield* doJob(
          window,
          { name: "make a webhook", clicks: 9 },
          Effect.fnUntraced(function* (hand) {
            yield* hand.click(linkIn(page, false, "Integrations"))
            yield* hand.click(page.getByRole("button", { name: "Create an integration" }))
            const form = page.getByRole("dialog", { name: "Create an integration" })
            yield* hand.type(form.getByLabel("Name"), "CRM")
            yield* hand.type(form.getByLabel("Address"), receiver.url)
            yield* hand.type(form.getByLabel("Filter event types"), "trial-user")
            yield* hand.click(form.getByRole("checkbox", { name: "Trial user", exact: true }))
            assert.deepStrictEqual(yield* violationsOf(window), [])
            yield* hand.click(form.getByRole("button", { name: "Create the integration" }))
            yield* hand.click(page.getByLabel("I have saved it"))
            yield* hand.click(page.getByRole("button", { name: "Done" }))
            yield* hand.sees(page.getByRole("link", { name: "CRM" }))
          })
        )
        yield* service.call("POST", "/api/tenants", { body: { name: "Not wanted" } })
        yield* service.call("POST", "/api/trial-users", {
          body: { firstName: "Ada", lastName: "Lovelace", email: "ada.hook@example.com" }
        })
        const [hook] = yield* receiver.until(1)
        assert.include(hook!.body, "trial-user.created")
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("an agent is found, suspended and activated again by keyboard alone", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const agent = yield* named(service, "keyboard clerk")
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit("/")
        const focused = () => page.evaluate(() => document.activeElement?.textContent?.trim() ?? "")
        const press = (key: string) => step(() => page.keyboard.press(key))
        const reach = Effect.fnUntraced(function* (name: string, key: string) {
          for (let presses = 0; (yield* step(focused)) !== name; presses += 1) {
            assert.isBelow(presses, 120, `${key} does not reach ${name}`)
            yield* press(key)
          }
        })
        yield* press("Control+k")
        yield* step(() => page.keyboard.type("keyboard cl"))
        yield* step(() => page.getByRole("option", { name: "keyboard clerk" }).waitFor())
        yield* press("Enter")
        yield* step(() => page.getByRole("heading", { level: 1, name: "keyboard clerk" }).waitFor())
        yield* reach("Suspend", "Tab")
        yield* press("Enter")
        yield* step(() => page.getByRole("dialog").waitFor())
        yield* reach("Suspend the agent", "Tab")
        yield* press("Enter")
        yield* step(() => page.getByRole("button", { name: "Undo" }).waitFor())
        yield* reach("Undo", "Shift+Tab")
        yield* press("Enter")
        yield* step(() => page.getByText("Undone").waitFor())
        assert.strictEqual(yield* statusOf(service, agent.id), "active")
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("a page, a thing or an action is found by a part of its name, and nothing says so", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        yield* named(service, "palette agent")
        yield* service.call("POST", "/api/tenants", { body: { name: "Palette Limited" } })
        yield* service.call("POST", "/api/api-keys", { body: { name: "palette key", scopes: [] } })
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit("/")
        const field = page.getByRole("combobox", { name: "Page, item or action" })
        const find = (text: string) =>
          step(async () => {
            await page.keyboard.press("Control+k")
            await field.fill(text)
          })
        yield* find("palette")
        for (const name of ["palette agent", "palette key", "Show Palette Limited only"]) {
          yield* step(() => page.getByRole("option", { name }).waitFor())
        }
        yield* step(() => field.fill("no such thing"))
        yield* step(() => page.getByText("Nothing has “no such thing” in its name").waitFor())
        assert.deepStrictEqual(yield* violationsOf(window), [])
        yield* step(() => field.fill("loopback-1"))
        yield* step(() => page.getByRole("option", { name: "loopback-1" }).click())
        yield* step(() => page.waitForURL("**/models?search=loopback-1"))
        yield* find("theme: dark")
        yield* step(() => page.keyboard.press("Enter"))
        assert.strictEqual(yield* step(() => page.evaluate(() => document.documentElement.style.colorScheme)), "dark")
        yield* find("create an api key")
        yield* step(() => page.keyboard.press("Enter"))
        yield* step(() => page.getByRole("dialog", { name: "Create an API key" }).waitFor())
        assert.notInclude(page.url(), "create")
        yield* step(() => page.keyboard.press("Escape"))
        yield* step(() => page.getByRole("dialog").waitFor({ state: "detached" }))
        yield* step(() => page.keyboard.press("g"))
        yield* step(() => page.keyboard.press("u"))
        yield* step(() => page.waitForURL("**/usage"))
        yield* step(() => page.keyboard.press("?"))
        assert.include(yield* step(() => page.getByRole("dialog", { name: "Keyboard" }).innerText()), "Usage")
        yield* step(() => page.keyboard.press("Escape"))
        yield* find("sign out")
        yield* step(() => page.keyboard.press("Enter"))
        yield* step(() => page.waitForURL("**/login**"))
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("what a caller may not do is not among the actions, nor searched", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        yield* named(service, "hidden agent")
        const window = yield* openConsole(service, ["insights:read", "budgets:read"])
        const { page } = window
        const asked: Array<string> = []
        page.on("request", (request) => void asked.push(new URL(request.url()).pathname))
        yield* window.visit("/")
        yield* step(() => page.keyboard.press("Control+k"))
        yield* step(() => page.getByRole("combobox", { name: "Page, item or action" }).fill("hidden"))
        yield* step(() => page.getByText("Nothing has “hidden” in its name").waitFor())
        yield* step(() => page.getByRole("combobox", { name: "Page, item or action" }).fill("api key"))
        yield* step(() => page.getByText("Nothing has “api key” in its name").waitFor())
        assert.notInclude(asked, "/api/agents")
        assert.notInclude(asked, "/api/api-keys")
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("an operator of all tenants looks at one, which every list and figure then is of", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const tenant = yield* service.call("POST", "/api/tenants", { body: { name: "Looked At" } })
        yield* service.call("POST", "/api/tenants", { body: { name: "Not Looked At" } })
        const inside = yield* named(service, "agent inside", tenant.body.id)
        yield* named(service, "agent outside")
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit("/agents")
        yield* step(() => page.getByRole("link", { name: "agent outside" }).waitFor())
        const sent: Array<URL> = []
        page.on("request", (request) => void sent.push(new URL(request.url())))
        yield* step(() => page.getByRole("banner").getByRole("combobox", { name: "Tenant" }).selectOption("Looked At"))
        yield* step(() => page.getByRole("link", { name: "agent outside" }).waitFor({ state: "detached" }))
        yield* step(() => page.getByRole("link", { name: "agent inside" }).waitFor())
        yield* step(() => page.reload())
        yield* settled(page)
        assert.strictEqual(yield* step(() => page.getByRole("link", { name: "agent outside" }).count()), 0)
        for (const at of ["/", "/usage", "/caps", "/requests"]) yield* window.go(at)
        const figures = sent.filter(({ pathname }) =>
          /^\/api\/(?:insights\/overview|budgets\/caps|usage)$/.test(pathname)
        )
        assert.isAtLeast(figures.length, 3)
        for (const { href, searchParams } of figures)
          assert.strictEqual(searchParams.get("tenantId"), tenant.body.id, href)
        const billed = step(() => page.waitForRequest(/\/billing-report$/))
        const [report] = yield* Effect.all([billed, window.go("/billing")], { concurrency: 2 })
        assert.strictEqual(report.postDataJSON().tenantId, tenant.body.id)
        yield* window.go("/agents")
        yield* step(() => page.getByRole("button", { name: "Register an agent" }).click())
        const form = page.getByRole("dialog", { name: "Register an agent" })
        assert.strictEqual(yield* step(() => form.getByLabel("Tenant", { exact: true }).inputValue()), inside.tenantId)
        yield* step(() => page.keyboard.press("Escape"))
        yield* step(() =>
          page.getByRole("banner").getByRole("combobox", { name: "Tenant" }).selectOption("All tenants")
        )
        yield* step(() => page.getByRole("link", { name: "agent outside" }).waitFor())
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("an operator of one tenant sees its name, and has no choice", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const tenant = yield* service.call("POST", "/api/tenants", { body: { name: "Only One" } })
        const window = yield* openConsole(service, ["*:*"], { tenantId: tenant.body.id })
        const { page } = window
        yield* window.visit("/")
        yield* step(() => page.getByRole("banner").getByText("Only One", { exact: true }).waitFor())
        assert.strictEqual(
          yield* step(() => page.getByRole("banner").getByRole("combobox", { name: "Tenant" }).count()),
          0
        )
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("without a network a page says so at once, and goes on when the network is back", () =>
      Effect.gen(function* () {
        const window = yield* openConsole(yield* TestService)
        const { context, page } = window
        yield* window.visit("/agents")
        // The code of a page comes when its name is pointed at.
        yield* step(() => page.getByRole("link", { name: "Tenants", exact: true }).hover())
        yield* step(() => page.waitForLoadState("networkidle"))
        yield* step(() => context.setOffline(true))
        yield* step(() => page.getByText("You are offline.").waitFor())
        yield* step(() => page.getByRole("link", { name: "Tenants", exact: true }).click())
        yield* step(() => page.getByText("The service cannot be reached. Check the connection").first().waitFor())
        assert.deepStrictEqual(yield* violationsOf(window), [])
        yield* step(() => page.getByRole("link", { name: "Roles", exact: true }).click())
        yield* step(() => page.getByText("This page could not be loaded").waitFor())
        yield* step(() => context.setOffline(false))
        yield* step(() => page.getByText("You are offline.").waitFor({ state: "detached" }))
        yield* step(() => page.getByRole("link", { name: "Tenants", exact: true }).click())
        yield* step(() => page.getByRole("table").first().waitFor())
        yield* step(() => page.getByRole("alert").waitFor({ state: "detached" }))
      }).pipe(Effect.scoped)
    )

    it.effect("a page that is slow to come says so", () =>
      Effect.gen(function* () {
        const window = yield* openConsole(yield* TestService)
        const { page } = window
        yield* step(() => page.clock.install())
        yield* step(() => page.route("**/api/agents?*", () => new Promise(() => undefined)))
        yield* step(() => page.goto(`${"about:blank"}`))
        const service = yield* TestService
        yield* step(() => page.goto(`${service.url}/console/agents`))
        yield* step(() => page.getByRole("status", { name: "Loading" }).waitFor())
        yield* step(() => page.clock.fastForward(10_000))
        yield* step(() => page.getByText("The service is taking a long time to answer.").waitFor())
      }).pipe(Effect.scoped)
    )

    it.effect("the navigation shows the page that is open, folds, and leaves the content where it is", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const window = yield* openConsole(service)
        const { page } = window
        const navigation = page.getByRole("navigation", { name: "Main" })
        yield* window.visit("/settings")
        const isInSight = yield* step(() =>
          navigation.getByRole("link", { name: "Settings" }).evaluate((link) => {
            const { bottom, top } = link.getBoundingClientRect()
            return top >= 0 && bottom <= innerHeight
          })
        )
        assert.isTrue(isInSight, "the open page is out of sight")
        const leftOf = () => page.evaluate(() => document.querySelector("main")!.getBoundingClientRect().right)
        const long = yield* step(leftOf)
        yield* window.visit("/anomalies")
        assert.strictEqual(yield* step(leftOf), long, "the content moves from a long page to a short one")
        assert.isAtMost(
          yield* step(() =>
            page.evaluate(() => {
              const side = document.querySelector<HTMLElement>("nav.side")!
              return side.offsetWidth - side.clientWidth
            })
          ),
          12,
          "the scrollbar is wide"
        )
        const money = navigation.getByRole("button", { name: "Money" })
        yield* step(() => money.click())
        yield* step(() => navigation.getByRole("link", { name: "Caps" }).waitFor({ state: "detached" }))
        assert.isTrue(yield* step(() => navigation.getByRole("link", { name: "Anomalies" }).isVisible()))
        yield* window.visit("/agents")
        assert.strictEqual(yield* step(() => navigation.getByRole("link", { name: "Anomalies" }).count()), 0)
        yield* step(() => money.click())
        yield* step(() => navigation.getByRole("link", { name: "Caps" }).waitFor())
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("what was entered in a dialog is not thrown away without a question", () =>
      Effect.gen(function* () {
        const window = yield* openConsole(yield* TestService)
        const { page } = window
        for (const [at, button, field] of [
          ["/tenants", "Create a tenant", "Name"],
          ["/gateway", "Add a provider", "API key"]
        ] as const) {
          yield* window.visit(at)
          yield* step(() => page.getByRole("button", { name: button }).click())
          const form = page.getByRole("dialog", { name: button })
          yield* step(() => form.getByLabel(field, { exact: true }).fill("entered"))
          yield* step(() => page.keyboard.press("Escape"))
          yield* step(() => page.getByRole("alertdialog", { name: "Discard what you entered?" }).waitFor())
          assert.deepStrictEqual(yield* violationsOf(window), [])
          yield* step(() => page.keyboard.press("Escape"))
          assert.strictEqual(yield* step(() => form.getByLabel(field, { exact: true }).inputValue()), "entered")
          yield* step(() => form.getByRole("button", { name: "Close" }).click())
          yield* step(() => page.getByRole("button", { name: "Discard" }).click())
          yield* step(() => form.waitFor({ state: "detached" }))
        }
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    it.effect("the document of the gateway is checked, shown as a difference, and kept until it is saved", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const window = yield* openConsole(service)
        const { page } = window
        yield* window.visit("/gateway")
        yield* step(() => page.getByRole("button", { name: "Edit as JSON" }).click())
        const editor = page.getByRole("dialog", { name: "Edit the configuration as JSON" })
        const text = editor.getByLabel("Document")
        yield* step(() => text.fill('{ "routing": '))
        yield* step(() => editor.getByRole("button", { name: "Review the change" }).click())
        yield* step(() => editor.getByText("It is not JSON").waitFor())
        yield* step(() => text.fill('{ "routing": { "retries": 99 } }'))
        yield* step(() => editor.getByRole("button", { name: "Line 1: routing.retries" }).waitFor())
        yield* step(() => page.keyboard.press("Escape"))
        yield* step(() => page.getByRole("button", { name: "Edit as JSON" }).click())
        assert.include(yield* step(() => text.innerText()), "99", "the text was not kept")
        yield* step(() => editor.getByRole("button", { name: "Review the change" }).click())
        const review = page.getByRole("dialog", { name: "What changes" })
        yield* step(() => review.getByText('+{ "routing"').waitFor())
        yield* step(() => review.getByRole("button", { name: "Save and run" }).click())
        yield* step(() => editor.getByText("Nothing was saved").waitFor())
        yield* step(() => editor.getByRole("button", { name: "Line 1: routing.retries" }).waitFor())
        yield* step(() => text.fill('{ "routing": { "retries": 3 } }'))
        yield* step(() => editor.getByRole("button", { name: "Review the change" }).click())
        yield* step(() => review.getByRole("button", { name: "Save and run" }).click())
        yield* step(() => review.waitFor({ state: "detached" }))
        const { body } = yield* service.call("GET", "/api/llm/admin/config")
        assert.deepStrictEqual(body, { routing: { retries: 3 } })
        assertQuiet(window)
      }).pipe(Effect.scoped)
    )

    for (const [width, more] of widths) {
      it.effect(
        `the document is written with what its schema proposes, and its faults are marked, at ${width} px`,
        () =>
          Effect.gen(function* () {
            const service = yield* TestService
            const window = yield* openConsole(service)
            const { page } = window
            yield* step(() => page.setViewportSize({ width, height: 800 }))
            yield* window.visit("/")
            const editor = page.getByRole("dialog", { name: "Edit the configuration as JSON" })
            const text = editor.getByLabel("Document")
            const faults = editor.getByRole("list", { name: "Faults" })
            const hasText = (expected: string) =>
              step(() => text.filter({ hasText: expected.replaceAll(/\s+/g, " ") }).waitFor())
            yield* doJob(
              window,
              { name: "edit the document", clicks: 6 + more },
              Effect.fnUntraced(function* (hand) {
                if (more > 0) yield* hand.click(page.getByRole("button", { name: "Menu" }))
                yield* hand.click(linkIn(page, more > 0, "Providers"))
                yield* hand.click(page.getByRole("button", { name: "Edit as JSON" }))
                yield* hand.type(text, '{ "rout')
                yield* step(() => editor.getByRole("option", { name: "routing" }).waitFor())
                yield* hand.press("Enter")
                yield* hasText('{ "routing": {}')
                // What is missing is marked where the text ends.
                yield* hand.sees(faults.getByText("The text ends"))
                yield* step(() => page.keyboard.type(' "str'))
                yield* step(() => editor.getByRole("option", { name: "strategy" }).waitFor())
                yield* hand.press("Enter")
                yield* step(() => editor.getByRole("option", { name: '"least-latency"' }).waitFor())
                yield* step(() => page.keyboard.type("cheap"))
                yield* step(() => editor.getByRole("option", { name: '"cheapest"' }).waitFor())
                yield* hand.press("Enter")
                yield* hasText('{ "routing": { "strategy": "cheapest"}')
                yield* hand.sees(editor.getByText("Which target of the same priority goes first").first())
                yield* step(() =>
                  text.fill('{\n"providers": [{ "id": "a", "dialect": "opnai", "baseURL": "x" }],\n"cach": {}\n}')
                )
                yield* step(() => faults.getByText("did you mean cache?").waitFor())
                assert.deepStrictEqual(yield* step(() => faults.getByRole("button").allInnerTexts()), [
                  "Line 2: providers.0.baseUrl baseUrl is missing",
                  'Line 2: providers.0.dialect Expected one of "openai", "anthropic", "gemini", "loopback"',
                  "Line 2: providers.0.baseURL Unknown member: did you mean baseUrl?",
                  "Line 3: cach Unknown member: did you mean cache?"
                ])
                assert.deepStrictEqual(yield* violationsOf(window), [])
                yield* hand.click(faults.getByText("did you mean cache?"))
                yield* hand.press("Delete")
                // What only the service can know is marked there, and stays until it is written differently.
                const targets = ["one", "two", "three", "four"].map((provider) => ({ provider, model: "m" }))
                const document = { models: [{ id: "m", kind: "chat", targets }] }
                yield* step(() => text.fill(JSON.stringify(document, null, 2)))
                yield* step(() => editor.getByText("No fault in the document").waitFor())
                yield* hand.click(editor.getByRole("button", { name: "Review the change" }))
                yield* hand.click(page.getByRole("button", { name: "Save and run" }))
                yield* step(() => faults.getByText("No provider has this id").nth(3).waitFor())
                assert.deepStrictEqual(yield* step(() => faults.getByText(/Line \d+/).allInnerTexts()), [
                  "Line 8: models.0.targets.0.provider No provider has this id",
                  "Line 12: models.0.targets.1.provider No provider has this id",
                  "Line 16: models.0.targets.2.provider No provider has this id",
                  "Line 20: models.0.targets.3.provider No provider has this id"
                ])
                assert.deepStrictEqual(yield* violationsOf(window), [])
                yield* step(() => text.fill(JSON.stringify(document, null, 2).replace('"one"', '"loopback"')))
                yield* step(() => faults.getByText("targets.0.provider").waitFor({ state: "detached" }))
                assert.strictEqual(yield* step(() => faults.getByRole("button").count()), 3)
              })
            )
            yield* step(() => editor.getByRole("button", { name: "Start over" }).click())
            assertQuiet(window)
          }).pipe(Effect.scoped)
      )
    }
  })
})
