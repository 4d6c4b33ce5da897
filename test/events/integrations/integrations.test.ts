import { assert, it, layer } from "@effect/vitest"
import { HTTP } from "cloudevents"
import { Effect, Fiber } from "effect"
import { Webhook } from "standardwebhooks"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { makeDatabase } from "../../support/database.ts"
import { assertProblem } from "../../support/problem.ts"
import { each, faults, refuses } from "../../support/scenarios.ts"
import { serviceLayer, startService, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually, untilBlocked } from "../../support/waiting.ts"
import { startReceiver } from "../../support/webhook-receiver.ts"

const path = "/api/integrations"
let made = 0

// oxlint-disable-next-line typescript/no-explicit-any -- answers are looked into
type Members = any
const newUser = () => ({ firstName: "Ada", lastName: "<Love>&", email: `event${++made}@example.com` })

/** A new integration that receives trial users. */
const integrate = Effect.fnUntraced(function* (url: string, more: object = {}, key?: string) {
  const service = yield* TestService
  const answer = yield* service.call("POST", path, {
    ...(key === undefined ? {} : { key }),
    body: { kind: "webhook", name: "Hook", url, eventTypes: ["com.application-manager.trial-user.*"], ...more }
  })
  assert.strictEqual(answer.status, 201, answer.text)
  return answer.body as { readonly id: string; readonly secret: string; readonly tenantId: string | null }
})

const createUser = Effect.fnUntraced(function* () {
  const service = yield* TestService
  const answer = yield* service.call("POST", "/api/trial-users", { body: newUser() })
  assert.strictEqual(answer.status, 201, answer.text)
  return answer.body.id as number
})

const deliveriesOf = Effect.fnUntraced(function* (id: string, isReached: (items: ReadonlyArray<Members>) => boolean) {
  const service = yield* TestService
  return yield* eventually(
    Effect.map(service.call("GET", `${path}/${id}/deliveries`), ({ body }) => body.items as ReadonlyArray<Members>),
    isReached
  )
})

it.live("tests under keys whose receiver does not answer leave connections to others", () =>
  Effect.gen(function* () {
    const service = yield* startService(yield* makeDatabase, {
      Integrations__AllowPrivateAddresses: "true",
      Database__MaxConnections: "6",
      Database__AcquireTimeoutSeconds: "2"
    })
    const receiver = yield* startReceiver
    receiver.isSilent = true
    const made = yield* service.call("POST", path, {
      body: { kind: "webhook", name: "Hook", url: receiver.url, eventTypes: ["none"] }
    })
    const testing = yield* Effect.forEach(
      Array.from({ length: 12 }, (_, index) => `test ${index}`),
      (key) => service.call("POST", `${path}/${made.body.id}/test`, { body: {}, headers: { "idempotency-key": key } }),
      { concurrency: "unbounded" }
    ).pipe(Effect.forkScoped({ startImmediately: true }))
    yield* receiver.until(2)
    for (let times = 0; times < 3; times++) {
      assert.strictEqual((yield* service.call("GET", "/api/trial-users")).status, 200)
    }
    assert.strictEqual((yield* service.call("GET", "/health/ready")).status, 200)
    receiver.release()
    yield* Fiber.interrupt(testing)
  }).pipe(Effect.scoped)
)

const typedAddresses = [
  ["https://bücher.example/häuser?frage=ü", "https://xn--bcher-kva.example/h%C3%A4user?frage=%C3%BC"],
  ["https://例え.テスト/フック", "https://xn--r8jz45g.xn--zckzah/%E3%83%95%E3%83%83%E3%82%AF"],
  ["https://crm.example/hooks/%2F?a=b", "https://crm.example/hooks/%2F?a=b"]
] as const

