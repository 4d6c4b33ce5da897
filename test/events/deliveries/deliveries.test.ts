import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer } from "effect"
import { createHmac } from "node:crypto"
import { AuditFeed } from "../../../src/audit/feed/feed.ts"
import { FeedRepository } from "../../../src/audit/feed/repository.ts"
import { Audit } from "../../../src/audit/log/service.ts"
import { Ledger } from "../../../src/budgets/ledger/service.ts"
import { ReservationService } from "../../../src/budgets/reservations/service.ts"
import { EventIngestion } from "../../../src/events/cloud-events/ingestion.ts"
import { redactedUrl, retryPauseMillis, retryPausesMillis } from "../../../src/events/deliveries/domain.ts"
import { DeliveryRepository } from "../../../src/events/deliveries/repository.ts"
import { deliveryRequest } from "../../../src/events/deliveries/request.ts"
import { Deliveries } from "../../../src/events/deliveries/service.ts"
import { TargetRepository } from "../../../src/events/deliveries/target-repository.ts"
import { CurrentPrincipal, serviceAccount } from "../../../src/kernel/authority/principal.ts"
import { TenantId } from "../../../src/kernel/identifier.ts"
import { Sealing } from "../../../src/platform/crypto/sealing.ts"
import { Database } from "../../../src/platform/database/database.ts"
import { OutboundHttp } from "../../../src/platform/outbound/outbound-http.ts"
import { Settings } from "../../../src/platform/settings/settings.ts"
import { makeTenant } from "../../support/authority.ts"
import { HandClock, OwnDatabase, poolOnOwnDatabase } from "../../support/clock.ts"
import { type TestDatabase } from "../../support/database.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually, untilBlocked } from "../../support/waiting.ts"

describe("retries", () => {
  it("follow the schedule of Standard Webhooks with jitter, and end", () => {
    const [second, minute, hour] = [1000, 60_000, 3_600_000]
    assert.deepStrictEqual(retryPausesMillis, [
      5 * second!,
      5 * minute!,
      30 * minute!,
      2 * hour!,
      5 * hour!,
      10 * hour!,
      14 * hour!,
      20 * hour!,
      24 * hour!
    ])
    assert.deepStrictEqual([retryPauseMillis(1, 0), retryPauseMillis(1, 1)], [5000, 5500])
    assert.strictEqual(retryPauseMillis(9, 0), 24 * hour!)
    assert.isNull(retryPauseMillis(10, 0))
  })
})

const messageOf = (more: object) => {
  const event = {
    specversion: "1.0",
    id: "1",
    source: "https://shop.example",
    type: "com.example.x",
    ...more
  } as const
  return JSON.parse(String(deliveryRequest({ kind: "slack", config: {} }, [], "m", event, 0).body))
}

describe("a message for Slack", () => {
  it("says the same in a line and in blocks", () => {
    const message = messageOf({ subject: "order/7", time: "2026-01-01T00:00:00Z", authid: "service-account" })
    assert.deepStrictEqual(message, {
      text: "com.example.x: order/7 by service-account",
      blocks: [
        { type: "header", text: { type: "plain_text", text: "com.example.x", emoji: false } },
        { type: "section", text: { type: "plain_text", text: "order/7", emoji: false } },
        {
          type: "context",
          elements: [
            {
              type: "plain_text",
              text: "2026-01-01T00:00:00Z by service-account from https://shop.example",
              emoji: false
            }
          ]
        }
      ]
    })
  })

  it("has no control characters of Slack and no text longer than Slack takes, whatever a sender writes", () => {
    const message = messageOf({ subject: "<!channel>&".repeat(5000), type: "<".repeat(255) })
    assert.notMatch(JSON.stringify(message), /[<>]|&(?!amp;|lt;|gt;)/)
    const [header, section, context] = message.blocks
    assert.isAtMost(message.text.length, 3001)
    assert.isAtMost(header.text.text.length, 150)
    assert.isAtMost(section.text.text.length, 3000)
    assert.isAtMost(context.elements[0].text.length, 2000)
  })
})

