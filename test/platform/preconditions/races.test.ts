import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { changesByOperation, withoutEntry } from "../../contract/changes.ts"
import { operations, pathOf } from "../../contract/document.ts"
import { makeAgent } from "../../support/agents.ts"
import { assertProblem } from "../../support/problem.ts"
import { during, type Sql } from "../../support/races.ts"
import { make } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

type Service = TestService["Service"]
type Parameters = Readonly<Record<string, string | number>>

interface Contested {
  /** Where the resource is read, once it is made. */
  readonly path: string
  readonly method: "DELETE" | "PATCH" | "POST" | "PUT"
  readonly action?: string
  /** A different change for each writer. */
  body(writer: number): unknown
}

const writers = 8

const makeApplication = (service: Service, name: string) =>
  make(service, "/api/applications", { name: `${name} ${crypto.randomUUID()}` })

const makeFile = Effect.fnUntraced(function* (service: Service, type: "file" | "folder") {
  const { id: applicationId } = yield* makeApplication(service, "races")
  const content = type === "file" ? { content: "{}" } : {}
  const { id } = yield* make(service, "/api/configuration", { applicationId, name: "settings", type, ...content })
  return `/api/configuration/${id}`
})

const contested: Readonly<Record<string, (service: Service) => Effect.Effect<Contested>>> = {
  "a resource of one row": (service) =>
    Effect.map(makeAgent(service), ({ id }) => ({
      path: `/api/agents/${id}`,
      method: "PATCH",
      body: (writer) => ({ name: `renamed by ${writer}` })
    })),
  "a resource with rows of another table": Effect.fnUntraced(function* (service) {
    const { body: applications } = yield* service.call("GET", "/api/applications?search=application-manager")
    const own = applications.items.find(({ slug }: { slug: string }) => slug === "application-manager")
    const { body: roles } = yield* service.call("GET", `/api/roles?applicationId=${own.id}`)
    const ids: ReadonlyArray<number> = roles.map((role: { id: number }) => role.id)
    const account = { email: `${crypto.randomUUID()}@example.org`, name: "Ada", password: "seven grey herons at dawn" }
    const { id } = yield* make(service, "/api/accounts", { ...account, roleIds: [] })
    return {
      path: `/api/accounts/${id}`,
      method: "PATCH",
      body: (writer) => ({ roleIds: [ids[writer % ids.length]] })
    }
  }),
  "a resource that is replaced": (service) =>
    Effect.map(
      make(service, "/api/cloudevents/subscriptions", {
        sink: "https://hooks.example.com/races",
        types: ["com.example.created"]
      }),
      ({ id }) => ({
        path: `/api/cloudevents/subscriptions/${id}`,
        method: "PUT",
        body: (writer) => ({ sink: "https://hooks.example.com/races", types: [`com.example.created-${writer}`] })
      })
    ),
  "a resource that is deleted": (service) =>
    Effect.map(makeAgent(service), ({ id }) => ({
      path: `/api/agents/${id}`,
      method: "DELETE",
      body: () => undefined
    })),
  "a content with versions": (service) =>
    Effect.map(makeFile(service, "file"), (path) => ({
      path,
      method: "PUT",
      body: (writer) => ({ content: `{"writer":${writer}}` })
    })),
  "a file that is renamed, which gives it no version": (service) =>
    Effect.map(makeFile(service, "file"), (path) => ({
      path,
      method: "PATCH",
      body: (writer) => ({ name: `settings-${writer}` })
    })),
  "a folder, which has no versions": (service) =>
    Effect.map(makeFile(service, "folder"), (path) => ({
      path,
      method: "PATCH",
      body: (writer) => ({ name: `folder-${writer}` })
    })),
  "what the ledger commits": (service) =>
    Effect.map(make(service, "/api/spend/reserve", { amountUsd: 1 }), ({ id }) => ({
      path: `/api/spend/reservations/${id}`,
      method: "POST",
      action: "/extend",
      body: (writer) => ({ ttlSeconds: 1000 + writer })
    })),
  "an action that is repeated with the same answer": (service) =>
    Effect.map(make(service, "/api/spend/reserve", { amountUsd: 1 }), ({ id }) => ({
      path: `/api/spend/reservations/${id}`,
      method: "DELETE",
      body: () => undefined
    }))
}

