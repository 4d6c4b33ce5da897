import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeTenant } from "../../support/authority.ts"
import { makeApplication, makeFile } from "../../support/configuration.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { make } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

const nfd = (text: string) => text.normalize("NFD")

/** What nobody sees: of no width, blank in a font of braille, fillers, and marks of direction. */
const unseen = [
  "\u200b",
  " \u00a0\u2003 ",
  "\u2800",
  "\u3164",
  "\u200e\u200f",
  "\ufeff\u2060",
  "\u00ad",
  "\u0001",
  "\ufff9"
]

let made = 0
const person = (members: object) => ({
  firstName: "Ada",
  lastName: "Lovelace",
  email: `spelled.${++made}@example.com`,
  ...members
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("what people type", (it) => {
  it.effect("is stored composed, and found however it is typed", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const user = yield* make(
        service,
        "/api/trial-users",
        person({ firstName: nfd("Nguyễn"), lastName: "ｗ", organization: nfd("Société Générale") })
      )
      assert.strictEqual(user.firstName, "Nguyễn")
      for (const text of ["nguyễn", nfd("NGUYỄN"), "société", nfd("générale")]) {
        const found = yield* service.call("GET", `/api/trial-users?search=${encodeURIComponent(text)}`)
        assert.include(
          found.body.map(({ id }: { readonly id: number }) => id),
          user.id,
          text
        )
      }
      const greek = yield* make(service, "/api/trial-users", person({ lastName: "Σίσυφος" }))
      for (const text of ["ΣΊΣΥΦΟΣ", "σίσυφοσ", "σίσυφος", nfd("Ίσυφος")]) {
        const found = yield* service.call("GET", `/api/trial-users?search=${encodeURIComponent(text)}`)
        assert.deepStrictEqual(
          found.body.map(({ id }: { readonly id: number }) => id),
          [greek.id],
          text
        )
      }
      const template = yield* make(service, "/api/agents/templates", {
        name: "spelled",
        description: nfd("Liest Rechnungen für später"),
        scopeCeiling: []
      })
      const found = yield* service.call("GET", `/api/agents/templates?search=${encodeURIComponent("für später")}`)
      assert.deepStrictEqual(
        found.body.items.map(({ id }: { readonly id: string }) => id),
        [template.id]
      )
    })
  )

  it.effect("is one name in each spelling, where names are unique", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const agent = (name: string) =>
        service.call("POST", "/api/agents", { body: { name, ownerUserId: nfd("Zoë"), tenantId } })
      assert.strictEqual((yield* agent(nfd("Prüfer"))).status, 201)
      assertProblem(yield* agent("Prüfer"), 409, "agent-name-taken")
      const owned = yield* service.call(
        "GET",
        `/api/agents?tenantId=${tenantId}&ownerUserId=${encodeURIComponent("Zoë")}`
      )
      assert.lengthOf(owned.body.items, 1)

      const applicationId = yield* makeApplication(service)
      const role = (name: string) =>
        service.call("POST", "/api/roles", { body: { applicationId, name, description: "", capabilities: [] } })
      assert.strictEqual((yield* role("Éditeur")).status, 201)
      assertProblem(yield* role(nfd("Éditeur")), 409, "role-name-taken")

      const id = yield* makeFile(service, applicationId, nfd("größe.json"), "{}")
      const again = { applicationId, name: "größe.json", type: "file", content: "{}" }
      assertProblem(yield* service.call("POST", "/api/configuration", { body: again }), 409, "configuration-name-taken")
      const imported = yield* service.call("POST", `/api/configuration/import?applicationId=${applicationId}`, {
        body: { nodes: [{ path: `/${nfd("größe.json")}`, type: "file", content: nfd("é") }] }
      })
      assert.deepStrictEqual(imported.body.changes, [
        { id, type: "file", path: "/größe.json", previousPath: null, changes: ["updated"] }
      ])
      // A content is what was sent, to the byte.
      assert.strictEqual((yield* service.call("GET", `/api/configuration/${id}`)).body.content, nfd("é"))
    })
  )

  it.effect("400: a name that nobody sees, wherever one is asked for", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const applicationId = yield* makeApplication(service)
      for (const name of unseen) {
        for (const [path, body, at] of [
          ["/api/trial-users", person({ lastName: name }), "lastName"],
          ["/api/tenants", { name }, "name"],
          ["/api/api-keys", { name, scopes: [] }, "name"],
          ["/api/agents", { name, ownerUserId: "ada" }, "name"],
          ["/api/applications", { name }, "name"],
          ["/api/configuration", { applicationId, name, type: "folder" }, "name"]
        ] as const) {
          const refused = yield* service.call("POST", path, { body })
          assert.include(faultPaths(refused), `payload.${at}`, `${path} ${JSON.stringify(name)}`)
        }
        const search = yield* service.call("GET", `/api/tenants?search=${encodeURIComponent(name)}`)
        assertProblem(search, 400, "validation-failed")
      }
      for (const name of ["👩‍🚀", "می‌خواهم", "­a", "१"]) {
        assert.strictEqual((yield* service.call("POST", "/api/tenants", { body: { name } })).status, 201, name)
      }
    })
  )

  it.effect("400: a name that is too long once it is composed, and no sooner", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const create = (firstName: string) => service.call("POST", "/api/trial-users", { body: person({ firstName }) })
      assert.strictEqual((yield* create(nfd("ễ".repeat(100)))).status, 201)
      assert.deepStrictEqual(faultPaths(yield* create(nfd("ễ".repeat(101)))), ["payload.firstName"])
    })
  )

  it.effect("is sorted as people sort names, page by page, both ways", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const inOrder = ["adams", "Adams", "Ångström", nfd("Émile"), "Zola", "zorn", "Жуков", "山田"]
      const domain = `${crypto.randomUUID()}.example`
      for (const lastName of inOrder.toReversed()) {
        yield* make(service, "/api/trial-users", { firstName: "Sorted", lastName, email: `p${++made}@${domain}` })
      }
      for (const [sort, expected] of [
        ["lastName", inOrder],
        ["-lastName", inOrder.toReversed()]
      ] as const) {
        const found: Array<string> = []
        let next: string | undefined = `/api/trial-users?search=${domain}&sort=${sort}&limit=3`
        while (next !== undefined) {
          const page: { body: ReadonlyArray<{ lastName: string }>; headers: Headers } = yield* service.call("GET", next)
          found.push(...page.body.map(({ lastName }) => lastName))
          next = /^<(\/.+)>/.exec(page.headers.get("link") ?? "")?.[1]
        }
        assert.deepStrictEqual(
          found,
          expected.map((name) => name.normalize("NFC"))
        )
      }
      const tenantId = yield* makeTenant(service.database)
      for (const name of ["Zebra", "äpfel", "Apfel", "öl"]) {
        yield* make(service, "/api/agents", { name, ownerUserId: "ada", tenantId })
      }
      const agents = yield* service.call("GET", `/api/agents?tenantId=${tenantId}&sort=name`)
      assert.deepStrictEqual(
        agents.body.items.map(({ name }: { readonly name: string }) => name),
        ["Apfel", "äpfel", "öl", "Zebra"]
      )
    })
  )

  it.effect("is a time zone in any case, which is answered as the database of zones has it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const cap = (timeZone: string) =>
        service.call("POST", "/api/budgets/caps", {
          body: { name: timeZone, scope: { model: timeZone }, unit: "usd", limit: 1, period: "month", timeZone }
        })
      for (const [typed, zone] of [
        ["utc", "UTC"],
        ["europe/BERLIN", "Europe/Berlin"],
        ["america/new_york", "America/New_York"],
        ["Europe/Kyiv", "Europe/Kyiv"],
        ["us/pacific", "US/Pacific"],
        ["Etc/utc", "Etc/UTC"],
        ["Europe/kiev", "Europe/Kiev"],
        ["america/argentina/buenos_aires", "America/Argentina/Buenos_Aires"]
      ] as const) {
        const made = yield* cap(typed)
        assert.strictEqual(made.status, 201, made.text)
        assert.strictEqual(made.body.timeZone, zone)
        const report = yield* service.call("GET", `/api/insights/overview?timeZone=${typed}`)
        assert.strictEqual(report.status, 200, report.text)
      }
      for (const typed of ["berlin", "europe/atlantis", "+02:00", "z", "localtime"]) {
        assert.include(faultPaths(yield* cap(typed)), "payload.timeZone", typed)
      }
    })
  )
})
