import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { exchange, requestText } from "../../support/raw-http.ts"
import { each, faults, refuses } from "../../support/scenarios.ts"
import { serviceKey, sharedServiceLayer, TestService } from "../../support/service.ts"

const json = [`X-Api-Key: ${serviceKey}`, "Content-Type: application/json"]
const ada = (email: string) => ({ firstName: "Ada", lastName: "Lovelace", email })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("bodies of requests", (it) => {
  const noDates: ReadonlyArray<readonly [what: string, moment: unknown]> = [
    ["before 1970", "1969-12-31T23:59:59.999Z"],
    ["after 9999", "9999-12-31T23:59:59.999-01:00"],
    ["a year of five digits", "+10000-01-01T00:00:00Z"],
    ["30 February", "2026-02-30T00:00:00Z"],
    ["29 February of a common year", "2026-02-29T00:00:00Z"],
    ["month 13", "2026-13-01T00:00:00Z"],
    ["hour 25", "2026-01-01T25:00:00Z"],
    ["a day alone", "2026-01-01"],
    ["no zone", "2026-01-01T00:00:00"],
    ["a zone of hours", "2026-01-01T00:00:00+01"],
    ["a number", 1_770_000_000_000],
    ["words", "tomorrow"],
    ["nothing", ""],
    ["NUL behind it", "2026-01-01T00:00:00Z\u0000"]
  ]
  refuses(it, [
    [
      "every member of a wrong type at once, with the unknown ones",
      [
        "POST",
        "/api/trial-users",
        { body: { firstName: 1, lastName: null, email: ["a@b.example"], organization: {}, isActive: true } }
      ],
      faults("payload.firstName", "payload.lastName", "payload.email", "payload.organization", "payload.isActive")
    ],
    [
      "the address and the body at once",
      ["PATCH", "/api/trial-users/0", { body: { isActive: "yes", admin: true } }],
      faults("params.id", "payload.isActive", "payload.admin")
    ],
    ...each(noDates, ([what, trialEndDate]) => [
      `a date that is ${what}`,
      ["PATCH", "/api/trial-users/1", { body: { trialEndDate } }],
      faults("payload.trialEndDate")
    ])
  ])

  it.effect("400: what is missing is called required", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const answer = yield* service.call("POST", "/api/sessions", { body: {} })
      assert.sameDeepMembers(answer.body.errors, [
        { path: ["payload", "trialUserId"], message: "Required" },
        { path: ["payload", "ipAddress"], message: "Required" }
      ])
    })
  )

  it.effect("200: dates with any offset and any fraction, kept as the same millisecond in UTC", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { body: made } = yield* service.call("POST", "/api/trial-users", { body: ada("dates@example.com") })
      for (const [given, kept] of [
        ["2096-02-29T01:00:00+02:00", "2096-02-28T23:00:00.000Z"],
        ["2096-02-29T00:00:00.123456789Z", "2096-02-29T00:00:00.123Z"],
        ["2096-02-29t00:00:00z", "2096-02-29T00:00:00.000Z"],
        ["9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"]
      ] as const) {
        const changed = yield* service.call("PATCH", `/api/trial-users/${made.id}`, { body: { trialEndDate: given } })
        assert.strictEqual(changed.body.trialEndDate, kept, changed.text)
      }
      const start = { trialStartDate: "1970-01-01T00:00:00Z" }
      const changed = yield* service.call("PATCH", `/api/trial-users/${made.id}`, { body: start })
      assert.strictEqual(changed.body.trialStartDate, "1970-01-01T00:00:00.000Z", changed.text)
    })
  )

  it.effect("400: a body whose bytes are not UTF-8; nothing is stored in their place", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const bytes of [[0xff], [0xc3], [0xed, 0xa0, 0x80], [0xc0, 0x80], [0xf5, 0x80, 0x80, 0x80]]) {
        const [before, after] = JSON.stringify(ada("bytes@example.com")).split("Ada")
        const body = Buffer.concat([Buffer.from(`${before}`), Buffer.from(bytes), Buffer.from(`${after}`)])
        const head = requestText("POST", "/api/trial-users", [...json, `Content-Length: ${body.length}`])
        const { answers } = yield* exchange(service.url, [head, body])
        assertProblem(answers[0] ?? assert.fail("no answer"), 400, "malformed-json")
      }
      const found = yield* service.call("GET", "/api/trial-users/by-email/bytes@example.com")
      assertProblem(found, 404, "trial-user-not-found")
    })
  )

  it.effect(
    "201: text beyond the basic plane, kept as sent but for letters in parts, which become whole, and directions, which go",
    () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const firstName = "𝒜da 🧮 \u{10FFFF} é e\u0301 \u202e"
        const body = { ...ada("planes@example.com"), firstName }
        const made = yield* service.call("POST", "/api/trial-users", { body })
        const composed = firstName.replace("\u202e", "").normalize("NFC")
        assert.strictEqual(made.body.firstName, composed)
        assert.strictEqual((yield* service.call("GET", `/api/trial-users/${made.body.id}`)).body.firstName, composed)
      })
  )

  it.effect("400: JSON nested as deeply as it may be, or a hundred thousand levels deep, in any member", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const times of [990, 100_000]) {
        const deep = `${"[".repeat(times)}${"]".repeat(times)}`
        const objects = `${'{"a":'.repeat(times)}1${"}".repeat(times)}`
        for (const value of [deep, objects]) {
          for (const [method, path, body] of [
            ["POST", "/api/trial-users", value],
            ["POST", "/api/trial-users", `{"firstName":${value}}`],
            ["POST", "/api/sessions", `{"unknown":${value}}`],
            ["PATCH", "/api/trial-users/1", `{"firstName":${value}}`],
            ["POST", "/api/tenants", `{"name":"Deep","settings":${value}}`]
          ] as const) {
            const answer = yield* service.call(method, path, { body })
            if (times < 1000) faultPaths(answer)
            else {
              assertProblem(answer, 400, "malformed-json")
              assert.include(answer.body.detail, "within each other")
            }
          }
        }
      }
    })
  )
})
