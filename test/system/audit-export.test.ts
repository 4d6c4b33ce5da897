import { assert, describe, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import * as fs from "node:fs"
import * as fsPromises from "node:fs/promises"
import * as path from "node:path"
import { pipeline } from "node:stream/promises"
import { auditVerify } from "../support/audit-verify.ts"
import { isLinux, makeDirectory } from "../support/embedded-postgres.ts"
import { type ServiceProcess, startProcess } from "../support/service-process.ts"
import { serviceKey } from "../support/service.ts"
import { asSuperuser, countOf } from "../support/statements.ts"

const entries = 1_000_000
const atOnce = 50_000
const mebibyte = 2 ** 20

const write = (service: ServiceProcess) =>
  asSuperuser(service.database, (sql) =>
    sql`
      INSERT INTO audit_entries (occurred_at, action_type, entity_type, entity_id, user_id, actor_type, outcome, ip_address,
        user_agent, trace_id, changes, transaction_id)
      SELECT clock_timestamp(), 'UserUpdated', 'TrialUser', i::text, 'service-account', 'service-account', 'success',
        '203.0.113.7', 'system-test', md5(i::text), jsonb_build_object('before', jsonb_build_object('number', i),
          'after', jsonb_build_object('number', i + 1)), pg_current_xact_id()
      FROM generate_series(1, ${atOnce}::integer) i`.pipe(Effect.repeat({ times: entries / atOnce - 1 }))
  )

/** The most memory that a process has had since {@link forgetPeak}, in MiB; what is shared with files is left out. */
const peakOf = (pid: number) =>
  Effect.promise(async () => {
    const status = await fsPromises.readFile(`/proc/${pid}/status`, "utf8")
    return (Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024) / mebibyte
  })
const forgetPeak = (pid: number) => Effect.promise(() => fsPromises.writeFile(`/proc/${pid}/clear_refs`, "5"))

const open = (service: ServiceProcess) =>
  Effect.promise(async (signal) => {
    const response = await fetch(`${service.url}/api/audit-logs/export`, {
      signal,
      headers: { "x-api-key": serviceKey }
    })
    assert.strictEqual(response.status, 200)
    return response.body ?? assert.fail("no body")
  })

const save = (service: ServiceProcess, file: string) =>
  Effect.flatMap(open(service), (body) => Effect.promise(() => pipeline(body, fs.createWriteStream(file))))

describe("an export of 1,000,000 entries", () => {
  it.live.runIf(isLinux)("takes memory that does not grow with it, and is proven without a database", () =>
    Effect.gen(function* () {
      const directory = yield* makeDirectory()
      const service = yield* startProcess(directory)
      yield* write(service)
      yield* countOf(service.database, "audit_links").pipe(
        Effect.repeat({ until: (links) => links >= entries, schedule: Schedule.spaced("1 second") })
      )

      // Once before, for what any export makes.
      const file = path.join(directory, "export.jsonl")
      yield* save(service, file)
      yield* forgetPeak(service.pid)
      const before = yield* peakOf(service.pid)
      yield* save(service, file)
      const after = yield* peakOf(service.pid)
      const size = (yield* Effect.promise(() => fsPromises.stat(file))).size / mebibyte
      assert.isAbove(size, 500)
      assert.isBelow(after - before, 150, `${before.toFixed(0)} MiB before, ${after.toFixed(0)} at most`)

      // Clients that ask and do not read are no more of a burden, and in nobody's way.
      yield* forgetPeak(service.pid)
      const idle = yield* peakOf(service.pid)
      yield* Effect.forEach(Array.from({ length: 10 }), () => open(service))
      yield* asSuperuser(service.database, (sql) =>
        sql<{ readonly busy: number }>`
          SELECT count(*)::integer AS busy FROM pg_stat_activity
          WHERE application_name = 'application-manager' AND state <> 'idle'`.pipe(
          Effect.repeat({ until: ([row]) => row?.busy === 0, schedule: Schedule.spaced("100 millis") })
        )
      )
      assert.isBelow((yield* peakOf(service.pid)) - idle, 250)
      assert.strictEqual((yield* service.call("GET", "/api/audit-logs?limit=1")).status, 200)

      const keys = path.join(directory, "keys.json")
      const published = yield* service.call("GET", "/.well-known/attestation-keys.json")
      yield* Effect.promise(() => fsPromises.writeFile(keys, published.text))
      const { code, output } = yield* auditVerify([file, "--keys", keys])
      assert.strictEqual(code, 0, output)
      assert.match(output, /: 1,00\d,\d{3} entries, sequences 1 to \d+\n/)
    }).pipe(Effect.scoped)
  )
})
