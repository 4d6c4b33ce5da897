import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { silentOperations } from "../../contract/document.ts"
import { bearer, makeAccount, signIn } from "../../support/accounts.ts"
import { bodyWith, operations as documented, type ParameterKind } from "../../support/operations.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { requestText, exchange } from "../../support/raw-http.ts"
import { type Answer, sharedServiceLayer, TestService } from "../../support/service.ts"

const unstorable = { NUL: "a\u0000b", "a lone high surrogate": "a\ud800b", "a lone low surrogate": "a\udc00" }

const badIntegers = [
  "0",
  "-1",
  "+1",
  "%2B1",
  "01",
  "1.0",
  "1e3",
  "0x10",
  "99999999999",
  "2147483648",
  "9007199254740993",
  "-0",
  "NaN",
  "null",
  "%20",
  "%201",
  "1%20",
  "%00",
  "1%00",
  "1%0A",
  "%D9%A1",
  "%EF%BC%91",
  "1,2",
  "%27%20OR%201%3D1--",
  "9".repeat(400)
]
const uuid = "01890a5d-ac96-774b-bcce-b302099a8057"
const badUuids = [
  uuid.replaceAll("-", "_"),
  `%7B${uuid}%7D`,
  uuid.slice(1),
  `${uuid}0`,
  uuid.replaceAll("-", ""),
  `urn:uuid:${uuid}`,
  uuid.replace("0", "g"),
  uuid.replace("0", "%D9%A0"),
  `${uuid}%00`,
  `%20${uuid}`,
  `${uuid}%0A`,
  "0",
  "%00",
  "%20"
]
const badMoments = [
  "2026-02-30T00:00:00Z",
  "2026-13-01T00:00:00Z",
  "2026-01-31T25:00:00Z",
  "1969-12-31T23:59:59.999Z",
  "10000-01-01T00:00:00Z",
  "%2B275760-09-13T00:00:00Z",
  "2026-01-31",
  "2026-01-31T09:30:00",
  "1770000000",
  "now",
  "%00"
]
const badValues: Readonly<Record<ParameterKind, ReadonlyArray<string>>> = {
  integer: badIntegers,
  long: badIntegers.filter((value) => value !== "2147483648" && value !== "99999999999"),
  uuid: badUuids,
  "date-time": badMoments,
  text: ["%00", "a%00b"],
  other: ["%00", "a%00b"]
}

/**
 * The vendors' dialects have errors of their own, which `test/gateway` asks for, and so has registration (RFC 7591, RFC 7592),
 * with credentials of its own; a problem that is none is not found.
 */
const operations = documented.filter(({ name }) => !/^(?:compatibility|registration)\.|^pages\.problem$/.test(name))

const never500 = (status: number, about: string) => assert.isBelow(status, 500, about)

const ownPath = /^\/api\/auth\/(?:sessions|password|subject-token)/

/** The service, whose own operations of accounts are asked by one that signed in. */
export const signedInService = Layer.effect(
  TestService,
  Effect.gen(function* () {
    const service = yield* TestService
    const token = yield* signIn(service, yield* makeAccount(service, ["*:*"]))
    return TestService.of({
      ...service,
      call: (method, path, call = {}) => service.call(method, path, ownPath.test(path) ? bearer(token, call) : call)
    })
  })
).pipe(Layer.provide(sharedServiceLayer))

const unreadable = ["", "%ZZ", "%", "%E0%A4%A", "%ED%A0%80", "%FF"]
const undecodable = ["%FF", "%ED%A0%80", "%ZZ"]
/** RFC 6749 §4.1.2: the client ignores what it does not know in an authorization response. */
const ignoresOthers: ReadonlySet<string> = new Set(["oidcSignIn.callback"])
const malformed = ["{", '{"a":1,}', "{'a':1}", "NaN", "undefined", '{"a":"\n"}', "{} {}", "\u0000", "<a/>"]
const otherShapes = ["null", "[]", '"text"', "42", "true", ""]
const otherTypes = ["text/plain", "application/x-www-form-urlencoded", "application/xml", "application/jsonx"]

/** What a problem names, where the only item of a list stands for the parameter. */
const parametersOf = (answer: Answer) => faultPaths(answer).map((path) => path.replace(/^(query\.\w+)\.0$/, "$1"))

/** Gives that many of a list, going on behind those that it gave before. */
const dealer = (count: number) => {
  const given = new Map<ReadonlyArray<string>, number>()
  return (list: ReadonlyArray<string>): ReadonlyArray<string> => {
    const from = given.get(list) ?? 0
    const dealt = Math.min(count, list.length)
    given.set(list, from + dealt)
    return Array.from({ length: dealt }, (_, at) => list[(from + at) % list.length] ?? "")
  }
}