const reservationPath = ({ id, reservationId = id }: Parameters) => `/api/spend/reservations/${reservationId}`
const planPath = ({ agentId, planId }: Parameters) => `/api/agents/${agentId}/plans/${planId}`
const postponed = (sql: Sql, { id, reservationId = id }: Parameters) =>
  sql`UPDATE budget_reservations SET expires_at = expires_at + interval '1 second' WHERE id = ${reservationId}`
const beaten = (sql: Sql, { planId }: Parameters) =>
  sql`UPDATE budget_plans SET heartbeat_by = heartbeat_by + interval '1 second' WHERE id = ${planId}`
const spent = (sql: Sql, { planId }: Parameters) =>
  Effect.andThen(
    sql`SELECT FROM budget_plans WHERE id = ${planId} FOR UPDATE`,
    sql`UPDATE budget_counters SET spent = spent + 1 WHERE id = ${planId}`
  )
/** Other tests of the service compare its counters with what was written. */
const unspent = (service: Service, planId: string | number) =>
  asSuperuser(service.database, (sql) => sql`UPDATE budget_counters SET spent = 0 WHERE id = ${planId}`)

/** What the ledger changes by statements of its own, with changes of others that come between. */
const ofLedger: ReadonlyArray<{
  readonly operationIds: ReadonlyArray<string>
  readonly pathOf: (parameters: Parameters) => string
  readonly between: ReadonlyArray<(sql: Sql, parameters: Parameters) => Effect.Effect<unknown, unknown>>
}> = [
  {
    operationIds: ["spend.release", "spend.extend", "approvals.approve", "approvals.deny"],
    pathOf: reservationPath,
    between: [postponed]
  },
  {
    operationIds: ["plans.extend", "plans.complete", "plans.abort", "plans.heartbeat"],
    pathOf: planPath,
    between: [beaten, spent]
  }
]

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("writers with one tag", (it) => {
  for (const [name, prepare] of Object.entries(contested)) {
    it.effect(`of ${name} win once, on any replicas`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const replica = yield* service.replica
        const { action = "", body, method, path } = yield* prepare(service)
        const read = service.call("GET", path)
        const etag = (yield* read).headers.get("etag") ?? assert.fail("no tag")
        const answers = yield* Effect.all(
          Array.from({ length: writers }, (_, writer) =>
            (writer % 2 === 0 ? service : replica).call(method, `${path}${action}`, {
              headers: { "if-match": etag },
              ...(body(writer) === undefined ? {} : { body: body(writer) })
            })
          ),
          { concurrency: "unbounded" }
        )
        const won = answers.filter(({ status }) => status < 300)
        assert.lengthOf(won, 1, answers.map(({ status, text }) => `${status} ${text}`).join("\n"))
        for (const lost of answers)
          if (lost !== won[0])
            assertProblem(
              lost,
              lost.status === 404 ? 404 : 412,
              lost.status === 404 ? "agent-not-found" : "version-mismatch"
            )
        const shown = won[0]?.headers.get("etag") ?? null
        if (shown !== null) assert.strictEqual((yield* read).headers.get("etag"), shown)
      })
    )
  }

  it.effect("a writer waits for a change under way, whoever makes it, and then finds another tag", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id } = yield* makeAgent(service)
      const path = `/api/agents/${id}`
      const etag = (yield* service.call("GET", path)).headers.get("etag") ?? ""
      const refused = yield* during(
        service.database,
        (sql) => sql`UPDATE agents SET name = 'changed meanwhile' WHERE id = ${id}`,
        service.call("PATCH", path, { headers: { "if-match": etag }, body: { name: "mine" } })
      )
      assertProblem(refused, 412, "version-mismatch")
      assert.strictEqual((yield* service.call("GET", path)).body.name, "changed meanwhile")
    })
  )

  for (const { between, operationIds, pathOf: readAt } of ofLedger) {
    for (const operationId of operationIds) {
      it.effect(`${operationId} finds what others changed between its precondition and its statement`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const operation = operations.find((one) => one.operationId === operationId) ?? assert.fail(operationId)
          for (const change of between) {
            const { body, parameters = {} } = yield* (
              changesByOperation[operationId] ??
              withoutEntry[operationId]?.request ??
              assert.fail(operationId)
            )(service)
            const path = readAt(parameters)
            const read = service.call("GET", path)
            const etag = (yield* read).headers.get("etag") ?? ""
            const write = (tag: string) =>
              service.call(operation.method, pathOf(operation, parameters), {
                headers: { "if-match": tag },
                ...(body === undefined ? {} : { body })
              })
            const refused = yield* during(service.database, (sql) => change(sql, parameters), write(etag))
            assertProblem(refused, 412, "version-mismatch")
            const changed = yield* read
            assert.notStrictEqual(changed.headers.get("etag"), etag)
            const made = yield* write(changed.headers.get("etag") ?? "")
            assert.isBelow(made.status, 300, made.text)
            if (parameters.planId !== undefined) yield* unspent(service, parameters.planId)
          }
        })
      )

      it.effect(`${operationId} is made where others only locked what it changes`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const operation = operations.find((one) => one.operationId === operationId) ?? assert.fail(operationId)
          const { body, parameters = {} } = yield* (
            changesByOperation[operationId] ??
            withoutEntry[operationId]?.request ??
            assert.fail(operationId)
          )(service)
          const etag = (yield* service.call("GET", readAt(parameters))).headers.get("etag") ?? ""
          const write = service.call(operation.method, pathOf(operation, parameters), {
            headers: { "if-match": etag },
            ...(body === undefined ? {} : { body })
          })
          const table = parameters.planId === undefined ? "budget_reservations" : "budget_plans"
          const id = parameters.planId ?? parameters.reservationId ?? parameters.id
          // A row that is written as it was has another version, and the same tag.
          const rewritten = (sql: Sql) => sql`UPDATE ${sql(table)} SET created_by = created_by WHERE id = ${id}`
          const made = yield* during(service.database, rewritten, write)
          assert.isBelow(made.status, 300, made.text)
        })
      )
    }
  }

  it.effect("a repeated request is answered as the first was, though its tag is old by then", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const key = yield* make(service, "/api/api-keys", { name: "rotated", scopes: ["dashboard:read"] })
      const reservation = yield* make(service, "/api/spend/reserve", { amountUsd: 1 })
      for (const [path, action, body] of [
        [`/api/api-keys/${key.id}`, "/rotate", { graceSeconds: 60 }],
        [`/api/spend/reservations/${reservation.id}`, "/extend", { ttlSeconds: 900 }]
      ] as const) {
        const etag = (yield* service.call("GET", path)).headers.get("etag") ?? ""
        const headers = { "if-match": etag, "idempotency-key": crypto.randomUUID() }
        const first = yield* service.call("POST", `${path}${action}`, { headers, body })
        assert.isBelow(first.status, 300, first.text)
        const repeated = yield* service.call("POST", `${path}${action}`, { headers, body })
        assert.strictEqual(repeated.status, first.status, repeated.text)
        assert.strictEqual(repeated.headers.get("idempotency-replayed"), "true")
        const other = { ...headers, "idempotency-key": crypto.randomUUID() }
        assertProblem(
          yield* service.call("POST", `${path}${action}`, { headers: other, body }),
          412,
          "version-mismatch"
        )
      }
    })
  )

  for (const [operationId, readAt] of [
    ...ofLedger.flatMap(({ operationIds, pathOf: readAt }) =>
      operationIds.filter((id) => id !== "spend.release").map((id) => [id, readAt] as const)
    ),
    ["apiKeys.rotate", ({ id }: Parameters) => `/api/api-keys/${id}`],
    ["integrations.rotateSecret", ({ id }: Parameters) => `/api/integrations/${id}`]
  ] as const) {
    it.effect(`${operationId} under one Idempotency-Key is made once and answered as once, of many at once`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const replica = yield* service.replica
        const operation = operations.find((one) => one.operationId === operationId) ?? assert.fail(operationId)
        for (let round = 0; round < 3; round++) {
          const { body, parameters = {} } = yield* (
            changesByOperation[operationId] ??
            withoutEntry[operationId]?.request ??
            assert.fail(operationId)
          )(service)
          const etag = (yield* service.call("GET", readAt(parameters))).headers.get("etag") ?? ""
          const headers = { "if-match": etag, "idempotency-key": crypto.randomUUID() }
          const path = pathOf(operation, parameters)
          const repeat = ({ call }: Service) =>
            call(operation.method, path, { headers, ...(body === undefined ? {} : { body }) })
          const answers = yield* Effect.all(
            Array.from({ length: 20 }, (_, at) => repeat(at % 2 === 0 ? service : replica)),
            { concurrency: "unbounded" }
          )
          const made = answers.filter(({ headers: told }) => told.get("idempotency-replayed") === null)
          assert.lengthOf(
            made.filter(({ status }) => status < 300),
            1
          )
          for (const answer of answers) {
            if (answer.status >= 300) assertProblem(answer, 409, "idempotency-in-progress")
          }
          const late = yield* repeat(replica)
          assert.isBelow(late.status, 300, late.text)
          assert.strictEqual(late.headers.get("idempotency-replayed"), "true")
        }
      })
    )
  }

  it.effect("a refused precondition leaves its Idempotency-Key free", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id } = yield* make(service, "/api/api-keys", { name: "a key", scopes: ["dashboard:read"] })
      const path = `/api/api-keys/${id}`
      const rotate = (etag: string) =>
        service.call("POST", `${path}/rotate`, { headers: { "if-match": etag, "idempotency-key": path }, body: {} })
      assertProblem(yield* rotate('"old"'), 412, "version-mismatch")
      const etag = (yield* service.call("GET", path)).headers.get("etag") ?? ""
      assert.strictEqual((yield* rotate(etag)).status, 201)
    })
  )

  it.effect("use changes what a GET compares, and not what an If-Match does", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id } = yield* make(service, "/api/trial-users", {
        firstName: "Ada",
        lastName: "Lovelace",
        email: `${crypto.randomUUID()}@example.com`
      })
      const session = yield* make(service, "/api/sessions", { trialUserId: id, ipAddress: "203.0.113.7" })
      const path = `/api/sessions/${session.id}`
      const etag = (yield* service.call("GET", path)).headers.get("etag") ?? ""
      yield* service.call("POST", `${path}/activity`)
      assert.strictEqual((yield* service.call("GET", path, { headers: { "if-none-match": etag } })).status, 200)
      assert.strictEqual((yield* service.call("DELETE", path, { headers: { "if-match": etag } })).status, 204)
    })
  )

  it.effect("a resource that is not there is 404, whatever the precondition", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const path = `/api/agents/${crypto.randomUUID()}`
      for (const value of ["*", '"1"', 'W/"1"']) {
        const answer = yield* service.call("PATCH", path, { headers: { "if-match": value }, body: { name: "a" } })
        assertProblem(answer, 404, "agent-not-found")
      }
      const forbidden = yield* service.call("DELETE", path, { key: null, headers: { "if-match": '"1"' } })
      assertProblem(forbidden, 401, "unauthenticated")
    })
  )
})
