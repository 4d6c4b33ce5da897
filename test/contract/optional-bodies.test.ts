import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { assertProblem } from "../support/problem.ts"
import { exchange, requestText } from "../support/raw-http.ts"
import { serviceKey, serviceLayer, TestService } from "../support/service.ts"
import { type Change, changesByOperation, withoutEntry } from "./changes.ts"
import { bodySchemaOf, examplePath, type Operation, operations, pathOf } from "./document.ts"
import { faultsOf } from "./validator.ts"

type Service = TestService["Service"]

const withBody = operations.filter((operation) => bodySchemaOf(operation) !== undefined)
const optional = withBody.filter(({ requestBody }) => requestBody?.required === false)

type Prepared = Pick<Change, "parameters" | "token">
const nothing: Prepared = {}

const prepare = (service: Service, { operationId }: Operation) =>
  changesByOperation[operationId]?.(service) ?? withoutEntry[operationId]?.request(service) ?? Effect.succeed(nothing)

/** Calls what an operation acts on, made for this call, with another body than the operation's own. */
const call = Effect.fnUntraced(function* (service: Service, operation: Operation, body: object | undefined) {
  const { parameters, token }: Prepared = yield* prepare(service, operation)
  const path = parameters === undefined ? examplePath(operation) : pathOf(operation, parameters)
  const credential = token === undefined ? {} : { key: null, headers: { authorization: `Bearer ${token}` } }
  const read = service.call("GET", path, credential)
  const before = yield* read
  const answer = yield* service.call(operation.method, path, { ...credential, ...(body === undefined ? {} : { body }) })
  return { answer, before, after: yield* read }
})

const withoutTrace = (text: string) => text.replace(/"traceId":"\w+"/, "")

layer(serviceLayer({ IdentityProviders__AllowPrivateAddresses: "true" }), {
  excludeTestServices: true,
  timeout: "120 seconds"
})("a body without required members", (it) => {
  it("is optional in the document, but for PUT", () => {
    for (const operation of withBody) {
      // A check of the whole may still ask for some.
      if (operation.requestBody?.required === false) {
        assert.deepStrictEqual(faultsOf(bodySchemaOf(operation) ?? {}, {}), [], operation.operationId)
        assert.notStrictEqual(operation.method, "PUT", operation.operationId)
      }
    }
    assert.includeMembers(
      optional.map(({ operationId }) => operationId),
      ["agentCredentials.issue", "apiKeys.rotate", "integrations.rotateSecret", "attestationKeys.rotate"]
    )
  })

  for (const operation of optional) {
    it.effect(`${operation.operationId} does without a body what it does with {}`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const none = yield* call(service, operation, undefined)
        const empty = yield* call(service, operation, {})
        assert.strictEqual(none.answer.status, empty.answer.status, none.answer.text)
        assert.notInclude(none.answer.text, "validation-failed")
        assert.notInclude(none.answer.text, "malformed-json")
        if (operation.method !== "PATCH") return
        assert.strictEqual(none.answer.status, 200, none.answer.text)
        assert.deepStrictEqual({ ...none.after.body, updatedAt: null }, { ...none.before.body, updatedAt: null })
      })
    )
  }

  for (const operation of withBody.filter((one) => !optional.includes(one))) {
    it.effect(`${operation.operationId} needs a body, and without one changes nothing`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { after, answer, before } = yield* call(service, operation, undefined)
        // An endpoint that acts on a request under a precondition, or a claim, looks at others first.
        assert.include([400, 401], answer.status, answer.text)
        assert.strictEqual(withoutTrace(after.text), withoutTrace(before.text))
      })
    )
  }

  it.effect("is absent in each way in which HTTP has none, and not where there are spaces", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { body: agent } = yield* service.call("POST", "/api/agents", {
        body: { name: "bodiless", scopeCeiling: ["llm:complete"] }
      })
      const path = `/api/agents/${agent.id}/credentials`
      const send = Effect.fnUntraced(function* (lines: ReadonlyArray<string>, body: string) {
        const sent = `${requestText("POST", path, [`X-Api-Key: ${serviceKey}`, ...lines])}${body}`
        const { answers } = yield* exchange(service.url, sent)
        return answers[0]?.status
      })
      assert.strictEqual(yield* send(["Content-Length: 0"], ""), 201)
      assert.strictEqual(yield* send([], ""), 201)
      assert.strictEqual(yield* send(["Transfer-Encoding: chunked"], "0\r\n\r\n"), 201)
      // curl -d '' and PowerShell name the type of a form.
      const form = "Content-Type: application/x-www-form-urlencoded"
      assert.strictEqual(yield* send([form, "Content-Length: 0"], ""), 201)
      assert.strictEqual(yield* send(["Content-Type: application/json", "Content-Length: 0"], ""), 201)
      assert.strictEqual(yield* send([form, "Content-Length: 1"], "a"), 415)
      assert.strictEqual(yield* send(["Content-Length: 1"], " "), 400)
      assert.strictEqual(yield* send(["Content-Length: 4"], "null"), 400)
    })
  )

  it.effect("a PUT of the gateway's configuration without one leaves it as it is", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const before = yield* service.call("GET", "/api/llm/admin/config")
      assertProblem(yield* service.call("PUT", "/api/llm/admin/config"), 400, "validation-failed")
      assert.deepStrictEqual((yield* service.call("GET", "/api/llm/admin/config")).body, before.body)
    })
  )
})
