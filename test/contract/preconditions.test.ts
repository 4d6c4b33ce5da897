import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as crypto from "node:crypto"
import { assertProblem } from "../support/problem.ts"
import { type Call, serviceLayer, TestService } from "../support/service.ts"
import { type Change, changesByOperation, withoutEntry } from "./changes.ts"
import { mutating, type Operation, operations, pathOf } from "./document.ts"

type Service = TestService["Service"]
type Prepared = Pick<Change, "parameters" | "body" | "contentType" | "token">

const unmatched = '"999999"'

const request = (
  service: Service,
  operation: Operation,
  { body, contentType, parameters, token }: Prepared,
  headers: Readonly<Record<string, string>>
) => {
  const call: Call = {
    headers: {
      ...headers,
      ...(contentType === undefined ? {} : { "content-type": contentType }),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` })
    },
    ...(body === undefined ? {} : { body }),
    ...(token === undefined ? {} : { key: null })
  }
  return service.call(operation.method, pathOf(operation, parameters), call)
}

const traced = () => {
  const traceId = crypto.randomUUID().replaceAll("-", "")
  return { traceId, headers: { traceparent: `00-${traceId}-00f067aa0ba902b7-01` } }
}

/** Where the resource is read that an operation acts on, if it is neither its path nor the one above. */
const readElsewhere: Readonly<Record<string, string>> = {
  "registrations.approve": "/api/applications/{id}/registration",
  "registrations.reject": "/api/applications/{id}/registration",
  "approvals.approve": "/api/spend/reservations/{reservationId}",
  "approvals.deny": "/api/spend/reservations/{reservationId}"
}

const shapeOf = (path: string) => path.replace(/\{\w+\}/g, "{}")

const readAt = (path: string) =>
  operations.find((operation) => operation.method === "GET" && shapeOf(operation.path) === shapeOf(path))

/** The GET of the resource that an operation acts on, with the operation's own parameters. */
const resourceOf = ({ operationId, path }: Operation): Operation | undefined => {
  const elsewhere = readElsewhere[operationId]
  const found = readAt(elsewhere ?? path) ?? readAt(path.slice(0, path.lastIndexOf("/")))
  if (found?.responses[200]?.headers?.ETag === undefined) return undefined
  return elsewhere === undefined ? found : { ...found, path: elsewhere }
}

/** What acts on a resource and changes nothing that its editors could lose. */
const changesNothingShown: ReadonlySet<string> = new Set([
  "sessions.touch",
  "identityProviders.test",
  "integrations.test",
  "integrations.replay",
  "syntheticPrincipals.reset"
])

/** A tag without what use changes. */
const edited = (tag: string | null) => tag?.split("~")[0]

/** What acts on a resource that is read by its id, as the document says. */
const acting = operations.filter(mutating).filter((operation) => resourceOf(operation) !== undefined)

const prepare = (service: Service, { operationId }: Operation) =>
  changesByOperation[operationId]?.(service) ??
  withoutEntry[operationId]?.request(service) ??
  assert.fail(`${operationId}: say in changes.ts how it is called`)

layer(serviceLayer({ IdentityProviders__AllowPrivateAddresses: "true" }), {
  excludeTestServices: true,
  timeout: "120 seconds"
})("preconditions", (it) => {
  const readById = operations.filter(({ method, path }) => method === "GET" && /\/\{\w+\}$/.test(path))

  it("every GET by id has an ETag, and what acts on a resource 412", () => {
    for (const { operationId, parameters, responses } of readById) {
      assert.property(responses[200]?.headers ?? {}, "ETag", operationId)
      assert.property(responses, "304", operationId)
      assert.include(
        parameters.map(({ name }) => name),
        "If-None-Match",
        operationId
      )
    }
    for (const { operationId, parameters, responses } of operations.filter(mutating)) {
      assert.property(responses, "412", operationId)
      assert.include(
        parameters.map(({ name }) => name),
        "If-Match",
        operationId
      )
    }
    assert.isAbove(acting.length, 50)
  })

  for (const operation of acting) {
    const resource = resourceOf(operation)!
    it.effect(
      `${operation.operationId} changes nothing under another tag, and what it is for under the current one`,
      () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const prepared: Prepared = yield* prepare(service, operation)
          const read = (headers = {}) =>
            request(service, resource, { parameters: prepared.parameters ?? {}, token: prepared.token }, headers)
          const before = yield* read()
          // What was deleted can be restored, and has no tag meanwhile.
          const isThere = before.status === 200
          const etag = before.headers.get("etag") ?? unmatched
          const stale = [
            { "if-match": unmatched },
            { "if-match": `W/${etag}` },
            { "if-match": `"", W/"1" ,${unmatched}` },
            ...(isThere ? [{ "if-none-match": "*" }, { "if-none-match": `W/${etag}` }] : [{ "if-match": "*" }])
          ]
          for (const headers of stale) {
            const { headers: trace, traceId } = traced()
            const refused = yield* request(service, operation, prepared, { ...headers, ...trace })
            assertProblem(refused, 412, "version-mismatch")
            const after = yield* read()
            assert.strictEqual(after.text.replace(/"traceId":"\w+"/, ""), before.text.replace(/"traceId":"\w+"/, ""))
            const { body } = yield* service.call("GET", "/api/audit-logs?limit=50")
            assert.isEmpty(body.items.filter((entry: { traceId: string }) => entry.traceId === traceId))
          }
          for (const name of ["if-match", "if-none-match"]) {
            const malformed = yield* request(service, operation, prepared, { [name]: "3" })
            assertProblem(malformed, 400, "validation-failed")
            assert.deepStrictEqual(malformed.body.errors[0].path, ["headers", name])
          }
          if (!isThere) return
          assert.notMatch(etag, /^W/)
          for (const known of [etag, `W/${etag}`, `"other" , ${etag}`, "*"]) {
            for (const method of ["GET", "HEAD"]) {
              const unchanged = yield* request(
                service,
                { ...resource, method },
                { parameters: prepared.parameters ?? {}, token: prepared.token },
                { "if-none-match": known }
              )
              assert.deepStrictEqual([unchanged.status, unchanged.text, unchanged.headers.get("etag")], [304, "", etag])
            }
          }
          assert.strictEqual((yield* read({ "if-none-match": unmatched })).status, 200)
          assertProblem(yield* read({ "if-match": unmatched }), 412, "version-mismatch")

          const made = yield* request(service, operation, prepared, { "if-match": `"other", ${etag}` })
          assert.isBelow(made.status, 300, made.text)
          const after = yield* read()
          const shown = made.headers.get("etag")
          if (shown !== null && made.status !== 201) assert.strictEqual(shown, after.headers.get("etag"))
          assert.strictEqual(shown === null, operation.responses[made.status]?.headers?.ETag === undefined)
          const isSame = edited(after.headers.get("etag")) === edited(etag)
          assert.strictEqual(isSame, changesNothingShown.has(operation.operationId))
          if (isSame) return
          const again = yield* request(service, operation, prepared, { "if-match": etag })
          assert.include([404, 409, 412], again.status, again.text)
        })
    )
  }

  const others = operations.filter(mutating).filter((operation) => resourceOf(operation) === undefined)
  for (const operation of others) {
    const { operationId } = operation
    if (changesByOperation[operationId] === undefined && withoutEntry[operationId] === undefined) continue
    it.effect(`${operationId} has no tag that an If-Match could name`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const prepared: Prepared = yield* prepare(service, operation)
        const { headers, traceId } = traced()
        const refused = yield* request(service, operation, prepared, { "if-match": unmatched, ...headers })
        assertProblem(refused, 412, "version-mismatch")
        const { body } = yield* service.call("GET", "/api/audit-logs?limit=50")
        assert.isEmpty(body.items.filter((entry: { traceId: string }) => entry.traceId === traceId))
        const made = yield* request(service, operation, prepared, { "if-match": "*" })
        assert.isBelow(made.status, 300, made.text)
        const location = made.headers.get("location")
        const etag = made.headers.get("etag")
        assert.strictEqual(etag === null, operation.responses[made.status]?.headers?.ETag === undefined)
        if (location === null || etag === null) return
        const { headers: read, status } = yield* service.call("GET", location)
        if (status === 200) assert.strictEqual(read.get("etag"), etag)
      })
    )
  }
})
