import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Layer, Schema, Struct } from "effect"
import { TestClock } from "effect/testing"
import { Audit } from "../../../src/audit/log/service.ts"
import { Email } from "../../../src/kernel/email.ts"
import { Settings } from "../../../src/platform/settings/settings.ts"
import { TrialSessionTermination } from "../../../src/trials/sessions/termination.ts"
import { TrialUser } from "../../../src/trials/users/domain.ts"
import { TrialUsers } from "../../../src/trials/users/service.ts"
import { OwnDatabase, poolOnOwnDatabase, realClock } from "../../support/clock.ts"
import { quietAuthority } from "../../support/quiet-authority.ts"
import { asSuperuser } from "../../support/statements.ts"

const servicesLayer = (environment: Record<string, string> = {}) =>
  TrialUsers.layer.pipe(
    Layer.provide(Layer.provideMerge(TrialSessionTermination.layer, Audit.layer).pipe(Layer.provide(realClock))),
    Layer.provide(quietAuthority),
    Layer.provideMerge(poolOnOwnDatabase),
    Layer.provide(Settings.layerMemory({ environment }))
  )

const person = (email: string) => ({ firstName: "Ada", lastName: "Lovelace", email: Email.make(email) })
/** Addresses of every sort of character. */
const Address = Schema.String.pipe(
  Schema.check(
    Schema.isPattern(
      /^[A-Za-z0-9ÄßİıΣम!#$%&'*+/=?^_`{|}~-]{1,20}(?:\.[A-Za-z0-9]{1,4})?@[A-Za-z0-9]{1,10}\.[A-Za-z]{2,5}$/
    )
  )
)
const Input = Schema.Struct({
  firstName: TrialUser.jsonCreate.fields.firstName,
  lastName: TrialUser.jsonCreate.fields.lastName,
  organization: TrialUser.jsonCreate.fields.organization,
  email: Address
})
const at = (text: string) => TestClock.setTime(DateTime.makeUnsafe(text).epochMilliseconds)
const encoded = Schema.encodeSync(TrialUser.json)

layer(servicesLayer(), { timeout: "60 seconds" })("trial users on PostgreSQL", (it) => {
  it.effect("a trial starts now and ends 30 days later", () =>
    Effect.gen(function* () {
      const users = yield* TrialUsers
      yield* at("2028-02-10T12:34:56.789Z")
      const user = encoded(yield* users.create(person("leap@example.com")))
      assert.deepInclude(user, {
        createdAt: "2028-02-10T12:34:56.789Z",
        trialStartDate: "2028-02-10T12:34:56.789Z",
        trialEndDate: "2028-03-11T12:34:56.789Z"
      })
    })
  )

  it.effect("a change leaves createdAt and the dates of the trial, however late it comes", () =>
    Effect.gen(function* () {
      const users = yield* TrialUsers
      yield* at("2028-03-01T00:00:00Z")
      const user = yield* users.create(person("late@example.com"))
      yield* TestClock.adjust("400 days")
      const updated = yield* users.update(user.id, { firstName: "Augusta" })
      assert.deepStrictEqual(encoded(updated), { ...encoded(user), firstName: "Augusta" })
    })
  )

  it.effect("entries of the audit log carry the moment of the change", () =>
    Effect.gen(function* () {
      const users = yield* TrialUsers
      const database = yield* OwnDatabase
      yield* at("2028-04-01T00:00:00Z")
      const user = yield* users.create(person("stamped@example.com"))
      yield* TestClock.adjust("1 hour")
      yield* users.update(user.id, { lastName: "King" })
      yield* TestClock.adjust("1 hour")
      yield* users.delete(user.id)
      const entries = yield* asSuperuser(
        database,
        (sql) => sql<{ readonly action_type: string; readonly occurred_at: Date }>`
          SELECT action_type, occurred_at FROM audit_entries WHERE entity_id = ${String(user.id)} ORDER BY occurred_at`
      )
      assert.deepStrictEqual(
        entries.map((entry) => [entry.action_type, entry.occurred_at.toISOString()]),
        [
          ["UserCreated", "2028-04-01T00:00:00.000Z"],
          ["UserUpdated", "2028-04-01T01:00:00.000Z"],
          ["UserDeleted", "2028-04-01T02:00:00.000Z"]
        ]
      )
    })
  )

  it.effect.prop(
    "what the database returns is what was sent, and the address is found in any case",
    [Input],
    ([input]) =>
      Effect.gen(function* () {
        const users = yield* TrialUsers
        const created = yield* users.create(input).pipe(Effect.catchTag("EmailTaken", () => Effect.undefined))
        if (created === undefined) return
        assert.deepInclude(encoded(created), Struct.omit(input, ["organization"]))
        assert.deepStrictEqual(yield* users.get(created.id), created)
        assert.deepStrictEqual(yield* users.getByEmail(input.email), created)
        yield* users.delete(created.id)
      }),
    { arbitrary: { runs: 100 }, timeout: 20_000 }
  )
})

layer(servicesLayer({ TrialUsers__TrialDays: "7" }), { timeout: "60 seconds" })("TrialUsers:TrialDays", (it) => {
  it.effect("says after how many days a trial ends", () =>
    Effect.gen(function* () {
      const users = yield* TrialUsers
      yield* at("2028-02-25T00:00:00Z")
      const user = yield* users.create(person("week@example.com"))
      assert.strictEqual(DateTime.formatIso(user.trialEndDate), "2028-03-03T00:00:00.000Z")
    })
  )
})
