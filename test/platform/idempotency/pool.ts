import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { changesByOperation, withoutEntry } from "../../contract/changes.ts"
import { mutating, operations, pathOf } from "../../contract/document.ts"
import { makeDatabase } from "../../support/database.ts"
import { newKey } from "../../support/repeatable.ts"
import { startService } from "../../support/service.ts"

/** One of them listens for notifications, so that all requests share one. */
const maxConnections = 2
const requestsAtOnce = 4 * maxConnections

const repeatable = operations.filter(
  (operation) =>
    mutating(operation) &&
    operation.method === "POST" &&
    operation.parameters?.some(({ name }) => name.toLowerCase() === "idempotency-key")
)

/** Asks each `every`th operation that takes a key. */
export const answerKeyedRequests = (every: number) => {
  const asked = repeatable.filter((_, index) => index % every === 0)
  describe("keyed requests, four for each connection of the pool", () => {
    it.live(
      "are all answered, whatever they change: none waits for a connection while it holds one",
      () =>
        Effect.gen(function* () {
          const service = yield* startService(yield* makeDatabase, {
            Database__MaxConnections: String(maxConnections),
            Api__RequestTimeoutSeconds: "5",
            IdentityProviders__AllowPrivateAddresses: "true"
          })
          assert.isAbove(repeatable.length, 20)
          const faults: Array<string> = []
          for (const operation of asked) {
            const { operationId } = operation
            const prepare =
              withoutEntry[operationId]?.request ?? changesByOperation[operationId] ?? assert.fail(operationId)
            const changes = yield* Effect.replicateEffect(
              Effect.suspend(() => prepare(service)),
              requestsAtOnce
            )
            const answers = yield* Effect.forEach(
              changes,
              (change) => {
                const token = "token" in change ? change.token : undefined
                const contentType = "contentType" in change ? change.contentType : undefined
                return service.call(operation.method, pathOf(operation, change.parameters), {
                  body: change.body,
                  ...(token === undefined ? {} : { key: null }),
                  headers: {
                    "idempotency-key": newKey(),
                    ...(typeof contentType === "string" ? { "content-type": contentType } : {}),
                    ...(token === undefined ? {} : { authorization: `Bearer ${token}` })
                  }
                })
              },
              { concurrency: "unbounded" }
            )
            const statuses = answers.map(({ status }) => status)
            if (!statuses.some((status) => status < 300) || statuses.some((status) => status >= 500)) {
              faults.push(`${operationId}: ${statuses.join()} ${answers.find(({ status }) => status >= 300)?.text}`)
            }
          }
          assert.deepStrictEqual(faults, [])
        }).pipe(Effect.scoped),
      300_000
    )
  })
}