const inBinaryMode = (more: object) => {
  const event = { specversion: "1.0", id: "1", source: "/x", type: "com.example.x", data: { a: 1 }, ...more } as const
  return deliveryRequest({ kind: "subscription", config: { contentMode: "binary" } }, [], "m", event, 0)
}

describe("the binary mode", () => {
  it("has attributes in headers, in which no sender starts another one", () => {
    const { body, headers } = inBinaryMode({ subject: 'a b\r\nX-Forged: "1" ä%', myext: 7 })
    assert.deepStrictEqual(JSON.parse(String(body)), { a: 1 })
    assert.strictEqual(headers["ce-subject"], "a%20b%0D%0AX-Forged:%20%221%22%20%C3%A4%25")
    assert.strictEqual(headers["ce-myext"], "7")
    for (const value of Object.values(headers)) assert.match(value, /^[\x20-\x7e]*$/)
  })

  it.each(["application/json-seq", "text/plain; format=json", "application/vnd.example.json"])(
    "sends text of type %s, which is no JSON, as it is",
    (datacontenttype) => {
      const { body, headers } = inBinaryMode({ datacontenttype, data: "\u001e{}" })
      assert.deepStrictEqual([body, headers["content-type"]], ["\u001e{}", datacontenttype])
    }
  )

  it.each([
    ["attributes that no server takes as headers", { myext: "x".repeat(10_000) }],
    ["a media type that is no header", { datacontenttype: "text/plain\r\nX-Forged: 1", data: "text" }],
    ["bytes without a type", { data: undefined, data_base64: "AA==" }],
    ["no bytes of JSON", { data: undefined, data_base64: "", datacontenttype: "application/json" }],
    ["an object that is called text", { datacontenttype: "text/plain" }],
    ["text in another encoding", { datacontenttype: "text/xml; charset=iso-8859-1", data: "<a>ä</a>" }],
    ["JSON in another encoding", { datacontenttype: 'application/json; charset="utf-16"' }],
    ["the type of data that is not there", { data: undefined, datacontenttype: "application/json" }]
  ])("becomes the structured mode for %s", (_, more) => {
    const { body, headers } = inBinaryMode(more)
    assert.strictEqual(headers["content-type"], "application/cloudevents+json; charset=utf-8")
    assert.deepInclude(JSON.parse(String(body)), JSON.parse(JSON.stringify(more)))
  })
})

it.each([
  ["application/octet-stream", "AP+AQQ=="],
  ["image/png", "iVBORw0KGgo="],
  ["text/plain; charset=iso-8859-1", "5A=="],
  ["application/octet-stream", ""],
  ["application/json", "eyJhIjoxfQ=="]
])(
  "data in base64 of type %s are the bytes of the body in the binary mode, which are signed",
  (datacontenttype, base64) => {
    const secret = `whsec_${Buffer.from("a secret of 24 bytes or so").toString("base64")}`
    const event = {
      specversion: "1.0",
      id: "1",
      source: "/x",
      type: "com.example.x",
      datacontenttype,
      data_base64: base64
    }
    const target = { kind: "subscription", config: { contentMode: "binary" } } as const
    const { body, headers } = deliveryRequest(target, [secret], "m", event as never, 1_000_000)
    assert.strictEqual(headers["content-type"], datacontenttype)
    assert.notProperty(headers, "ce-data_base64")
    assert.strictEqual(headers["ce-id"], "1")
    const bytes = Buffer.from(base64, "base64")
    assert.deepStrictEqual(Buffer.from(body as Uint8Array), bytes)
    const key = Buffer.from(secret.slice("whsec_".length), "base64")
    const signature = createHmac("sha256", key)
      .update(Buffer.concat([Buffer.from("m.1000."), bytes]))
      .digest("base64")
    assert.strictEqual(headers["webhook-signature"], `v1,${signature}`)
  }
)

