import { type PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Fiber, Layer } from "effect"
import { refusesStrangers } from "../../support/authority.ts"
import { tampering, untilAllLinked, writeEntries } from "../../support/chain.ts"
import { makeDatabase, type TestDatabase } from "../../support/database.ts"
import { assertProblem } from "../../support/problem.ts"
import { faults, refuses } from "../../support/scenarios.ts"
import { serviceLayer, startService, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

const path = "/api/audit-logs/verify"
const read = { capability: "audit-logs:read", systemOnly: true }

interface Fault {
  readonly sequence: number | null
  readonly entryId: string | null
  readonly problem: string
  readonly detail: string
}

type Service = TestService["Service"]

/** A service of its own whose log begins with so many entries, all linked. */
const withEntries = Effect.fnUntraced(function* (count: number) {
  const database = yield* makeDatabase
  yield* asSuperuser(database, (sql) => writeEntries(sql, count))
  const service = yield* Effect.orDie(startService(database))
  yield* settled(service)
  return service
})

/** Waits until everything is linked and the first checkpoint, with its own entry, is there. */
const settled = Effect.fnUntraced(function* ({ call, database }: Service) {
  yield* eventually(call("GET", "/api/audit-logs/checkpoints"), (answer) => answer.body.items.length > 0)
  return yield* untilAllLinked(database)
})

const verify = Effect.fnUntraced(function* (service: Service, query = "") {
  const answer = yield* service.call("GET", `${path}${query}`)
  assert.strictEqual(answer.status, 200, answer.text)
  return answer.body
})

/** The id of the entry at a place of the chain. */
const idAt = (database: TestDatabase, sequence: number) =>
  asSuperuser(database, (sql) =>
    Effect.map(
      sql<{ readonly id: string }>`SELECT entry_id AS id FROM audit_links WHERE sequence = ${sequence}`,
      ([row]) => row?.id ?? assert.fail(`nothing is at ${sequence}`)
    )
  )

const entryAt = (sql: PgClient.PgClient, sequence: number) =>
  sql`(SELECT entry_id FROM audit_links WHERE sequence = ${sequence})`

/** Where a log stands before somebody lies about it. */
interface Places {
  readonly head: number
  readonly checkpoint: number
}

/** One way to lie about the log, and what is found of it. */
const lies: ReadonlyArray<{
  readonly what: string
  readonly tell: (sql: PgClient.PgClient, places: Places) => Effect.Effect<unknown, unknown>
  readonly problem: string
  readonly at: number | null | ((places: Places) => number)
}> = [
  ...(
    [
      ["action_type", "'RoleDeleted'"],
      ["actor_type", "'account'"],
      ["application_id", "77"],
      ["changes", "jsonb_set(changes, '{after,number}', '7777')"],
      ["changes", "NULL"],
      ["changes", "changes || '{\"more\": null}'"],
      ["count", "2"],
      ["entity_id", "NULL"],
      ["entity_type", "'Nothing'"],
      ["ip_address", "'192.0.2.1'"],
      ["occurred_at", "occurred_at + interval '1 microsecond'"],
      ["occurred_at", "occurred_at - interval '400 days'"],
      ["outcome", "'denied'"],
      ["reason", "''"],
      ["tenant_id", "new_id()"],
      ["trace_id", "'4bf92f3577b34da6a3ce929d0e0e4736'"],
      ["user_agent", "'curl'"],
      ["user_id", "'account:1'"]
    ] as const
  ).map(([column, value]) => ({
    what: `an entry's ${column} was changed to ${value}`,
    tell: (sql: PgClient.PgClient) =>
      sql`UPDATE audit_entries SET ${sql.literal(`${column} = ${value}`)} WHERE id = ${entryAt(sql, 7)}`,
    problem: "changed",
    at: 7
  })),
  {
    what: "a link's hash was changed",
    tell: (sql) => sql`UPDATE audit_links SET hash = sha256('x') WHERE sequence = 7`,
    problem: "changed",
    at: 7
  },
  {
    what: "a link's previous hash was changed",
    tell: (sql) => sql`UPDATE audit_links SET previous_hash = sha256('x') WHERE sequence = 7`,
    problem: "changed",
    at: 7
  },
  {
    what: "an entry was removed",
    tell: (sql) => sql`DELETE FROM audit_entries WHERE id = ${entryAt(sql, 7)}`,
    problem: "missing",
    at: 7
  },
  {
    what: "an entry was removed with its link",
    tell: (sql) =>
      Effect.andThen(
        sql`DELETE FROM audit_entries WHERE id = ${entryAt(sql, 7)}`,
        sql`DELETE FROM audit_links WHERE sequence = 7`
      ),
    problem: "missing",
    at: 7
  },
  {
    what: "a link was removed",
    tell: (sql) => sql`DELETE FROM audit_links WHERE sequence = 7`,
    problem: "missing",
    at: 7
  },
  {
    what: "several entries were removed with their links, and the others moved up",
    tell: (sql) =>
      Effect.gen(function* () {
        yield* sql`DELETE FROM audit_entries WHERE id IN (SELECT entry_id FROM audit_links WHERE sequence IN (7, 8))`
        yield* sql`DELETE FROM audit_links WHERE sequence IN (7, 8)`
        yield* sql`UPDATE audit_links SET sequence = sequence - 2 WHERE sequence > 8`
      }),
    problem: "changed",
    at: 7
  },
  {
    what: "an entry was put in",
    tell: (sql) => sql`
      INSERT INTO audit_entries (occurred_at, action_type, entity_type, user_id, actor_type, outcome)
      VALUES (now(), 'UserCreated', 'TrialUser', 'system', 'system', 'success')`,
    problem: "inserted",
    at: null
  },
  {
    what: "an entry was put in as one of a transaction to come",
    tell: (sql) => sql`
      INSERT INTO audit_entries (occurred_at, action_type, entity_type, user_id, actor_type, outcome, transaction_id)
      VALUES (now(), 'UserCreated', 'TrialUser', 'system', 'system', 'success', '9000000000000000000')`,
    problem: "inserted",
    at: null
  },
  {
    what: "the beginning was cut off",
    tell: (sql) =>
      Effect.andThen(
        sql`DELETE FROM audit_entries WHERE id IN (SELECT entry_id FROM audit_links WHERE sequence < 4)`,
        sql`DELETE FROM audit_links WHERE sequence < 4`
      ),
    problem: "missing",
    at: 1
  },
  {
    what: "a copy of an entry was put in, with all that is kept of it",
    tell: (sql) => sql`
      INSERT INTO audit_entries SELECT (jsonb_populate_record(e, jsonb_build_object('id', new_id()))).*
      FROM audit_entries e WHERE id = ${entryAt(sql, 7)}`,
    problem: "inserted",
    at: null
  },
  {
    what: "an entry was put in with a link for a place that is taken",
    tell: (sql) => sql`
      WITH lie AS (
        INSERT INTO audit_entries (occurred_at, action_type, entity_type, user_id, actor_type, outcome)
        VALUES (now(), 'UserCreated', 'TrialUser', 'system', 'system', 'success') RETURNING id, occurred_at)
      INSERT INTO audit_links SELECT 7, id, occurred_at, sha256('x'), sha256('y') FROM lie`,
    problem: "inserted",
    at: 7
  },
  {
    what: "an entry was put in with a link behind the head",
    tell: (sql) => sql`
      WITH lie AS (
        INSERT INTO audit_entries (occurred_at, action_type, entity_type, user_id, actor_type, outcome)
        VALUES (now(), 'UserCreated', 'TrialUser', 'system', 'system', 'success') RETURNING id, occurred_at)
      INSERT INTO audit_links
      SELECT c.sequence + 1, lie.id, lie.occurred_at, c.hash, sha256('y') FROM lie, audit_chain c`,
    problem: "inserted",
    at: ({ head }) => head + 1
  },
  {
    what: "what two entries hold was swapped",
    tell: (sql) => sql`
      UPDATE audit_entries a SET entity_id = b.entity_id, changes = b.changes, occurred_at = b.occurred_at
      FROM audit_entries b
      WHERE (a.id, b.id) IN ((${entryAt(sql, 4)}, ${entryAt(sql, 7)}), (${entryAt(sql, 7)}, ${entryAt(sql, 4)}))`,
    problem: "swapped",
    at: 4
  },
  {
    what: "the ids of two entries were swapped",
    tell: (sql) => sql`
      WITH pair AS (SELECT ${entryAt(sql, 4)} AS a, ${entryAt(sql, 7)} AS b), both_rows AS (
        DELETE FROM audit_entries USING pair WHERE id IN (a, b) RETURNING audit_entries.*)
      INSERT INTO audit_entries SELECT (jsonb_populate_record(NULL::audit_entries, to_jsonb(r)
        || jsonb_build_object('id', CASE r.id WHEN pair.a THEN pair.b ELSE pair.a END))).* FROM both_rows r, pair`,
    problem: "swapped",
    at: 4
  },
  {
    what: "the entries of two links were swapped",
    tell: (sql) => sql`
      WITH pair AS (SELECT ${entryAt(sql, 4)} AS a, ${entryAt(sql, 7)} AS b), both_rows AS (
        DELETE FROM audit_links WHERE sequence IN (4, 7) RETURNING *)
      INSERT INTO audit_links
      SELECT sequence, CASE entry_id WHEN pair.a THEN pair.b ELSE pair.a END, occurred_at, previous_hash, hash
      FROM both_rows, pair`,
    problem: "swapped",
    at: 4
  },
  {
    what: "the places of two links were swapped",
    tell: (sql) => sql`
      UPDATE audit_links SET sequence = CASE sequence WHEN 4 THEN 7 ELSE 4 END WHERE sequence IN (4, 7)`,
    problem: "swapped",
    at: 4
  },
  {
    what: "the end was cut off, and the head set back",
    tell: (sql, { checkpoint }) =>
      Effect.gen(function* () {
        const last = checkpoint - 1
        yield* sql`DELETE FROM audit_entries WHERE id IN (SELECT entry_id FROM audit_links WHERE sequence > ${last})`
        yield* sql`DELETE FROM audit_links WHERE sequence > ${last}`
        yield* sql`
          UPDATE audit_chain SET sequence = ${last}, hash = (SELECT hash FROM audit_links WHERE sequence = ${last})`
      }),
    problem: "missing",
    at: ({ checkpoint }) => checkpoint
  },
  {
    what: "the end was cut off, and the head left",
    tell: (sql) =>
      Effect.andThen(
        sql`DELETE FROM audit_entries WHERE id IN (SELECT entry_id FROM audit_links WHERE sequence > 8)`,
        sql`DELETE FROM audit_links WHERE sequence > 8`
      ),
    problem: "missing",
    at: 9
  },
  {
    what: "a checkpoint's signature was changed",
    tell: (sql) => sql`UPDATE audit_checkpoints SET jws = regexp_replace(jws, '\\.[^.]+$', '.' || repeat('A', 86))`,
    problem: "bad-signature",
    at: ({ checkpoint }) => checkpoint
  },
  {
    what: "a checkpoint was moved to another place",
    tell: (sql) => sql`
      UPDATE audit_checkpoints SET sequence = 1, hash = (SELECT hash FROM audit_links WHERE sequence = 1)`,
    problem: "bad-signature",
    at: 1
  },
  {
    what: "the chain was written anew from its beginning",
    tell: (sql) => sql`UPDATE audit_links SET hash = sha256(hash), previous_hash = sha256(previous_hash)`,
    problem: "changed",
    at: 1
  }
]

const logTables = ["audit_entries", "audit_links", "audit_checkpoints", "audit_chain"]

/** A service with a log that many lie about, one after another. */
class LiedAbout extends Context.Service<LiedAbout, Service>()("test/LiedAbout") {
  static readonly layer = (count: number) =>
    Layer.effect(
      LiedAbout,
      Effect.tap(Effect.orDie(withEntries(count)), ({ database }) =>
        tampering(database, (sql) =>
          Effect.forEach(logTables, (table) => sql`CREATE TABLE ${sql(`true_${table}`)} AS TABLE ${sql(table)}`)
        )
      )
    )
}

/** Takes a lie back: the log is what it was before. */
const retract = (database: TestDatabase) =>
  tampering(database, (sql) =>
    sql.withTransaction(
      Effect.forEach(logTables, (table) =>
        Effect.andThen(sql`DELETE FROM ${sql(table)}`, sql`INSERT INTO ${sql(table)} TABLE ${sql(`true_${table}`)}`)
      )
    )
  )

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("verification over HTTP", (it) => {
  refusesStrangers(it, [
    { name: "verify", method: "GET", path, ...read },
    { name: "checkpoints", method: "GET", path: "/api/audit-logs/checkpoints", ...read }
  ])

  it.effect("200: a log that nobody touched is whole, up to its head", () =>
    Effect.gen(function* () {
      const service = yield* withEntries(20)
      const found = yield* verify(service)
      assert.hasAllKeys(found, ["ok", "checked", "firstBad", "head", "checkpoint"])
      assert.deepInclude(found, { ok: true, firstBad: null })
      assert.strictEqual(found.checked, yield* untilAllLinked(service.database))
      assert.strictEqual(found.head.sequence, found.checked)
      assert.match(found.head.hash, /^[0-9a-f]{64}$/)
      assert.hasAllKeys(found.checkpoint, ["sequence", "hash", "signedAt", "keyId"])
    })
  )

  it.effect("200: what a key signed that was compromised since does not count, and is told so", () =>
    Effect.gen(function* () {
      const service = yield* withEntries(20)
      const { checkpoint } = yield* verify(service)
      const { body } = yield* service.call("GET", "/api/attestation/keys")
      const key = body.items.find(({ keyId }: { readonly keyId: string }) => keyId === checkpoint.keyId)
      const ended = { body: { reason: "compromised" } }
      assert.strictEqual((yield* service.call("DELETE", `/api/attestation/keys/${key.id}`, ended)).status, 204)
      const { firstBad } = yield* verify(service)
      assert.strictEqual(firstBad.problem, "bad-signature")
      assert.strictEqual(
        firstBad.detail,
        `The signature of the checkpoint at ${firstBad.sequence} does not count: ` +
          `The key ${key.keyId} was compromised, and nothing that it ever signed counts any more`
      )
    })
  )

  it.effect("200: a range is checked from its first to its last link", () =>
    Effect.gen(function* () {
      const service = yield* withEntries(20)
      const { head } = yield* verify(service)
      const ranges = [
        ["?from=5&to=9", 5],
        ["?to=9", 9],
        ["?from=5", head.sequence - 4],
        ["?from=9&to=5", 0],
        [`?from=${head.sequence + 1}`, 0],
        [`?to=${head.sequence + 100}`, head.sequence]
      ] as const
      for (const [query, checked] of ranges) {
        assert.deepInclude(yield* verify(service, query), { ok: true, checked, firstBad: null, head }, query)
      }
      yield* tampering(service.database, (sql) => sql`UPDATE audit_entries SET count = 2 WHERE id = ${entryAt(sql, 7)}`)
      assert.isTrue((yield* verify(service, "?to=6")).ok)
      assert.isTrue((yield* verify(service, "?from=8")).ok)
      assert.strictEqual((yield* verify(service, "?from=6&to=8")).firstBad.sequence, 7)
    })
  )

  refuses(it, [
    ["bounds that are no sequences are named", ["GET", `${path}?from=0&to=x`], faults("query.from", "query.to")]
  ])

  it.layer(LiedAbout.layer(9), { timeout: "60 seconds" })("of a log that somebody lies about", (it) => {
    for (const { at, problem, tell, what } of lies) {
      it.effect(`200: ${what}: it is found and named`, () =>
        Effect.gen(function* () {
          const service = yield* LiedAbout
          const before = yield* verify(service)
          assert.isTrue(before.ok)
          const places = { head: before.head.sequence, checkpoint: before.checkpoint.sequence }
          const sequence = typeof at === "function" ? at(places) : at
          const entryId = sequence === 7 || sequence === 4 ? yield* idAt(service.database, sequence) : undefined
          yield* Effect.acquireRelease(
            tampering(service.database, (sql) => tell(sql, places)),
            () => Effect.orDie(retract(service.database))
          )
          const found = yield* verify(service)
          assert.isFalse(found.ok)
          const fault: Fault = found.firstBad
          assert.deepInclude(fault, { problem, sequence }, fault.detail)
          if (problem === "changed" && entryId !== undefined && !what.includes("moved up")) {
            assert.strictEqual(fault.entryId, entryId)
          }
          if (sequence === null) assert.isNotNull(fault.entryId)
          assert.isNotEmpty(fault.detail)
        })
      )
    }
  })

  it.effect("200: a key that somebody put into the database signs nothing", () =>
    Effect.gen(function* () {
      const service = yield* withEntries(9)
      yield* tampering(
        service.database,
        (sql) => sql`
          UPDATE attestation_keys SET public_key =
            '{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}'`
      )
      const fresh = yield* startService(service.database)
      assert.strictEqual((yield* verify(fresh)).firstBad.problem, "bad-signature")
    })
  )

  const losses: ReadonlyArray<readonly [string, string, (signed: ReadonlyArray<number>) => number]> = [
    ["the first", "sequence = (SELECT min(sequence) FROM audit_checkpoints)", () => 1],
    ["the last", "sequence = (SELECT max(sequence) FROM audit_checkpoints)", (signed) => (signed.at(-2) ?? 0) + 1],
    ["all", "true", () => 1]
  ]
  it.layer(LiedAbout.layer(2500), { timeout: "60 seconds" })("of a long log", (it) => {
    for (const [what, which, place] of losses) {
      it.effect(`200: ${what} of the checkpoints taken away: it is found`, () =>
        Effect.gen(function* () {
          const service = yield* LiedAbout
          const checkpoints = yield* service.call("GET", "/api/audit-logs/checkpoints")
          const signed = checkpoints.body.items
            .map(({ sequence }: { readonly sequence: number }) => sequence)
            .toReversed()
          assert.deepStrictEqual(signed, [1000, 2000])
          yield* Effect.acquireRelease(
            tampering(service.database, (sql) => sql`DELETE FROM audit_checkpoints WHERE ${sql.literal(which)}`),
            () => Effect.orDie(retract(service.database))
          )
          const { firstBad } = yield* verify(service)
          assert.deepInclude(firstBad, { problem: "missing", sequence: place(signed) }, firstBad?.detail)
        })
      )
    }
  })

  it.effect("200: many at once wait their turn", () =>
    Effect.gen(function* () {
      const service = yield* withEntries(9)
      const found = yield* Effect.forEach(Array.from({ length: 12 }), () => verify(service), {
        concurrency: "unbounded"
      })
      assert.isTrue(found.every(({ ok }) => ok))
    })
  )

  it.effect("200: what is written while it is verified is no fault", () =>
    Effect.gen(function* () {
      const service = yield* withEntries(50)
      const write = asSuperuser(service.database, (sql) => writeEntries(sql, 20))
      const writing = yield* Effect.forkChild(Effect.repeat(write, { times: 20 }))
      for (let round = 0; round < 10; round++) assert.deepInclude(yield* verify(service), { ok: true, firstBad: null })
      yield* Fiber.join(writing)
    })
  )

  it.effect("404 and 403 keep their forms beside the new addresses", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      assertProblem(
        yield* service.call("GET", "/api/audit-logs/0198a5b0-7c00-7000-8000-00000000002a"),
        404,
        "audit-entry-not-found"
      )
    })
  )
})
