import { assert, describe, it } from "@effect/vitest"
import { Cause, Context, Effect, Exit, Layer, Logger } from "effect"
import { UsageExportRepository } from "../../../src/insights/usage-export/repository.ts"
import { makeStorage } from "../../../src/insights/usage-export/storage.ts"
import { Usage } from "../../../src/insights/usage/service.ts"
import { Database, poolLayer } from "../../../src/platform/database/database.ts"
import { OutboundHttp } from "../../../src/platform/outbound/outbound-http.ts"
import { requireServable, Settings, settingsFrom } from "../../../src/platform/settings/settings.ts"
import { makeTenant } from "../../support/authority.ts"
import { makeDatabase, type TestDatabase } from "../../support/database.ts"
import { writeUsage } from "../../support/insights.ts"
import { bucket, exportTo, type ObjectStorage, type Refusal, startStorage } from "../../support/object-storage.ts"
import { startServer, startService, type TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { exportState, forgiveClaims, retryNow, untilExported } from "../../support/usage-export.ts"
import { eventually, untilBlocked } from "../../support/waiting.ts"

const checkOf = (service: TestService["Service"]) =>
  Effect.map(service.call("GET", "/api/dashboard/health"), ({ body }) =>
    body.checks.find(({ name }: { readonly name: string }) => name === "usage-export")
  )

const untilDegraded = (service: TestService["Service"], detail: RegExp) =>
  eventually(checkOf(service), (check) => check?.status === "Degraded" && detail.test(check.detail))

const setting = (environment: (storage: ObjectStorage) => Record<string, string> = exportTo) =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    const tenantId = yield* makeTenant(database)
    const storage = yield* startStorage
    const service = yield* startService(database, environment(storage))
    const write = (...costs: ReadonlyArray<number>) =>
      writeUsage(
        database,
        tenantId,
        costs.map((cost) => ({ at: "2026-03-01T10:00:00Z", cost }))
      )
    return { database, tenantId, storage, service, write }
  })

/** Uploads again at once, however long the pause after the failures is. */
const untilExportedSoon = (database: TestDatabase, storage: ObjectStorage, rows: number) =>
  Effect.andThen(
    eventually(Effect.andThen(forgiveClaims(database), exportState(database)), (state) => state?.rows === String(rows)),
    untilExported(database, storage, rows)
  )

const now = () => new Date(Date.now() - 20 * 60_000).toUTCString()

describe("what the storage refuses is named with its setting, and comes when it is mended", () => {
  it.live.each<readonly [Refusal, RegExp]>([
    [{ status: 403, code: "AccessDenied" }, /s3:PutObject on warehouse\/usage\/\*/],
    [{ status: 404, code: "NoSuchBucket" }, /bucket warehouse does not exist.*Usage:Export:Bucket/],
    [{ status: 403, code: "InvalidAccessKeyId" }, /Usage:Export:AccessKeyId/],
    [{ status: 403, code: "SignatureDoesNotMatch" }, /Usage:Export:SecretAccessKey/],
    [
      { status: 403, code: "RequestTimeTooSkewed", headers: { date: now() } },
      /clock of this host.*by 1[2-4]\d\d seconds/
    ],
    [
      { status: 301, code: "PermanentRedirect", headers: { "x-amz-bucket-region": "eu-west-9" } },
      /eu-west-9.*Usage:Export:Region/
    ],
    [{ status: 503, code: "SlowDown" }, /503 SlowDown/],
    [{ status: 500, code: "" }, /500/]
  ])("%o", ([refusal, detail]) =>
    Effect.gen(function* () {
      const { database, service, storage, write } = yield* setting()
      storage.refusal = refusal
      yield* write(1, 2)
      const check = yield* untilDegraded(service, detail)
      assert.match(check.detail, /^2 rows wait in files/)
      storage.refusal = undefined
      yield* write(3)
      yield* untilExportedSoon(database, storage, 3)
      assert.strictEqual((yield* checkOf(service)).status, "Healthy")
    }).pipe(Effect.scoped)
  )

  it.live.each([
    ["Usage__Export__AccessKeyId", "AKIDOTHER", /Usage:Export:AccessKeyId/],
    ["Usage__Export__SecretAccessKey", "other", /Usage:Export:SecretAccessKey/],
    ["Usage__Export__Region", "us-east-1", /in the region eu-test-1: correct Usage:Export:Region/],
    ["Usage__Export__Bucket", "gone", /The bucket gone does not exist/],
    [
      "Usage__Export__Endpoint",
      "http://127.0.0.1:9",
      /cannot be reached.*http:\/\/127\.0\.0\.1:9, Usage:Export:Endpoint/
    ]
  ] as const)("a wrong %s", ([name, value, detail]) =>
    Effect.gen(function* () {
      const { database, service, storage, write } = yield* setting((storage) => ({
        ...exportTo(storage),
        [name]: value
      }))
      yield* write(1)
      yield* untilDegraded(service, detail)
      yield* startService(database, exportTo(storage))
      yield* untilExportedSoon(database, storage, 1)
    }).pipe(Effect.scoped)
  )
})