it("an event without data has no body in the binary mode, and so no type of one", () => {
  const { body, headers } = inBinaryMode({ data: undefined })
  assert.strictEqual(body, "")
  assert.notProperty(headers, "content-type")
  assert.strictEqual(headers["ce-type"], "com.example.x")
  assert.strictEqual(inBinaryMode({ data: null }).body, "null")
})

it.each([
  ["https://hooks.slack.com/services/T0/B0/secret", "slack", "https://hooks.slack.com/********"],
  ["https://crm.example/hook?key=secret&x=1", "webhook", "https://crm.example/hook?********"],
  ["https://crm.example/hook", "cloudevents", "https://crm.example/hook"]
] as const)("%s of a target of kind %s is %s in an audit entry", (url, kind, shown) => {
  assert.strictEqual(redactedUrl(url, kind), shown)
})

/** A receiver that never succeeds, and when it was asked. */
const asked: Array<number> = []
/** How many requests there were to receivers that never succeed, never answer and answer at once. */
const begun = new Map<string, number>()
const failingReceiver = Layer.effect(
  OutboundHttp,
  Effect.map(HandClock, (hand) =>
    OutboundHttp.of({
      send: ({ url }) =>
        Effect.suspend(() => {
          const { hostname } = new URL(url)
          const [manner = ""] = hostname.split("-")
          begun.set(manner, (begun.get(manner) ?? 0) + 1)
          if (manner === "slow") return Effect.never
          if (manner !== "quick") asked.push(hand.millis)
          return Effect.succeed({ status: manner === "quick" ? 204 : 503, headers: {}, text: "", isCut: false })
        })
    })
  )
)

/** How long an entry takes to be filtered, on the clock of the tests. */
let filteringMillis = 0
const feed = Layer.unwrap(
  Effect.gen(function* () {
    const database = yield* Database
    const repository = yield* FeedRepository
    const hand = yield* HandClock
    return Layer.mock(AuditFeed)({
      between: (after, upTo) =>
        Effect.map(database.transaction("all", repository.between(after, upTo, {})), (entries) =>
          entries.map(
            (entry) =>
              new Proxy(entry, {
                get: (target, member) => {
                  if (member === "tenantId") hand.millis += filteringMillis
                  return Reflect.get(target, member)
                }
              })
          )
        )
    })
  })
).pipe(Layer.provide(FeedRepository.layer))

const ServicesLayer = Layer.merge(Deliveries.layerNoDeps, EventIngestion.layer).pipe(
  Layer.provide([
    Audit.layer,
    Layer.mock(Ledger)({ enqueueSettlement: () => {} }),
    Layer.mock(ReservationService)({}),
    DeliveryRepository.layer,
    TargetRepository.layer,
    failingReceiver,
    feed,
    Layer.mock(Sealing)({}),
    Settings.layerMemory({ environment: { Audit__RetentionDays: "40" } })
  ]),
  Layer.provideMerge(poolOnOwnDatabase),
  Layer.provideMerge(HandClock.layer)
)