layer(serviceLayer({ Integrations__AllowPrivateAddresses: "true" }), {
  excludeTestServices: true,
  timeout: 120_000
})("integrations", (it) => {
  it.effect("an address of any letters is kept as browsers write it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const [typed, kept] of typedAddresses) {
        const { id } = yield* integrate(typed)
        assert.strictEqual((yield* service.call("GET", `${path}/${id}`)).body.url, kept)
      }
      const refused = yield* service.call("POST", path, {
        body: { kind: "webhook", name: "Hook", url: "https://bü cher.example/", eventTypes: ["none"] }
      })
      assertProblem(refused, 400, "validation-failed")
    })
  )

  it.effect("a webhook is signed so that the reference library verifies it, and recorded", () =>
    Effect.gen(function* () {
      const receiver = yield* startReceiver
      const { id, secret } = yield* integrate(receiver.url)
      const user = yield* createUser()
      const [hook] = yield* receiver.until(1)
      assert.isDefined(hook)
      const message = new Webhook(secret).verify(hook!.body, hook!.headers) as Members
      assert.strictEqual(message.type, "com.application-manager.trial-user.created")
      assert.strictEqual(message.data.subject, `trial-user/${user}`)
      assert.strictEqual(message.data.id, hook!.headers["webhook-id"])
      assert.strictEqual(message.timestamp, message.data.time)
      assert.strictEqual(message.data.source, "/system")
      assert.match(message.data.sequence, /^\d{20}$/)
      assert.strictEqual(message.data.data.changes.after.lastName, "<Love>&")
      assert.throws(() => new Webhook("whsec_AAAA").verify(hook!.body, hook!.headers))
      const [delivery] = yield* deliveriesOf(id, (items) => items[0]?.status === "delivered")
      assert.strictEqual(delivery.webhookId, message.data.id)
      assert.strictEqual(delivery.nextAttemptAt, null)
      assert.strictEqual(delivery.attempts[0].status, 204)
      // Another type is not delivered.
      assert.deepStrictEqual(receiver.hooks.length, 1)
    })
  )

  it.effect("two events with one id have a `webhook-id` each, in every kind and tenant, retried and replayed too", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const since = new Date(Date.now() - 60_000).toISOString()
      const publish = Effect.fnUntraced(function* (source: string, type: string) {
        const tenantId = yield* makeTenant(service.database)
        const { key } = yield* makeKey(service, ["events:*"], { tenantId })
        const answer = yield* service.call("POST", "/api/cloudevents", {
          key,
          body: ["/shop", "/billing"].map((path) => ({ specversion: "1.0", id: "7 ä", source: source + path, type })),
          headers: { "content-type": "application/cloudevents-batch+json" }
        })
        assert.strictEqual(answer.status, 201, answer.text)
      })
      for (const kind of ["webhook", "cloudevents", "slack"]) {
        const receiver = yield* startReceiver
        const type = `com.example.same-id.${kind}`
        const { id } = yield* integrate(receiver.url, { kind, eventTypes: [type] })
        // Two tenants may have the same pair of source and id, too.
        yield* publish("https://one.example", type)
        yield* publish("https://one.example", type)
        const first = yield* receiver.until(4)
        const ids = first.map(({ headers }) => headers["webhook-id"])
        assert.strictEqual(new Set(ids).size, 4)
        const deliveries = yield* deliveriesOf(id, (items) => items.every(({ status }) => status === "delivered"))
        assert.sameMembers(
          deliveries.map(({ webhookId }) => webhookId),
          ids
        )
        const entries = yield* service.call("GET", "/api/audit-logs?actionType=EventReceived")
        assert.includeMembers(
          entries.body.items.map((entry: { readonly id: string }) => entry.id),
          ids
        )
        const again = yield* service.call("POST", `${path}/${id}/deliveries/${deliveries[0].id}/retry`)
        assert.strictEqual(again.body.webhookId, deliveries[0].webhookId)
        yield* receiver.until(5)
        yield* service.call("POST", `${path}/${id}/replay`, { body: { since } })
        const all = yield* receiver.until(9)
        assert.sameMembers([...new Set(all.map(({ headers }) => headers["webhook-id"]))], ids)
      }
    })
  )

  it.effect("kinds: Slack gets escaped text, CloudEvents the structured mode", () =>
    Effect.gen(function* () {
      const [slack, events] = [yield* startReceiver, yield* startReceiver]
      const { id } = yield* integrate(slack.url, { kind: "slack" })
      yield* integrate(events.url, { kind: "cloudevents" })
      const service = yield* TestService
      const tested = yield* service.call("POST", `${path}/${id}/test`)
      assert.deepStrictEqual([tested.status, tested.body.delivered, tested.body.status], [200, true, 204])
      yield* createUser()
      const [, text] = yield* slack.until(2)
      assert.match(
        JSON.parse(text!.body).text,
        /^com\.application-manager\.trial-user\.created: trial-user\/\d+ by service-account$/
      )
      const [hook] = yield* events.until(1)
      const event = HTTP.toEvent({ headers: hook!.headers, body: hook!.body }) as Members
      assert.strictEqual(event.type, "com.application-manager.trial-user.created")
      assert.strictEqual(event.authid, "service-account")
      assert.strictEqual(event.data.actionType, "UserCreated")
    })
  )

  it.effect("two secrets sign during an overlap, and never three", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const receiver = yield* startReceiver
      const { id, secret: first } = yield* integrate(receiver.url)
      const rotate = (overlapSeconds?: number) =>
        Effect.map(
          service.call("POST", `${path}/${id}/rotate-secret`, {
            body: overlapSeconds === undefined ? {} : { overlapSeconds }
          }),
          ({ body, status, text }) => {
            assert.strictEqual(status, 200, text)
            return body.secret as string
          }
        )
      const verifiers = (secrets: ReadonlyArray<string>) =>
        Effect.gen(function* () {
          receiver.hooks.length = 0
          yield* service.call("POST", `${path}/${id}/test`)
          const [hook] = receiver.hooks
          return secrets.map((secret) => {
            try {
              return new Webhook(secret).verify(hook!.body, hook!.headers) !== undefined
            } catch {
              return false
            }
          })
        })
      const second = yield* rotate()
      assert.deepStrictEqual(yield* verifiers([first, second]), [true, true])
      const third = yield* rotate(60)
      assert.deepStrictEqual(yield* verifiers([first, second, third]), [false, true, true])
      const fourth = yield* rotate(0)
      assert.deepStrictEqual(yield* verifiers([second, third, fourth]), [false, false, true])
      assert.notInclude((yield* service.call("GET", `${path}/${id}`)).text, "whsec_")
    })
  )

  it.effect("409: more integrations and subscriptions than a tenant may have, also when many are made at once", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const [tenantId, other] = [yield* makeTenant(service.database), yield* makeTenant(service.database)]
      const url = "https://receiver.invalid/hook"
      const webhook = (tenant: string) =>
        service.call("POST", path, {
          body: { kind: "webhook", name: "Hook", url, eventTypes: ["none"], tenantId: tenant }
        })
      const subscription = service.call("POST", "/api/cloudevents/subscriptions", { body: { sink: url, tenantId } })
      const first = yield* webhook(tenantId)
      yield* asSuperuser(
        service.database,
        (sql) => sql`
          INSERT INTO event_targets (id, tenant_id, kind, name, url, event_types, filters, config, status, after_sequence,
            created_at, created_by, updated_at)
          SELECT gen_random_uuid(), tenant_id, kind, name, url, event_types, filters, config, 'disabled', after_sequence,
            created_at, created_by, updated_at FROM event_targets, generate_series(1, 97) WHERE id = ${first.body.id}`
      )
      const some = yield* Effect.all([webhook(tenantId), webhook(tenantId), subscription, subscription], {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(some.map(({ status }) => status).toSorted(), [201, 201, 409, 409])
      for (const refused of [yield* webhook(tenantId), yield* subscription]) {
        assertProblem(refused, 409, "too-many-event-targets")
        assert.strictEqual(refused.body.maximum, 100)
      }
      assert.strictEqual((yield* webhook(other)).status, 201)
      assert.strictEqual((yield* service.call("DELETE", `${path}/${first.body.id}`)).status, 204)
      assert.strictEqual((yield* subscription).status, 201)
    })
  )

  it.effect("a change waits for a dispatch under way, which may refer to what is changed", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const receiver = yield* startReceiver
      const { id } = yield* integrate(receiver.url)
      const rotated = yield* asSuperuser(service.database, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`SELECT FROM event_dispatch FOR UPDATE`
            const rotation = yield* Effect.forkChild(service.call("POST", `${path}/${id}/rotate-secret`, { body: {} }))
            yield* untilBlocked(sql)
            yield* sql`
              INSERT INTO event_deliveries (target_id, entry_id, occurred_at, sequence, type, status, due_at, created_at)
              VALUES (${id}, ${id}, now(), 0, 'none', 'delivered', now(), now())`
            return rotation
          })
        )
      )
      const answer = yield* Fiber.join(rotated)
      assert.strictEqual(answer.status, 200, answer.text)
    })
  )

  it.effect("a failed delivery is attempted again; one can be retried and events replayed, with the same id", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const receiver = yield* startReceiver
      receiver.status = 500
      const since = new Date().toISOString()
      const { id } = yield* integrate(receiver.url)
      yield* createUser()
      const [failing] = yield* deliveriesOf(id, (items) => items[0]?.attempts.length === 1)
      assert.strictEqual(failing.status, "pending")
      assert.strictEqual(failing.attempts[0].error, "The server answered 500")
      const pause = Date.parse(failing.nextAttemptAt) - Date.parse(failing.attempts[0].at)
      assert.isAtLeast(pause, 5000)
      assert.isAtMost(pause, 20_000)
      receiver.status = 204
      const retried = yield* service.call("POST", `${path}/${id}/deliveries/${failing.id}/retry`)
      assert.strictEqual(retried.status, 200, retried.text)
      const [delivered] = yield* deliveriesOf(id, (items) => items[0]?.status === "delivered")
      assert.strictEqual(delivered.attempts.length, 2)
      const replayed = yield* service.call("POST", `${path}/${id}/replay`, { body: { since } })
      assert.deepStrictEqual([replayed.status, replayed.body], [200, { deliveries: 1 }])
      const hooks = yield* receiver.until(3)
      assert.strictEqual(new Set(hooks.map(({ headers }) => headers["webhook-id"])).size, 1)
      assert.strictEqual(new Set(hooks.map(({ body }) => body)).size, 1)
    })
  )

  it.effect("a replay and a retry wait for no dispatch, and none waits for them", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const receiver = yield* startReceiver
      const { id } = yield* integrate(receiver.url)
      yield* createUser()
      const [delivery] = yield* deliveriesOf(id, (items) => items[0]?.status === "delivered")
      yield* asSuperuser(service.database, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`SELECT FROM event_dispatch FOR UPDATE`
            yield* sql`SELECT FROM event_targets WHERE id = ${id} FOR KEY SHARE`
            const retried = yield* service.call("POST", `${path}/${id}/deliveries/${delivery.id}/retry`)
            assert.strictEqual(retried.status, 200, retried.text)
            const since = delivery.attempts[0].at.slice(0, 10)
            const replayed = yield* service.call("POST", `${path}/${id}/replay`, {
              body: { since: `${since}T00:00:00Z` }
            })
            assert.strictEqual(replayed.status, 200, replayed.text)
          })
        )
      )
    })
  )

  it.effect("410 disables an integration, and an event tells", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const [receiver, observer] = [yield* startReceiver, yield* startReceiver]
      yield* integrate(observer.url, { eventTypes: ["com.application-manager.integration.disabled"] })
      const { id } = yield* integrate(receiver.url)
      receiver.status = 410
      yield* createUser()
      const [told] = yield* observer.until(1)
      assert.strictEqual(JSON.parse(told!.body).data.subject, `integration/${id}`)
      assert.strictEqual((yield* service.call("GET", `${path}/${id}`)).body.status, "disabled")
    })
  )

  it.effect("ten days of failure disable an integration; a success in between does not", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const receiver = yield* startReceiver
      receiver.status = 503
      const { id } = yield* integrate(receiver.url)
      yield* createUser()
      const [delivery] = yield* deliveriesOf(id, (items) => items[0]?.attempts.length === 1)
      const since = (days: number) =>
        asSuperuser(
          service.database,
          (sql) => sql`UPDATE event_targets SET failing_since = now() - ${days} * interval '1 day' WHERE id = ${id}`
        )
      const retry = service.call("POST", `${path}/${id}/deliveries/${delivery.id}/retry`)
      yield* since(9)
      yield* retry
      yield* deliveriesOf(id, (items) => items[0]?.attempts.length === 2)
      assert.strictEqual((yield* service.call("GET", `${path}/${id}`)).body.status, "active")
      yield* since(10)
      yield* retry
      yield* eventually(service.call("GET", `${path}/${id}`), ({ body }) => body.status === "disabled")
    })
  )

  it.effect("403: whoever may not read events does not have them sent", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const receiver = yield* startReceiver
      const { id } = yield* integrate(receiver.url)
      const { key } = yield* makeKey(service, ["integrations:*", "events:write"])
      const body = { kind: "webhook", name: "Hook", url: receiver.url, eventTypes: ["*"] }
      for (const [method, to, sent] of [
        ["POST", path, body],
        ["PATCH", `${path}/${id}`, { eventTypes: ["*"] }],
        ["POST", `${path}/${id}/replay`, { since: "2026-01-01T00:00:00Z" }],
        ["POST", "/api/cloudevents/subscriptions", { sink: receiver.url }],
        ["PUT", `/api/cloudevents/subscriptions/${id}`, { sink: receiver.url }]
      ] as const) {
        const answer = yield* service.call(method, to, { key, body: sent })
        assertProblem(answer, 403, "forbidden")
        assert.deepStrictEqual(answer.body.missing, ["events:read"])
      }
      assert.strictEqual((yield* service.call("POST", `${path}/${id}/test`, { key })).status, 200)
      assert.strictEqual((yield* service.call("DELETE", `${path}/${id}`, { key })).status, 204)
    })
  )

  it.effect("a tenant gets its own events, an integration for all those of everyone", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const [own, all, other] = [yield* startReceiver, yield* startReceiver, yield* startReceiver]
      const eventTypes = ["com.application-manager.integration.updated"]
      const tenants = [yield* makeTenant(service.database), yield* makeTenant(service.database)]
      const keys = []
      for (const tenantId of tenants) {
        keys.push(
          (yield* makeKey(service, ["integrations:write", "integrations:read", "events:read"], { tenantId })).key
        )
      }
      const { id, tenantId } = yield* integrate(own.url, { eventTypes }, keys[0])
      yield* integrate(other.url, { eventTypes }, keys[1])
      const forAll = yield* integrate(all.url, { eventTypes })
      assert.deepStrictEqual([tenantId, forAll.tenantId], [tenants[0], null])
      const patch = (target: string, key?: string) =>
        service.call("PATCH", `${path}/${target}`, { ...(key && { key }), body: { name: "Renamed" } })
      assert.strictEqual((yield* patch(id, keys[1])).status, 404)
      assert.strictEqual((yield* patch(forAll.id, keys[0])).status, 404)
      for (const [target, key] of [[id, keys[0]], [forAll.id]] as const) {
        assert.strictEqual((yield* patch(target, key)).status, 200)
      }
      const seen = (yield* all.until(2)).map(({ body }) => JSON.parse(body).data.source)
      assert.sameMembers(seen, [`/tenants/${tenants[0]}`, "/system"])
      yield* own.until(1)
      assert.deepStrictEqual([own.hooks.length, other.hooks.length], [1, 0])
    })
  )
})

layer(serviceLayer(), { excludeTestServices: true, timeout: 120_000 })("addresses of integrations", (it) => {
  const unreachable = [
    "http://127.0.0.1/",
    "http://10.0.0.1/hook",
    "http://169.254.169.254/latest/meta-data",
    "http://[::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://2130706433/",
    "http://localhost:80/",
    "https://user:secret@example.com/",
    "ftp://example.com/",
    "no url"
  ]
  refuses(
    it,
    each(unreachable, (url) => [
      `a webhook at ${url}`,
      ["POST", path, { body: { kind: "webhook", name: "n", url, eventTypes: ["*"] } }],
      faults("payload.url")
    ])
  )
})
