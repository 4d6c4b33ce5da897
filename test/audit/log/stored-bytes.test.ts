import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { storedColumns, type StoredEntry } from "../../../src/audit/chain/chain-repository.ts"
import { canonicalEntry } from "../../../src/audit/chain/link.ts"
import { AuditRepository, type AuditRow } from "../../../src/audit/log/repository.ts"
import { canonicalJson } from "../../../src/kernel/json/canonical-json.ts"
import { Database } from "../../../src/platform/database/database.ts"
import { OwnDatabase, poolOnOwnDatabase } from "../../support/clock.ts"
import { asSuperuser } from "../../support/statements.ts"

// What PostgreSQL keeps of text: no NUL, no lone surrogate.
const StoredText = Schema.String.pipe(
  Schema.check(Schema.makeFilter((text: string) => text.isWellFormed() && !text.includes("\0")))
)
const isStored = (value: Schema.Json): boolean => {
  const text = JSON.stringify(value)
  return text.isWellFormed() && !text.includes("\\u0000") && !text.includes("\\ud")
}
const Members = Schema.Record(Schema.String, Schema.Json).pipe(Schema.check(Schema.makeFilter(isStored)))

const Drafted = Schema.Struct({
  entityId: Schema.NullOr(StoredText),
  userAgent: Schema.NullOr(StoredText),
  reason: Schema.NullOr(StoredText),
  before: Schema.NullOr(Members),
  after: Schema.NullOr(Members),
  micros: Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 4_102_444_800_000_000 }))),
  count: Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 })))
})

const timeOf = (micros: number): string => {
  const fraction = String(micros % 1000).padStart(3, "0")
  return new Date(Math.floor(micros / 1000)).toISOString().replace("Z", `${fraction}Z`)
}

/** Settings of a session that change how PostgreSQL writes values. */
const sessions = [
  {},
  { TimeZone: "Pacific/Auckland", DateStyle: "SQL, DMY", IntervalStyle: "iso_8601", extra_float_digits: "-15" },
  { TimeZone: "America/St_Johns", DateStyle: "German", bytea_output: "escape", lc_numeric: "C", xmlbinary: "hex" }
]

layer(Layer.provideMerge(AuditRepository.layer, poolOnOwnDatabase), { timeout: "60 seconds" })(
  "what is kept of an entry",
  (it) => {
    let made = 0

    it.effect.prop("is read back byte for byte, whatever the settings of the session", [Drafted], ([draft]) =>
      Effect.gen(function* () {
        const repository = yield* AuditRepository
        const database = yield* Database
        const userId = `reader ${++made}`
        const row: AuditRow = {
          occurred_at: timeOf(draft.micros),
          action_type: "UserUpdated",
          entity_type: "TrialUser",
          entity_id: draft.entityId,
          user_id: userId,
          actor_type: "system",
          tenant_id: null,
          application_id: 7,
          outcome: "success",
          reason: draft.reason,
          count: draft.count,
          ip_address: null,
          user_agent: draft.userAgent,
          trace_id: null,
          changes: { before: draft.before, after: draft.after }
        }
        yield* database.transaction("all", repository.insert([row]))
        const texts: Array<string> = []
        for (const settings of sessions) {
          const entry: StoredEntry | undefined = yield* asSuperuser(yield* OwnDatabase, (sql) =>
            Effect.gen(function* () {
              for (const [name, value] of Object.entries(settings)) {
                yield* sql`SELECT set_config(${name}, ${value}, false)`
              }
              const [found] = yield* sql`
                SELECT ${sql.literal(storedColumns)} FROM audit_entries e WHERE user_id = ${userId}`.values
              return found
            })
          )
          texts.push(canonicalEntry(entry ?? [], 42))
        }
        const { id, ...members } = JSON.parse(texts[0] ?? "")
        assert.isString(id)
        assert.deepStrictEqual(
          texts,
          Array.from(sessions, () => texts[0])
        )
        assert.strictEqual(canonicalJson(texts[0] ?? ""), texts[0])
        assert.deepStrictEqual(members, {
          actionType: row.action_type,
          actorType: row.actor_type,
          applicationId: 7,
          changes: JSON.parse(JSON.stringify(row.changes)),
          count: row.count,
          entityId: row.entity_id,
          entityType: row.entity_type,
          ipAddress: null,
          occurredAt: row.occurred_at,
          outcome: row.outcome,
          reason: row.reason,
          sequence: 42,
          tenantId: null,
          traceId: null,
          userAgent: row.user_agent,
          userId
        })
      })
    )
  }
)