layer(ServicesLayer, { excludeTestServices: true, timeout: "60 seconds" })("a delivery that fails", (it) => {
  it.effect("is attempted when its pauses are over and not before, and then is over itself", () =>
    Effect.gen(function* () {
      const deliveries = yield* Deliveries
      const database = yield* OwnDatabase
      yield* HandClock.setTime("2090-01-01T00:00:00Z")
      yield* asSuperuser(
        database,
        (sql) =>
          sql`
          WITH entry AS (
            INSERT INTO audit_entries (occurred_at, action_type, entity_type, user_id, actor_type, outcome)
            VALUES (now(), 'UserCreated', 'TrialUser', 'system', 'system', 'success') RETURNING id, occurred_at
          ), target AS (
            INSERT INTO event_targets (id, kind, name, url, event_types, filters, config, status, after_sequence,
              created_at, created_by, updated_at)
            VALUES (gen_random_uuid(), 'webhook', 'never', 'https://never.invalid', '{*}', '[]', '{}', 'active', 0,
              now(), 'system', now())
            RETURNING id
          ), delivery AS (
            INSERT INTO event_deliveries (target_id, entry_id, occurred_at, sequence, type, status, due_at, created_at)
            SELECT target.id, entry.id, entry.occurred_at, 1, 'com.application-manager.trial-user.created', 'pending',
              now(), now() FROM entry, target
          )
          UPDATE event_dispatch SET revision = revision + 1`
      )
      const waiting = yield* deliveries.backlog
      assert.deepInclude(waiting, { due: 1, failingTargets: 0, undispatchedSeconds: 0 })
      assert.isAbove(waiting.dueSeconds, 86_400)
      yield* deliveries.pass
      assert.lengthOf(asked, 1)
      assert.deepStrictEqual(yield* deliveries.backlog, {
        due: 0,
        dueSeconds: 0,
        failingTargets: 1,
        undispatchedSeconds: 0
      })
      for (const [index, pause] of retryPausesMillis.entries()) {
        yield* HandClock.adjust(pause - 1)
        yield* deliveries.pass
        assert.lengthOf(asked, index + 1, `too early after ${index + 1} attempts`)
        yield* HandClock.adjust(pause * 0.1 + 1)
        yield* deliveries.pass
        assert.lengthOf(asked, index + 2, `late after ${index + 1} attempts`)
      }
      const stored = yield* asSuperuser(
        database,
        (sql) => sql<{ readonly status: string; readonly attempts: ReadonlyArray<unknown> }>`
          SELECT status, attempts FROM event_deliveries`
      )
      assert.deepStrictEqual([stored[0]?.status, stored[0]?.attempts.length], ["failed", 10])
      yield* HandClock.adjust(86_400_000)
      yield* deliveries.pass
      assert.lengthOf(asked, 10)
    })
  )
})