describe("the settings of the export", () => {
  it.live("put the bucket into the host, and any prefix before the path", () =>
    Effect.gen(function* () {
      const storage = yield* startStorage
      const { usage } = yield* settingsFrom({
        environment: {
          ...exportTo(storage),
          Usage__Export__Endpoint: storage.url.replace("127.0.0.1", "localhost"),
          Usage__Export__Addressing: "virtual-host",
          Usage__Export__Prefix: "/a b/(c)é+=*/"
        }
      })
      const http = yield* OutboundHttp
      const { put } = yield* makeStorage(usage.export).pipe(
        // Name servers need not know the names below localhost.
        Effect.provideService(OutboundHttp, {
          send: (request) => {
            const { host } = new URL(request.url)
            const url = request.url.replace(`${bucket}.localhost`, "127.0.0.1")
            return http.send({ ...request, url, headers: { ...request.headers, host } })
          }
        })
      )
      yield* put("v1/file", "application/gzip", Buffer.from([1]))
      assert.match(storage.puts[0]?.host ?? "", /^warehouse\.localhost:/)
      assert.deepStrictEqual([...storage.objects.keys()], ["warehouse/a b/(c)é+=*/v1/file"])
    }).pipe(Effect.provide(OutboundHttp.layer), Effect.scoped)
  )

  it.effect("a bucket without a key is refused", () =>
    Effect.gen(function* () {
      const exit = yield* requireServable.pipe(
        Effect.provide(Settings.layerMemory({ environment: { Usage__Export__Bucket: "warehouse" } })),
        Effect.exit
      )
      const text = Exit.isFailure(exit) ? Cause.pretty(exit.cause) : ""
      assert.match(text, /Usage:Export:AccessKeyId/)
      assert.match(text, /Usage:Export:SecretAccessKey/)
    })
  )

  it.live("without a bucket nothing is kept for an export, and no check speaks of one", () =>
    Effect.gen(function* () {
      const { database, service, storage, write } = yield* setting(() => ({}))
      yield* write(1)
      assert.isUndefined(yield* exportState(database))
      assert.isUndefined(yield* checkOf(service))
      assert.isEmpty(storage.puts)
    }).pipe(Effect.scoped)
  )

  it.live("an export that no setting configures goes on collecting, until one ends it", () =>
    Effect.gen(function* () {
      const { database, storage, write } = yield* setting(() => ({}))
      yield* Effect.scoped(
        Effect.andThen(
          startService(database, exportTo(storage)),
          eventually(exportState(database), (state) => state !== undefined)
        )
      )
      const service = yield* startService(database)
      yield* write(1)
      yield* untilDegraded(service, /Usage:Export:Bucket.*Usage:Export:Stop/)
      assert.strictEqual((yield* exportState(database))?.queued, "1")
      yield* startService(database, { ...exportTo(storage), Usage__Export__Stop: "true" })
      yield* eventually(exportState(database), (state) => state === undefined)
      assert.isUndefined(yield* checkOf(service))
      assert.isEmpty(storage.puts)
      // A replica with the settings of before, which is yet to be replaced, starts none.
      yield* asSuperuser(database, (sql) => sql`SELECT usage_export_start(now() - interval '1 hour')`)
      assert.isUndefined(yield* exportState(database))
      // Another one has all that is kept.
      yield* startService(database, exportTo(storage))
      yield* untilExported(database, storage, 1)
    }).pipe(Effect.scoped)
  )
})

describe("retention", () => {
  it.live("drops no month that is not exported yet", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const tenantId = yield* makeTenant(database)
      const storage = yield* startStorage
      storage.refusal = { status: 503, code: "SlowDown" }
      // The export has begun before, or the retention of the start might come first.
      yield* asSuperuser(
        database,
        (sql) => sql`SELECT usage_make_partitions('2026-01-15', 2), usage_export_start(now())`
      )
      yield* writeUsage(database, tenantId, [{ at: "2026-01-31T23:59:59.999Z", cost: 5 }])
      const { context } = yield* startServer(database, { ...exportTo(storage), Usage__RetentionDays: "30" })
      yield* eventually(exportState(database), (state) => state?.failure !== null && state?.open === "1")
      assert.deepStrictEqual(
        (yield* Context.get(context, Usage).retire).filter((month) => month === "2026_01"),
        []
      )
      storage.refusal = undefined
      yield* untilExportedSoon(database, storage, 1)
      assert.include(yield* Context.get(context, Usage).retire, "2026_01")
    }).pipe(Effect.scoped)
  )
})

