import { assert, describe, it, layer } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import * as jose from "jose"
import { isDue } from "../../../src/audit/chain/checkpoints.ts"
import { untilAllLinked, writeEntries } from "../../support/chain.ts"
import { faultPaths } from "../../support/problem.ts"
import { type Answer, serviceLayer, startService, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"
import { walkCursors } from "../../support/walk.ts"

const path = "/api/audit-logs/checkpoints"

interface Checkpoint {
  readonly sequence: number
  readonly hash: string
  readonly signedAt: string
  readonly keyId: string
  readonly jws: string
}

const at = (text: string) => DateTime.makeUnsafe(`2026-01-31T${text}Z`)

describe("a checkpoint", () => {
  const now = DateTime.makeUnsafe("2026-01-31T12:00:00Z")
  it.each([
    ["the first links", { sequence: 0, signedAt: null }, 1, true],
    ["no link yet", { sequence: 0, signedAt: null }, 0, false],
    ["999 links", { sequence: 5000, signedAt: at("11:59:59") }, 5999, false],
    ["1,000 links", { sequence: 5000, signedAt: at("11:59:59") }, 6000, true],
    ["an hour with links", { sequence: 5000, signedAt: at("11:00:00") }, 5002, true],
    ["almost an hour", { sequence: 5000, signedAt: at("11:00:01") }, 5999, false],
    ["an hour that the clock went back", { sequence: 5000, signedAt: at("13:00:00") }, 5002, true],
    ["a minute that the clock went back", { sequence: 5000, signedAt: at("12:01:00") }, 5002, false],
    ["an hour with its own entry alone", { sequence: 5000, signedAt: at("01:00:00") }, 5001, false],
    ["an hour with nothing", { sequence: 5000, signedAt: at("01:00:00") }, 5000, false]
  ] as const)("after %s", (_, last, head, due) => {
    assert.strictEqual(isDue(last, head, now), due)
  })
})

const list = Effect.gen(function* () {
  const { call } = yield* TestService
  const answer = yield* call("GET", `${path}?limit=200`)
  assert.strictEqual(answer.status, 200, answer.text)
  return answer.body.items as ReadonlyArray<Checkpoint>
})

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("checkpoints over HTTP", (it) => {
  it.effect("are signed every thousand entries, and are entries themselves", () =>
    Effect.gen(function* () {
      const { call, database } = yield* TestService
      yield* asSuperuser(database, (sql) => writeEntries(sql, 5200))
      const found = yield* eventually(list, (items) => (items[0]?.sequence ?? 0) >= 5000)
      yield* untilAllLinked(database)
      const sequences = found.map(({ sequence }) => sequence)
      assert.deepStrictEqual(
        sequences,
        sequences.toSorted((a, b) => b - a)
      )
      for (const [index, sequence] of sequences.entries()) assert.isAtMost(sequence - (sequences[index + 1] ?? 0), 1000)
      const entries = yield* call("GET", "/api/audit-logs?actionType=AuditCheckpointSigned&limit=200")
      for (const checkpoint of found) {
        const entry = entries.body.items.find(
          (one: { entityId: string }) => one.entityId === String(checkpoint.sequence)
        )
        assert.deepInclude(entry, { entityType: "AuditCheckpoint", userId: "system", outcome: "success" })
        const { changes } = (yield* call("GET", `/api/audit-logs/${entry.id}`)).body
        assert.deepStrictEqual(changes.after, checkpoint)
      }
    })
  )

  it.effect("are verified with the public keys, which need no credential", () =>
    Effect.gen(function* () {
      const { call } = yield* TestService
      const keys = yield* call("GET", "/.well-known/attestation-keys.json", { key: null })
      assert.strictEqual(keys.status, 200)
      for (const one of keys.body.keys) {
        assert.hasAllKeys(one, ["kty", "crv", "x", "kid", "alg", "use"])
        assert.strictEqual(one.kid, yield* Effect.promise(() => jose.calculateJwkThumbprint(one)))
      }
      const [checkpoint] = yield* eventually(list, (items) => items.length > 0)
      assert.isDefined(checkpoint)
      const { payload, protectedHeader } = yield* Effect.promise(() =>
        jose.compactVerify(checkpoint?.jws ?? "", jose.createLocalJWKSet(keys.body))
      )
      const { jws: _jws, keyId, ...signed } = checkpoint ?? assert.fail()
      assert.deepInclude(protectedHeader, { alg: "EdDSA", kid: keyId, typ: "application-manager-audit-checkpoint" })
      assert.deepStrictEqual(JSON.parse(new TextDecoder().decode(payload)), signed)
    })
  )

  it.effect("are listed by pages, the newest first", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const all = (yield* list).map(({ sequence }) => sequence)
      const pages: Array<number> = []
      for (let next: string | null = ""; next !== null;) {
        const answer: Answer = yield* service.call("GET", `${path}?limit=2${next === "" ? "" : `&cursor=${next}`}`)
        pages.push(...answer.body.items.map(({ sequence }: Checkpoint) => sequence))
        next = answer.body.nextCursor
      }
      assert.deepStrictEqual(pages, all)
      assert.deepStrictEqual(faultPaths(yield* service.call("GET", `${path}?limit=201&cursor=x`)), [
        "query.limit",
        "query.cursor"
      ])
      assert.isNotEmpty(yield* walkCursors(service, "/api/audit-logs?limit=200"))
    })
  )

  it.effect("one key signs for all replicas, and no private half is anywhere to be read", () =>
    Effect.gen(function* () {
      const { database } = yield* TestService
      yield* startService(database)
      const rows = yield* asSuperuser(
        database,
        (sql) => sql<{ readonly text: string }>`
          SELECT k::text || encode(k.sealed_private_key, 'escape') AS text FROM attestation_keys k ORDER BY purpose`
      )
      const purposes = yield* asSuperuser(
        database,
        (sql) => sql<{ readonly purpose: string }>`
        SELECT purpose FROM attestation_keys WHERE purpose NOT LIKE '%token%'`
      )
      assert.lengthOf(purposes, 1)
      for (const { text } of rows) assert.notMatch(text, /PRIVATE KEY|"d"/)
    })
  )
})