layer(ServicesLayer, { excludeTestServices: true, timeout: "60 seconds" })("many slow receivers", (it) => {
  it.effect("leave attempts to those that are quick, and to those of other tenants, however many they are", () =>
    Effect.gen(function* () {
      const deliveries = yield* Deliveries
      const database = yield* OwnDatabase
      begun.clear()
      const add = (manner: string, targets: number, each: number, tenant?: string) =>
        asSuperuser(
          database,
          (sql) => sql`
            WITH entry AS (
              INSERT INTO audit_entries (occurred_at, action_type, entity_type, user_id, actor_type, outcome)
              VALUES (now(), 'UserCreated', 'TrialUser', 'system', 'system', 'success') RETURNING id, occurred_at
            ), target AS (
              INSERT INTO event_targets (id, tenant_id, kind, name, url, event_types, filters, config, status, after_sequence,
                created_at, created_by, updated_at)
              SELECT gen_random_uuid(), ${tenant ?? null}::uuid, 'webhook', 'n', ${`https://${manner}-`} || n || '.invalid', '{*}', '[]', '{}',
                'active', 0, now(), 'system', now() FROM generate_series(1, ${targets}::integer) n
              RETURNING id
            ), delivery AS (
              INSERT INTO event_deliveries (target_id, entry_id, occurred_at, sequence, type, status, due_at, created_at)
              SELECT target.id, entry.id, entry.occurred_at, 1, 'com.application-manager.trial-user.created', 'pending',
                '-infinity', now() FROM entry, target, generate_series(1, ${each}::integer)
            )
            UPDATE event_dispatch SET revision = revision + 1`
        )
      yield* add("quick", 1, 50)
      yield* deliveries.pass
      assert.deepStrictEqual([...begun], [["quick", 4]])
      yield* add("slow", 20, 10)
      yield* Effect.forkChild(deliveries.pass)
      const started = () => [begun.get("quick"), begun.get("slow")]
      yield* eventually(Effect.sync(started), ([quick, slow]) => quick === 36 && slow === 16)
      yield* Effect.forkChild(deliveries.pass)
      yield* eventually(Effect.sync(started), ([quick]) => quick === 50)
      assert.deepStrictEqual(started(), [50, 16])
      const [tenant] = yield* asSuperuser(
        database,
        (sql) => sql<{ readonly id: string }>`SELECT id FROM tenants LIMIT 1`
      )
      yield* add("slow", 20, 10, tenant?.id)
      yield* Effect.forkChild(deliveries.pass)
      yield* eventually(Effect.sync(started), ([, slow]) => slow === 32)
      yield* Effect.forkChild(deliveries.pass)
      assert.deepStrictEqual(started(), [50, 32])
    })
  )
})

/** Entries that are linked but not dispatched, targets that want all of them, and how many deliveries a statement may make. */
const waiting = (database: TestDatabase, entries: number, targets: number, maximum = 1_000_000) =>
  asSuperuser(database, (sql) =>
    Effect.gen(function* () {
      yield* sql`
        WITH entry AS (
          INSERT INTO audit_entries (occurred_at, action_type, entity_type, user_id, actor_type, outcome)
          SELECT now(), 'UserCreated', 'TrialUser', 'system', 'system', 'success'
          FROM generate_series(1, ${entries}::integer) RETURNING id, occurred_at
        ), link AS (
          INSERT INTO audit_links SELECT row_number() OVER (), id, occurred_at, sha256('x'), sha256('y') FROM entry
        ), target AS (
          INSERT INTO event_targets (id, kind, name, url, event_types, filters, config, status, after_sequence, created_at,
            created_by, updated_at)
          SELECT gen_random_uuid(), 'webhook', 'n', 'https://quick-.invalid', '{*}', '[]', '{}', 'active', 0, now(),
            'system', now() FROM generate_series(1, ${targets}::integer)
        ), dispatch AS (
          UPDATE event_dispatch SET revision = revision + 1
        )
        UPDATE audit_chain SET sequence = ${entries}`
      yield* sql`CREATE TABLE made (deliveries integer)`
      yield* sql`
        CREATE FUNCTION note_made() RETURNS trigger SECURITY DEFINER LANGUAGE plpgsql AS $$ BEGIN
          INSERT INTO public.made SELECT count(*) FROM new_deliveries;
          IF (SELECT count(*) FROM new_deliveries) > ${sql.literal(String(maximum))} THEN
            RAISE EXCEPTION 'too many';
          END IF;
          RETURN NULL;
        END $$`
      yield* sql`
        CREATE TRIGGER note_made AFTER INSERT ON event_deliveries REFERENCING NEW TABLE AS new_deliveries
        FOR EACH STATEMENT EXECUTE FUNCTION note_made()`
    })
  )
/** How many deliveries each dispatch made. */
const made = (database: TestDatabase) =>
  Effect.map(
    asSuperuser(database, (sql) => sql<{ readonly deliveries: number }>`SELECT deliveries FROM made`),
    (rows) => rows.map(({ deliveries }) => deliveries)
  )

layer(ServicesLayer, { excludeTestServices: true, timeout: "60 seconds" })("events of many targets", (it) => {
  it.effect("are dispatched in transactions of about ten thousand deliveries", () =>
    Effect.gen(function* () {
      const database = yield* OwnDatabase
      yield* waiting(database, 90, 300)
      yield* Effect.flatMap(Deliveries, ({ pass }) => pass)
      assert.deepStrictEqual(yield* made(database), [34 * 300, 34 * 300, 22 * 300])
    })
  )
})

layer(ServicesLayer, { excludeTestServices: true, timeout: "60 seconds" })("events whose filters take long", (it) => {
  it.effect("are dispatched a few at a time", () =>
    Effect.gen(function* () {
      const database = yield* OwnDatabase
      yield* waiting(database, 7, 1)
      filteringMillis = 10
      yield* Effect.flatMap(Deliveries, ({ pass }) => pass)
      filteringMillis = 0
      assert.deepStrictEqual(yield* made(database), [3, 3, 1])
    })
  )
})

layer(ServicesLayer, { excludeTestServices: true, timeout: "60 seconds" })("a dispatch that fails", (it) => {
  it.effect("is followed by smaller ones, which end in time", () =>
    Effect.gen(function* () {
      const database = yield* OwnDatabase
      const { pass } = yield* Deliveries
      yield* waiting(database, 40, 3, 30)
      const passes = yield* Effect.forEach([1, 2, 3], () => Effect.exit(pass))
      assert.deepStrictEqual(passes.map(Exit.isSuccess), [false, false, true])
      assert.deepStrictEqual(yield* made(database), [3, 6, 12, 24, 3, 6, 12, 24, 30])
    })
  )
})

layer(ServicesLayer, { excludeTestServices: true, timeout: "60 seconds" })("events that were received", (it) => {
  it.effect("are known for as long as retention keeps their month, and one replica forgets them", () =>
    Effect.gen(function* () {
      const ingestion = yield* EventIngestion
      const database = yield* OwnDatabase
      yield* HandClock.setTime("2026-03-20T00:00:00Z")
      yield* asSuperuser(
        database,
        (sql) => sql`
          INSERT INTO received_events (tenant_id, digest, received_at)
          SELECT NULL, sha256(n::text::bytea), CASE WHEN n <= 6000 THEN '2026-01-31T23:59:59Z' ELSE '2026-02-01' END
            ::timestamptz FROM generate_series(1, 6001) n`
      )
      const known = Effect.map(
        asSuperuser(
          database,
          (sql) => sql<{ readonly count: number }>`
          SELECT count(*)::integer AS count FROM received_events`
        ),
        ([row]) => row?.count
      )
      yield* asSuperuser(database, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`SELECT pg_advisory_xact_lock(hashtext('received-events'))`
            yield* ingestion.forget
          })
        )
      )
      assert.strictEqual(yield* known, 6001)
      yield* ingestion.forget
      assert.strictEqual(yield* known, 1)
    })
  )

  it.effect("are taken one batch of a tenant at a time, and single ones beside it", () =>
    Effect.gen(function* () {
      const ingestion = yield* EventIngestion
      const database = yield* OwnDatabase
      const tenantId = TenantId.make(yield* makeTenant(database))
      const publish = (...ids: ReadonlyArray<string>) => {
        const events = ids.map((id) => ({
          specversion: "1.0",
          id,
          source: "https://shop.example",
          type: "com.example.x"
        }))
        const headers = { "content-type": "application/cloudevents-batch+json" }
        return ingestion
          .publish({ headers, bytes: new TextEncoder().encode(JSON.stringify(events)) })
          .pipe(Effect.provideService(CurrentPrincipal, { ...serviceAccount, tenantId }))
      }
      const published = yield* asSuperuser(database, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`LOCK TABLE received_events IN EXCLUSIVE MODE`
            const all = Effect.all(
              [publish("1", "2"), publish("3", "4"), publish("5", "6"), publish("7"), publish("8")],
              { concurrency: "unbounded" }
            )
            const publishing = yield* Effect.forkDetach(all, { startImmediately: true })
            yield* untilBlocked(sql, 3)
            const connections = yield* sql<{ readonly count: number }>`
              SELECT count(*)::integer AS count FROM pg_stat_activity
              WHERE datname = current_database() AND application_name = 'application-manager' AND state <> 'idle'`
            assert.strictEqual(connections[0]?.count, 3)
            return publishing
          })
        )
      )
      assert.deepStrictEqual(
        (yield* Fiber.join(published)).map(({ accepted }) => accepted),
        [2, 2, 2, 1, 1]
      )
    })
  )
})