describe("a connection that breaks while rows of a file are read", () => {
  it.live("fails this upload alone", () =>
    Effect.gen(function* () {
      const { database, storage, write } = yield* setting()
      storage.refusal = { status: 503, code: "SlowDown" }
      yield* write(1, 2)
      yield* eventually(exportState(database), (state) => state?.open === "1" && state.failure !== null)
      storage.refusal = undefined
      yield* asSuperuser(database, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`LOCK TABLE usage_rows`
            yield* forgiveClaims(database)
            yield* untilBlocked(sql)
            yield* sql`
              SELECT pg_terminate_backend(pid) FROM pg_stat_activity
              WHERE datname = current_database() AND wait_event_type = 'Lock'`
          })
        )
      )
      yield* untilExportedSoon(database, storage, 2)
    }).pipe(Effect.scoped)
  )
})

describe("rows that were deleted behind the export", () => {
  it.live("are not exported as if they had never been", () =>
    Effect.gen(function* () {
      const { database, service, storage, write } = yield* setting()
      storage.refusal = { status: 503, code: "SlowDown" }
      yield* write(1, 2)
      yield* eventually(exportState(database), (state) => state?.open === "1" && state.failure !== null)
      yield* asSuperuser(database, (sql) => sql`DELETE FROM usage_rows WHERE cost = 2`)
      storage.refusal = undefined
      yield* eventually(
        Effect.andThen(forgiveClaims(database), exportState(database)),
        (state) => state?.failure?.startsWith("Rows of file") === true
      )
      yield* untilDegraded(service, /Rows of file \d+ were deleted or changed: it was to have 2/)
      assert.strictEqual(storage.objects.size, 0)
      // Files behind it do not wait for it.
      yield* write(3, 4, 5)
      yield* eventually(Effect.andThen(retryNow(database), exportState(database)), (state) => state?.rows === "3")
      assert.strictEqual((yield* exportState(database))?.open, "1")
    }).pipe(Effect.scoped)
  )
})

it.live("a replica that wakes up behind the others finds no rows of its file, and changes nothing", () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    const tenantId = yield* makeTenant(database)
    const storage = yield* startStorage
    yield* asSuperuser(database, (sql) => sql`SELECT usage_make_partitions('2026-01-15', 1), usage_export_start(now())`)
    yield* writeUsage(database, tenantId, [{ at: "2026-01-10T10:00:00Z", cost: 5 }])
    const context = yield* Layer.build(
      UsageExportRepository.layer.pipe(
        Layer.provideMerge(poolLayer({ connection: database, maxConnections: 2, statementTimeoutSeconds: 30 }))
      )
    )
    const repository = Context.get(context, UsageExportRepository)
    const all = <A>(effect: Effect.Effect<A>) => Context.get(context, Database).transaction("all", effect)
    yield* all(Effect.repeat(repository.queueHistory, { while: (hasMore) => hasMore }))
    yield* all(repository.decide(10))
    const file = (yield* repository.claim(600)) ?? assert.fail("no file")
    assert.isUndefined(yield* repository.claim(600))
    assert.lengthOf(yield* all(repository.lines(file.number, 1, 1)), 1)
    yield* startService(database, exportTo(storage))
    yield* untilExportedSoon(database, storage, 1)
    const before = yield* exportState(database)
    const dropped = yield* asSuperuser(
      database,
      (sql) => sql<{ readonly months: ReadonlyArray<string> }>`SELECT usage_drop_months(30, now()) AS months`
    )
    assert.include(dropped[0]?.months ?? [], "2026_01")
    assert.isEmpty(yield* all(repository.lines(file.number, 1, 1)))
    assert.isFalse(yield* repository.isOpen(file.number))
    assert.isUndefined(yield* repository.fail(file.number, "late"))
    yield* repository.finish(file.number)
    assert.deepStrictEqual(yield* exportState(database), before)
  }).pipe(Effect.scoped)
)

it.live("no secret is in what the export logs", () =>
  Effect.gen(function* () {
    const logged: Array<string> = []
    const logger = Logger.make(({ cause, message }) => void logged.push(String(message), Cause.pretty(cause)))
    const database = yield* makeDatabase
    const tenantId = yield* makeTenant(database)
    const storage = yield* startStorage
    storage.refusal = { status: 403, code: "SignatureDoesNotMatch", more: "<StringToSign>AWS4</StringToSign>" }
    yield* startService(database, exportTo(storage), [logger])
    yield* writeUsage(database, tenantId, [{ at: "2026-03-01T10:00:00Z", cost: 1 }])
    const text = yield* eventually(
      Effect.sync(() => logged.join("\n")),
      (text) => text.includes("Usage:Export:SecretAccessKey")
    )
    for (const secret of [exportTo(storage)["Usage__Export__SecretAccessKey"] ?? "", "StringToSign", "Signature="]) {
      assert.notInclude(text, secret)
    }
    assert.include(text, bucket.length > 0 ? "export usage" : "")
  }).pipe(Effect.scoped)
)