/** Sends every operation bad input, up to `count` values of each kind at each place. */
export const refuseBadInput = (count: number) => {
  const dealt = dealer(count)
  layer(signedInService, { excludeTestServices: true, timeout: "60 seconds" })("bad input to every operation", (it) => {
    for (const operation of operations.filter(({ pathParameters }) => pathParameters.length > 0)) {
      it.effect(`400: ${operation.name} at an address of the wrong form, naming it`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const body = operation.readsJson ? { body: {} } : {}
          for (const { kind, name } of operation.pathParameters) {
            for (const value of dealt(badValues[kind])) {
              const answer = yield* service.call(operation.method, operation.address({ [name]: value }), body)
              assert.include(faultPaths(answer), `params.${name}`, value)
            }
          }
        })
      )

      it.effect(`never 500: ${operation.name} at an empty or unreadable address`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const lines = [`X-Api-Key: ${service.serviceKey}`, "Content-Type: application/json"]
          for (const { name } of operation.pathParameters) {
            for (const value of dealt(unreadable)) {
              const target = operation.address({ [name]: value })
              const { answers } = yield* exchange(service.url, requestText(operation.method, target, lines, "{}"))
              never500(answers[0]?.status ?? 500, `${operation.method} ${target}`)
              if (value !== "") assert.strictEqual(answers[0]?.status, 400, `${operation.method} ${target}`)
            }
          }
        })
      )

      const ids = operation.pathParameters.every(({ kind }) => kind === "integer" || kind === "uuid")
      if (silentOperations.includes(operation.name)) continue
      if (!ids || (operation.readsJson && !operation.takesEmptyObject)) continue
      it.effect(`404: ${operation.name} of a resource that does not exist`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const body = operation.readsJson ? { body: {} } : {}
          const answer = yield* service.call(operation.method, operation.address(), body)
          assert.strictEqual(answer.status, 404, answer.text.slice(0, 300))
          assert.match(answer.body.type, /-not-found$/)
        })
      )
    }

    for (const operation of operations.filter(({ queryParameters }) => queryParameters.length > 0)) {
      it.effect(`400: ${operation.name} with query values of the wrong form, naming them`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const [path] = operation.address().split("?")
          const call = (query: string) => service.call(operation.method, `${path}?${query}`)
          for (const { kind, name } of operation.queryParameters) {
            for (const value of dealt(badValues[kind])) {
              assert.include(parametersOf(yield* call(`${name}=${value}`)), `query.${name}`, `${name}=${value}`)
            }
            for (const value of dealt(undecodable)) {
              assertProblem(yield* call(`${name}=${value}`), 400, "bad-request")
            }
            assert.include(parametersOf(yield* call(`${name}=1&${name}=2`)), `query.${name}`)
          }
          if (!ignoresOthers.has(operation.name)) {
            assert.include(faultPaths(yield* call("nobodyKnowsThis=1")), "query.nobodyKnowsThis")
          }
        })
      )
    }

    for (const operation of operations.filter(({ readsJson }) => readsJson)) {
      it.effect(`400: ${operation.name} with a body that is not JSON`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          for (const body of dealt(malformed)) {
            const answer = yield* service.call(operation.method, operation.address(), { body })
            assertProblem(answer, 400, answer.body.error === undefined ? "malformed-json" : "invalid-request")
          }
        })
      )

      it.effect(`400: ${operation.name} with a member that is there twice, naming it`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          for (const [body, named] of [
            ['{"a":{"b":1,"\\u0062":2}}', "b"],
            ['{"max_tokens":1,"max_token\u017f":2}', "max_token\u017f"]
          ]) {
            const answer = yield* service.call(operation.method, operation.address(), { body })
            assertProblem(answer, 400, answer.body.error === undefined ? "malformed-json" : "invalid-request")
            assert.match(answer.text, new RegExp(`${named}: The member is there twice`))
          }
        })
      )

      it.effect(`400: ${operation.name} with a body of another shape`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          for (const body of dealt(otherShapes)) {
            // Nothing is no shape where no body is needed.
            if (body === "" && operation.takesNoBody) continue
            const headers = { "content-type": "application/json" }
            const answer = yield* service.call(operation.method, operation.address(), { body, headers })
            assert.deepStrictEqual(faultPaths(answer), ["payload"], body)
          }
        })
      )

      it.effect(`400: ${operation.name} with an unknown member, naming it`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const body = '{"nobodyKnowsThis":1,"__proto__":{"polluted":true},"constructor":{}}'
          const answer = yield* service.call(operation.method, operation.address(), { body })
          const faults = faultPaths(answer)
          for (const name of ["nobodyKnowsThis", "__proto__", "constructor"]) assert.include(faults, `payload.${name}`)
        })
      )

      it.effect(`415: ${operation.name} with a body of another media type`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          for (const type of dealt(otherTypes)) {
            if (operation.bodyTypes.includes(type)) continue
            const headers = { "content-type": type }
            const answer = yield* service.call(operation.method, operation.address(), { body: "{}", headers })
            assertProblem(answer, 415, "unsupported-media-type")
            assert.sameMembers(answer.headers.get("accept")?.split(", ") ?? [], [...operation.bodyTypes])
            const patch = operation.method === "PATCH" ? answer.headers.get("accept") : null
            assert.strictEqual(answer.headers.get("accept-patch"), patch)
          }
        })
      )

      it.effect(`415: ${operation.name} with a compressed body`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const headers = { "content-type": operation.bodyTypes[0] ?? "", "content-encoding": "gzip" }
          const answer = yield* service.call(operation.method, operation.address(), { body: "{}", headers })
          assertProblem(answer, 415, "unsupported-media-type")
          assert.include(answer.body.detail, "Content-Encoding")
          assert.strictEqual(answer.headers.get("accept-encoding"), "identity")
        })
      )

      if (operation.textMembers.length === 0) continue
      it.effect(`400: ${operation.name} with text that the database cannot store, naming every such member`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          for (const member of operation.textMembers) {
            const named = ["payload", ...member].join(".")
            for (const [what, text] of Object.entries(unstorable)) {
              const body = JSON.stringify(bodyWith(member, text))
              const answer = yield* service.call(operation.method, operation.address(), { body })
              // Where a body may have one of several forms, the place that has none of them is named.
              const isNamed = faultPaths(answer).some((path) => named === path || named.startsWith(`${path}.`))
              assert.isTrue(isNamed, `${what} in ${named}: ${answer.text}`)
            }
          }
        })
      )
    }
  })
}
