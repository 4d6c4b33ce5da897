import { assert, layer } from "@effect/vitest"
import { Array as Arr, Effect } from "effect"
import * as crypto from "node:crypto"
import { capabilitiesOf, resources } from "../../src/kernel/authority/capability.ts"
import { makeKey, makeTenant } from "../support/authority.ts"
import { assertProblem } from "../support/problem.ts"
import { type Answer, type Call, serviceLayer, TestService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { eventually } from "../support/waiting.ts"
import { type Change, changesByOperation, testedElsewhere, withoutEntry } from "./changes.ts"
import { anonymousOperations, mutating, type Operation, operations, ownOperations, pathOf } from "./document.ts"

type Service = TestService["Service"]

interface Entry {
  readonly id: string
  readonly actionType: string
  readonly entityType: string
  readonly entityId: string
  readonly userId: string
  readonly actorType: string
  readonly outcome: string
  readonly reason: string | null
  readonly count: number
  readonly ipAddress: string | null
  readonly userAgent: string | null
  readonly traceId: string
}

const userAgent = "contract-test/1.0"

/** Calls an operation within a trace of its own. */
const callTraced = Effect.fnUntraced(function* (
  service: Service,
  operation: Operation,
  { body, contentType, parameters, token }: Pick<Change, "parameters" | "body" | "contentType" | "token">,
  key: string | null | undefined = token === undefined ? undefined : null
) {
  const traceId = crypto.randomUUID().replaceAll("-", "")
  const call: Call = {
    headers: {
      traceparent: `00-${traceId}-00f067aa0ba902b7-01`,
      "user-agent": userAgent,
      ...(contentType === undefined ? {} : { "content-type": contentType }),
      ...(token === undefined || key !== null ? {} : { authorization: `Bearer ${token}` })
    },
    ...(body === undefined ? {} : { body }),
    ...(key === undefined ? {} : { key })
  }
  return { traceId, answer: yield* service.call(operation.method, pathOf(operation, parameters), call) }
})

/** The entries of a trace, which are among the newest, in the order of their actions. */
const entriesOf = Effect.fnUntraced(function* (service: Service, traceId: string) {
  const answer = yield* service.call("GET", "/api/audit-logs?limit=25")
  const entries: ReadonlyArray<Entry> = answer.body.items
  return entries
    .filter((entry) => entry.traceId === traceId)
    .toSorted((a, b) => a.actionType.localeCompare(b.actionType))
})

const assertSucceeded = (operation: Operation, answer: Answer): void => {
  assert.isBelow(answer.status, 300, answer.text)
  assert.property(operation.responses, String(answer.status))
}

const changing = operations.filter(mutating)
const rowOf = (operation: Operation) =>
  changesByOperation[operation.operationId] ??
  assert.fail(`${operation.operationId} changes something: say in changes.ts how it is called and what it leaves`)

layer(serviceLayer({ IdentityProviders__AllowPrivateAddresses: "true" }), {
  excludeTestServices: true,
  timeout: "60 seconds"
})("the audit log", (it) => {
  it("has an expectation for every operation that changes something, and for no other", () => {
    const known = [changesByOperation, withoutEntry, testedElsewhere].flatMap((some) => Object.keys(some))
    const operationIds = changing.map(({ operationId }) => operationId)
    assert.deepStrictEqual(Arr.difference(operationIds, known), [], "say in changes.ts what they change")
    assert.deepStrictEqual(Arr.difference(known, operationIds), [], "these change nothing")
  })

  for (const operation of changing) {
    if (operation.operationId in withoutEntry || operation.operationId in testedElsewhere) continue
    it.effect(`${operation.operationId} leaves exactly its entries`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const change = yield* rowOf(operation)(service)
        const { answer, traceId } = yield* callTraced(service, operation, change)
        assertSucceeded(operation, answer)
        const entries = yield* entriesOf(service, traceId)
        const expected = change.entries(answer).toSorted((a, b) => a.actionType.localeCompare(b.actionType))
        assert.deepStrictEqual(
          entries.map(({ actionType, entityId, entityType }) => ({ actionType, entityId, entityType })),
          expected.map(({ actionType, entityId, entityType }) => ({ actionType, entityId, entityType }))
        )
        for (const [index, entry] of entries.entries()) {
          assert.deepInclude(entry, {
            userId: change.by ?? "service-account",
            actorType: change.by?.split(":")[0] ?? "service-account",
            outcome: "success",
            reason: null,
            count: 1,
            ipAddress: "127.0.0.1",
            userAgent,
            traceId
          })
          if (expected[index]?.kept === "nothing") continue
          const { body: detail, text } = yield* service.call("GET", `/api/audit-logs/${entry.id}`)
          const kept = expected[index]?.kept
          assert.strictEqual(detail.changes.before !== null, kept !== "after", "before")
          assert.strictEqual(detail.changes.after !== null, kept !== "before", "after")
          assert.notMatch(text, /amk_[0-9A-Za-z]{13}/, "the key itself is in the log")
        }
      })
    )
  }

  for (const [operationId, { reason, request }] of Object.entries(withoutEntry)) {
    it.effect(`${operationId} leaves no entry: ${reason}`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const operation = operations.find((one) => one.operationId === operationId) ?? assert.fail(operationId)
        const { answer, traceId } = yield* callTraced(service, operation, yield* request(service))
        assertSucceeded(operation, answer)
        assert.isEmpty(yield* entriesOf(service, traceId))
      })
    )
  }

  for (const operation of changing) {
    const { operationId } = operation
    const prepare = (service: Service) => withoutEntry[operationId]?.request(service) ?? rowOf(operation)(service)

    if (anonymousOperations.includes(operationId)) continue

    it.effect(`${operationId} refuses a key without its capability, and records that`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const needed = operation["x-required-capability"]
        const isOwn = ownOperations.includes(operationId)
        if (needed === undefined && !isOwn) return assert.fail("asks for no capability")
        const enough = new Set([needed, ...(operation["x-or-capabilities"] ?? [])])
        const others = resources.flatMap(capabilitiesOf).filter((capability) => !enough.has(capability))
        const { id, key } = yield* makeKey(service, others)
        const { answer, traceId } = yield* callTraced(service, operation, yield* prepare(service), key)
        assertProblem(answer, 403, "forbidden")
        assert.deepStrictEqual(answer.body.missing, isOwn ? [] : [needed])
        const entries = yield* entriesOf(service, traceId)
        assert.strictEqual(entries.length, 1)
        assert.deepInclude(entries[0], {
          actionType: "AccessForbidden",
          entityType: "Operation",
          entityId: operationId,
          userId: `api-key:${id}`,
          actorType: "api-key",
          outcome: "denied",
          traceId
        })
      })
    )

    it.effect(`${operationId} refuses a caller without a key, and changes nothing`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { answer, traceId } = yield* callTraced(
          service,
          operation,
          { ...(yield* prepare(service)), token: undefined },
          null
        )
        assertProblem(answer, 401, "unauthenticated")
        assert.isEmpty(yield* entriesOf(service, traceId))
      })
    )
  }

  const patches = changing.filter(
    ({ method, operationId }) => method === "PATCH" && !ownOperations.includes(operationId)
  )
  for (const operation of patches) {
    it.effect(`${operation.operationId} leaves no entry when it changes nothing`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { parameters } = yield* rowOf(operation)(service)
        const before = yield* service.call("GET", pathOf(operation, parameters))
        for (const body of [{}, before.body]) {
          const { answer, traceId } = yield* callTraced(service, operation, { parameters: parameters ?? {}, body })
          assert.strictEqual(answer.status, 200, answer.text)
          assert.deepStrictEqual(answer.body, before.body)
          assert.isEmpty(yield* entriesOf(service, traceId))
        }
      })
    )
  }

  it.effect("has no entry whose action and whose event's type are not listed", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const own = "com.application-manager."
      const { key } = yield* makeKey(service, ["events:*", "spend:*"], {
        tenantId: yield* makeTenant(service.database)
      })
      const usage = { specversion: "1.0", id: "u", source: "https://batch.example", type: `${own}usage.recorded` }
      const published = yield* service.call("POST", "/api/cloudevents", {
        key,
        body: { ...usage, data: { actualUsd: 1 } },
        headers: { "content-type": "application/cloudevents+json" }
      })
      assert.strictEqual(published.status, 201, published.text)
      const pull = (query: string) =>
        Effect.map(service.call("GET", `/api/cloudevents?limit=200&${query}`), ({ body }) => body)
      yield* eventually(pull(`types=${usage.type}`), ({ items }) => items.length === 1)

      const { body: listed } = yield* service.call("GET", "/api/cloudevents/types")
      const types = new Set(listed.map(({ type }) => type))
      assert.strictEqual(types.size, listed.length)
      const seen = new Set<string>()
      let page = yield* pull("after=0")
      for (let after = -1; Number(page.nextCursor) > after; page = yield* pull(`after=${after}`)) {
        after = Number(page.nextCursor)
        for (const { type } of page.items) seen.add(type)
      }
      assert.isAbove(seen.size, 80)
      assert.deepStrictEqual(
        [...seen].filter((type) => type.startsWith(own) && !types.has(type)),
        []
      )
      const written = yield* asSuperuser(
        service.database,
        (sql) =>
          sql<{ readonly actionType: string; readonly entityType: string }>`
            SELECT DISTINCT action_type AS "actionType", entity_type AS "entityType" FROM audit_entries`
      )
      assert.includeDeepMembers([...(yield* service.call("GET", "/api/audit-logs/types")).body], [...written])
    })
  )
})
