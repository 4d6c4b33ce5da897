import { assert, layer } from "@effect/vitest"
import { Array, Effect, Fiber } from "effect"
import { assertProblem } from "../../support/problem.ts"
import { type Answer, sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { untilBlocked } from "../../support/waiting.ts"

const person = (email: string) => ({ firstName: "Ada", lastName: "Lovelace", email })
const ipAddress = "203.0.113.7"

const create = Effect.fnUntraced(function* (email: string) {
  const service = yield* TestService
  const made = yield* service.call("POST", "/api/trial-users", { body: person(email) })
  assert.strictEqual(made.status, 201, made.text)
  const id: number = made.body.id
  return id
})

/** The same address in the n-th of 64 cases. */
const cased = (n: number) =>
  Array.map([..."crowd@example.com"], (letter, at) => ((n >> (at % 6)) & 1 ? letter.toUpperCase() : letter)).join("")

const open = (service: TestService["Service"], trialUserId: number) =>
  service.call("POST", "/api/sessions", { body: { trialUserId, ipAddress } })

interface Entry {
  readonly id: string
  readonly actionType: string
}

/** The entries of a thing, oldest first, with what they changed. */
const entriesOf = Effect.fnUntraced(function* (entityType: string, entityId: number) {
  const service = yield* TestService
  const listed = yield* service.call("GET", `/api/audit-logs?entityType=${entityType}&entityId=${entityId}&limit=200`)
  const entries: ReadonlyArray<Entry> = listed.body.items.toReversed()
  return yield* Effect.forEach(entries, ({ actionType, id }) =>
    Effect.map(service.call("GET", `/api/audit-logs/${id}`), ({ body }) => ({ actionType, changes: body.changes }))
  )
})

const statuses = (answers: ReadonlyArray<Answer>): Readonly<Record<number, number>> =>
  Object.fromEntries(
    Object.entries(Object.groupBy(answers, ({ status }) => status)).map(([k, v]) => [k, v?.length ?? 0])
  )

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("trial users changed at once", (it) => {
  it.effect("fifty creates of one address in different case: one is made, with one entry", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const answers = yield* Effect.forEach(
        Array.range(1, 50),
        (n) => service.call("POST", "/api/trial-users", { body: person(cased(n)) }),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(statuses(answers), { 201: 1, 409: 49 })
      for (const answer of answers) if (answer.status === 409) assertProblem(answer, 409, "email-already-registered")
      const made = answers.find(({ status }) => status === 201)
      const found = yield* service.call("GET", "/api/trial-users/by-email/CROWD@EXAMPLE.COM")
      assert.deepStrictEqual(found.body, made?.body)
      const log = yield* service.call("GET", `/api/audit-logs?actionType=UserCreated&entityId=${made?.body.id}`)
      assert.lengthOf(log.body.items, 1)
    })
  )

  it.effect("many patches of one user: none is lost, and the entries tell them in their order", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const id = yield* create("patched@example.com")
      const answers = yield* Effect.forEach(
        Array.range(1, 30),
        (n) =>
          service.call("PATCH", `/api/trial-users/${id}`, {
            body: n % 2 === 0 ? { firstName: `First ${n}` } : { lastName: `Last ${n}` }
          }),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(statuses(answers), { 200: 30 })
      const entries = yield* entriesOf("TrialUser", id)
      assert.lengthOf(entries, 31)
      // Moments may be equal, so the chain is followed by what each change found.
      const changes = entries.filter(({ actionType }) => actionType === "UserUpdated").map((entry) => entry.changes)
      const next = new Map(changes.map((change) => [JSON.stringify(change.before), change.after]))
      let last = entries.find(({ actionType }) => actionType === "UserCreated")?.changes.after
      for (let followed = 0; followed < 30; followed++) last = next.get(JSON.stringify(last))
      assert.deepStrictEqual(last, (yield* service.call("GET", `/api/trial-users/${id}`)).body)
    })
  )

  it.effect("patches and deletes of one user: deleted once, then gone for everybody", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const id = yield* create("deleted@example.com")
      const path = `/api/trial-users/${id}`
      const answers = yield* Effect.forEach(
        Array.range(1, 30),
        (n) =>
          n % 5 === 0 ? service.call("DELETE", path) : service.call("PATCH", path, { body: { firstName: `${n}` } }),
        { concurrency: "unbounded" }
      )
      const deletes = answers.filter((_, at) => (at + 1) % 5 === 0)
      const patches = answers.filter((_, at) => (at + 1) % 5 !== 0)
      assert.deepStrictEqual(statuses(deletes), { 204: 1, 404: 5 })
      for (const { status } of patches) assert.include([200, 404], status)
      assertProblem(yield* service.call("GET", path), 404, "trial-user-not-found")
      const actions = (yield* entriesOf("TrialUser", id)).map(({ actionType }) => actionType)
      const patched = patches.filter(({ status }) => status === 200).length
      assert.lengthOf(actions, patched + 2)
      assert.lengthOf(
        actions.filter((action) => action === "UserDeleted"),
        1
      )
    })
  )

  it.effect("two users who want one address: one gets it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const ids = [yield* create("left@example.com"), yield* create("right@example.com")]
      const answers = yield* Effect.forEach(
        ids,
        (id) => service.call("PATCH", `/api/trial-users/${id}`, { body: { email: "Middle@example.com" } }),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(statuses(answers), { 200: 1, 409: 1 })
    })
  )
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "sessions of a user who leaves",
  (it) => {
    const leave = {
      deactivated: (service: TestService["Service"], id: number) =>
        service.call("PATCH", `/api/trial-users/${id}`, { body: { isActive: false } }),
      deleted: (service: TestService["Service"], id: number) => service.call("DELETE", `/api/trial-users/${id}`)
    }

    for (const [how, leaves] of Object.entries(leave)) {
      it.effect(`${how} while sessions are opened: none stays active, over ten rounds`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          for (const round of Array.range(1, 10)) {
            const id = yield* create(`${how}-${round}@example.com`)
            const opening = Array.makeBy(6, () => open(service, id))
            const answers = yield* Effect.all([...opening.slice(0, 3), leaves(service, id), ...opening.slice(3)], {
              concurrency: "unbounded"
            })
            const opened = answers.filter(({ status }) => status === 201)
            const active = yield* service.call("GET", `/api/sessions?userId=${id}&active=true`)
            assert.deepStrictEqual(active.body, [], `round ${round}`)
            const all = yield* service.call("GET", `/api/sessions?userId=${id}`)
            assert.lengthOf(all.body, opened.length)
            for (const { body } of opened) {
              const actions = (yield* entriesOf("Session", body.id)).map(({ actionType }) => actionType)
              assert.deepStrictEqual(actions, ["SessionStarted", "SessionEnded"])
            }
          }
        })
      )

      it.effect(`${how}: the sessions end in the same transaction, so nobody sees one without the other`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const id = yield* create(`together-${how}@example.com`)
          const { body: session } = yield* open(service, id)
          const left = yield* asSuperuser(service.database, (sql) =>
            Effect.gen(function* () {
              const leaving = yield* sql.withTransaction(
                Effect.gen(function* () {
                  yield* sql`SELECT FROM sessions WHERE id = ${session.id} FOR UPDATE`
                  const leaving = yield* Effect.forkChild(leaves(service, id), { startImmediately: true })
                  yield* untilBlocked(sql)
                  const user = yield* service.call("GET", `/api/trial-users/${id}`)
                  assert.isTrue(user.body.isActive)
                  assert.isTrue((yield* service.call("GET", `/api/sessions/${session.id}`)).body.isActive)
                  return leaving
                })
              )
              return yield* Fiber.join(leaving)
            })
          )
          assert.include([200, 204], left.status)
          assert.isFalse((yield* service.call("GET", `/api/sessions/${session.id}`)).body.isActive)
        })
      )
    }
  }
)
