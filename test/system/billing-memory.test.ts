import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import * as crypto from "node:crypto"
import { makeTenant } from "../support/authority.ts"
import { makeDatabase } from "../support/database.ts"
import { kill, startReplica } from "../support/replica.ts"
import { serviceKey } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"

const lines = 1_000_000
/** A report of a million lines is several times as long. */
const heapMegabytes = 128

it.live(`a signed report of ${lines} lines needs no more than ${heapMegabytes} MB of heap`, () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    const tenantId = yield* makeTenant(database)
    yield* asSuperuser(
      database,
      (sql) => sql`
        INSERT INTO usage_rows (tenant_id, charge_id, reservation_id, occurred_at, batch, cost, method, created_by, model,
          provider, task_type, user_id)
        SELECT ${tenantId}::uuid, new_id(), new_id(), '2026-03-01'::timestamptz + i * interval '1 second', 0, i, 'reported',
          'test', 'gpt-5', 'openai', 'research', 'user-' || i % 1000
        FROM generate_series(1, ${lines}::integer) i`
    )
    const replica = yield* startReplica(database, { NODE_OPTIONS: `--max-old-space-size=${heapMegabytes}` })
    yield* Effect.addFinalizer(() => kill(replica))
    const found = yield* Effect.promise(async () => {
      const answer = await fetch(`${replica.url}/api/insights/billing-report`, {
        method: "POST",
        headers: { "x-api-key": serviceKey, "content-type": "application/json" },
        body: JSON.stringify({
          from: "2026-02-01T00:00:00Z",
          to: "2026-04-01T00:00:00Z",
          tenantId,
          format: "csv",
          sign: true
        })
      })
      assert.strictEqual(answer.status, 200)
      const digest = crypto.createHash("sha256")
      let count = 0
      let bytes = 0
      for await (const chunk of answer.body as unknown as AsyncIterable<Uint8Array>) {
        digest.update(chunk)
        bytes += chunk.byteLength
        for (const byte of chunk) if (byte === 10) count++
      }
      const link = /^<(.+)>/.exec(answer.headers.get("link") ?? "")?.[1] ?? ""
      const statement = await fetch(`${replica.url}${link}`, { headers: { "x-api-key": serviceKey } })
      const { payload } = (await statement.json()) as { readonly payload: string }
      const { subject } = JSON.parse(Buffer.from(payload, "base64").toString())
      return { count, bytes, isSigned: subject[0].digest.sha256 === digest.digest("hex") }
    })
    assert.strictEqual(found.count, lines + 1)
    assert.isAbove(found.bytes, heapMegabytes * 1_000_000)
    assert.isTrue(found.isSigned)
  }).pipe(Effect.scoped)
)
