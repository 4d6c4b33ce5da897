import { assert, describe, it as test, layer } from "@effect/vitest"
import { CloudEvent as ReferenceEvent, HTTP } from "cloudevents"
import { DateTime, Effect, Layer } from "effect"
import { AuditFeed } from "../../../src/audit/feed/feed.ts"
import { AuditEntry, AuditEntryId } from "../../../src/audit/log/domain.ts"
import {
  type EventsExpired,
  matchesType,
  ownTypes,
  toCloudEvent,
  typeOf
} from "../../../src/events/cloud-events/domain.ts"
import { CloudEvents } from "../../../src/events/cloud-events/service.ts"
import { LiveAuthorization } from "../../../src/platform/http/event-stream.ts"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { listenTo } from "../../support/event-source.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { badQueries, each, faults, problem, refuses, type Sent } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { eventually } from "../../support/waiting.ts"

const path = "/api/cloudevents"
const structured = "application/cloudevents+json"
const batch = "application/cloudevents-batch+json"
let made = 0

// oxlint-disable-next-line typescript/no-explicit-any -- answers are looked into
type Members = any

const entryOf = (actionType: string, entityType: string) =>
  AuditEntry.make({
    id: AuditEntryId.make("0198a5b0-7c00-7000-8000-00000000002a"),
    sequence: 42,
    occurredAt: DateTime.makeUnsafe(0),
    actionType,
    entityType,
    entityId: "7",
    userId: "service-account",
    actorType: "service-account",
    tenantId: null,
    applicationId: null,
    outcome: "success",
    reason: null,
    count: 1,
    ipAddress: null,
    userAgent: null,
    traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
    changes: null
  })

describe("the event of an entry", () => {
  test.each([
    ["UserCreated", "TrialUser", "trial-user.created"],
    ["ApiKeyRotated", "ApiKey", "api-key.rotated"],
    ["BudgetCapThresholdPassed", "BudgetCap", "budget-cap.threshold-passed"],
    ["AgentTokenDenied", "AgentToken", "agent-token.denied"],
    ["SignedIn", "SignIn", "sign-in.signed-in"],
    ["SpendApproved", "Reservation", "reservation.spend-approved"]
  ])("%s of %s has the type %s", (action, entity, type) => {
    assert.strictEqual(typeOf(entryOf(action, entity)), `com.application-manager.${type}`)
  })

  test("is valid for the reference library", () => {
    const event = toCloudEvent(entryOf("UserCreated", "TrialUser"))
    assert.isTrue(new ReferenceEvent(event as never).validate())
    assert.strictEqual(event.sequence, "00000000000000000042")
    assert.strictEqual(event.traceparent, "00-4bf92f3577b34da6a3ce929d0e0e4736-800000000000002a-00")
    assert.deepStrictEqual([event.authtype, event.authid], ["service_account", "service-account"])
  })

  test("has a type that no other action has", () => {
    const types = ownTypes().map(({ type }) => type)
    assert.strictEqual(new Set(types).size, types.length)
  })

  test("matches patterns", () => {
    assert.isTrue(matchesType(["*"], "a.b"))
    assert.isTrue(matchesType(["x", "a.*"], "a.b"))
    assert.isTrue(matchesType(["a.b"], "a.b"))
    assert.isFalse(matchesType(["a.b"], "a.bc"))
    assert.isFalse(matchesType(["b.*"], "a.b"))
  })
})

const event = (more: object = {}) => ({
  specversion: "1.0",
  id: `e-${++made}`,
  source: "https://shop.example.com/orders",
  type: "com.example.order.created",
  data: { total: 42 },
  ...more
})

const usage = (more: object = {}) =>
  event({
    type: "com.application-manager.usage.recorded",
    data: { actualUsd: 0.75, model: "own-model", provider: "own", taskType: "nightly" },
    ...more
  })

const publishing =
  (body: unknown, contentType = structured) =>
  ({ key }: { readonly key: string }): Sent => ["POST", path, { key, body, headers: { "content-type": contentType } }]

const nobody = "0198a5b0-7c00-7000-8000-00000000002a"
const forbidden = problem(403, "forbidden")
const malformed = problem(400, "malformed-json")
const tooLarge = problem(413, "payload-too-large")

layer(sharedServiceLayer, { excludeTestServices: true, timeout: 60_000 })("events", (it) => {
  /** What others published, unless the query names types. */
  const pull = Effect.fnUntraced(function* (query: string, key?: string) {
    const service = yield* TestService
    const types = query.includes("types=") ? "" : "&types=com.example.*"
    const answer = yield* service.call("GET", `${path}?${query}${types}`, key === undefined ? {} : { key })
    assert.strictEqual(answer.status, 200, answer.text)
    return answer.body as { readonly items: ReadonlyArray<Members>; readonly nextCursor: string }
  })

  /** Pulls until an empty page comes at the head. */
  const head = Effect.fnUntraced(function* () {
    let after = "0"
    for (;;) {
      const { nextCursor } = yield* pull(`after=${after}&limit=200&types=*`)
      if (Number(nextCursor) === Number(after)) return after
      after = nextCursor
    }
  })

  const inTenant = Effect.fnUntraced(function* (
    scopes: ReadonlyArray<string> = ["events:*", "integrations:*", "spend:*"]
  ) {
    const service = yield* TestService
    const tenantId = yield* makeTenant(service.database)
    const { key } = yield* makeKey(service, scopes, { tenantId })
    return { tenantId, key }
  })

  const publish = Effect.fnUntraced(function* (body: unknown, key?: string, contentType = structured) {
    const service = yield* TestService
    return yield* service.call("POST", path, {
      ...(key === undefined ? {} : { key }),
      body,
      headers: { "content-type": contentType }
    })
  })

  it.effect("are pulled in order, page by page, and the cursor continues behind an empty page", () =>
    Effect.gen(function* () {
      const { key } = yield* inTenant()
      const ids = Array.from({ length: 5 }, (_, index) => `p-${index}-${++made}`)
      for (const id of ids) assert.strictEqual((yield* publish(event({ id }), key)).status, 201)
      const all = yield* eventually(pull("", key), ({ items }) => items.length === 5)
      assert.deepStrictEqual(
        all.items.map(({ id }) => id),
        ids
      )
      const first = yield* pull("limit=2", key)
      const second = yield* pull(`limit=2&after=${first.nextCursor}`, key)
      const third = yield* pull(`after=${second.nextCursor}`, key)
      assert.deepStrictEqual(
        [...first.items, ...second.items, ...third.items].map(({ id }) => id),
        ids
      )
      const empty = yield* pull(`after=${third.nextCursor}`, key)
      assert.isEmpty(empty.items)
      yield* publish(event({ id: "last" }), key)
      const next = yield* eventually(pull(`after=${empty.nextCursor}`, key), ({ items }) => items.length === 1)
      assert.strictEqual(next.items[0].id, "last")
      const sequences = all.items.map(({ sequence }) => sequence)
      assert.deepStrictEqual(sequences, sequences.toSorted())
      assert.isTrue(sequences.every((sequence) => /^\d{20}$/.test(sequence)))
      // Without its leading zeros, a sequence is the same place.
      assert.lengthOf((yield* pull(`after=${Number(all.items[3].sequence)}&types=com.example.*`, key)).items, 2)
      assert.isEmpty((yield* pull("types=com.example.order,x*", key)).items)
    })
  )

  refuses(it, badQueries(path, "after=-1", "after=x", "after=1e3", `after=${"1".repeat(21)}`))

  it.effect("400: types that are no pattern, which are named", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const long = "x".repeat(256)
      for (const [types, wrong] of [
        ["com.a,,com.b", ""],
        ["com.*.created", "com.*.created"],
        ["com.a com.b", "com.a com.b"],
        ["com.a,**", "**"],
        [`com.a,${long}`, long]
      ] as const) {
        for (const at of [path, `${path}/stream`]) {
          const answer = yield* service.call("GET", `${at}?types=${encodeURIComponent(types)}`)
          assertProblem(answer, 400, "validation-failed")
          assert.deepStrictEqual(faultPaths(answer), ["query.types"])
          assert.include(answer.body.errors[0].message, JSON.stringify(wrong))
        }
        const body = { kind: "webhook", name: "n", url: "https://receiver.invalid", eventTypes: types.split(",") }
        const created = yield* service.call("POST", "/api/integrations", { body })
        assertProblem(created, 400, "validation-failed")
        assert.match(faultPaths(created)[0] ?? "", /^payload\.eventTypes\.\d$/)
      }
    })
  )

  it.effect("are streamed behind Last-Event-ID, to those who may see them", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const [one, other] = [yield* inTenant(), yield* inTenant()]
      yield* publish(event({ id: "before" }), one.key)
      const { items } = yield* eventually(pull("", one.key), ({ items }) => items.length === 1)
      const own = yield* listenTo(service, `${path}/stream?types=com.example.*`, {
        "x-api-key": one.key,
        "last-event-id": String(Number(items[0].sequence) - 1)
      })
      const foreign = yield* listenTo(service, `${path}/stream?types=com.example.*`, { "x-api-key": other.key })
      assert.deepStrictEqual([own.status, foreign.status], [200, 200])
      yield* own.until(1)
      yield* publish(event({ id: "after" }), one.key)
      yield* publish(event({ id: "foreign" }), other.key)
      const events = yield* own.until(2)
      assert.deepStrictEqual(
        events.map(({ data, event, id }) => [data.id, event, data.sequence === id]),
        [
          ["before", "message", true],
          ["after", "message", true]
        ]
      )
      assert.strictEqual((yield* foreign.until(1))[0]?.data.id, "foreign")
    })
  )

  it.effect("of others are taken once, in every mode, and delivered as themselves", () =>
    Effect.gen(function* () {
      const { key, tenantId } = yield* inTenant()
      const service = yield* TestService
      const sent = event({ time: "2026-01-01T00:00:00Z", tenantid: "forged", sequence: "1", authid: "root", myext: 7 })
      const first = yield* publish(sent, key)
      assert.deepStrictEqual([first.status, first.body], [201, { accepted: 1, repeated: 0 }])
      const again = yield* publish({ ...sent, data: "other" }, key)
      assert.deepStrictEqual([again.status, again.body], [200, { accepted: 0, repeated: 1 }])
      const reference = HTTP.binary(
        new ReferenceEvent({ ...event({ id: "binary ä" }), time: undefined } as never) as never
      )
      const binary = yield* service.call("POST", path, {
        key,
        body: String(reference.body),
        headers: { ...(reference.headers as Record<string, string>), "ce-id": encodeURIComponent("binary ä") }
      })
      assert.strictEqual(binary.status, 201, binary.text)
      const bytes = yield* service.call("POST", path, {
        key,
        body: "plain",
        headers: {
          "content-type": "text/plain",
          "ce-specversion": "1.0",
          "ce-id": "t",
          "ce-source": "/x",
          "ce-type": "com.example.text"
        }
      })
      assert.strictEqual(bytes.status, 201, bytes.text)
      const many = yield* publish([event({ id: "b1" }), event({ id: "b1" }), event({ id: "b2" })], key, batch)
      assert.deepStrictEqual([many.status, many.body], [201, { accepted: 2, repeated: 1 }])
      const { items } = yield* eventually(pull("", key), ({ items }) => items.length === 5)
      assert.deepStrictEqual(
        items.map(({ id }) => id),
        [sent.id, "binary ä", "t", "b1", "b2"]
      )
      const { authid, authtype, data, myext, sequence, time, type } = items[0]
      assert.deepStrictEqual([data, myext, time, type], [{ total: 42 }, 7, "2026-01-01T00:00:00Z", sent.type])
      assert.strictEqual(items[0].tenantid, tenantId)
      assert.match(authid, /^api-key:/)
      assert.strictEqual(authtype, "api_key")
      assert.notStrictEqual(Number(sequence), 1)
      assert.deepStrictEqual([items[2].data, items[2].datacontenttype], ["plain", "text/plain"])
      // The same event of another tenant is another one.
      const elsewhere = yield* inTenant()
      assert.strictEqual((yield* publish(sent, elsewhere.key)).status, 201)
    })
  )

  it.effect("of others: quoted values, byte order marks and bytes are taken as they are meant", () =>
    Effect.gen(function* () {
      const { key } = yield* inTenant()
      const { url } = yield* TestService
      const send = (body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string>) =>
        Effect.promise(async () => {
          const answer = await fetch(`${url}${path}`, {
            method: "POST",
            headers: { "x-api-key": key, ...headers },
            body
          })
          return { status: answer.status, text: await answer.text() }
        })
      const attributes = { "ce-specversion": "1.0", "ce-source": "/x", "ce-type": "com.example.quoted" }
      const made = [
        yield* send("{}", { ...attributes, "ce-id": '"a b"', "content-type": "application/json" }),
        yield* send('\ufeff{"a":1}', {
          ...attributes,
          "ce-id": '"say \\"%C3%A4\\" \\\\"',
          "content-type": "application/json"
        }),
        yield* send("\ufefftext", { ...attributes, "ce-id": 'a"b c"d', "content-type": "text/plain" }),
        yield* send(`\ufeff${JSON.stringify(event({ id: "bom" }))}`, { "content-type": structured }),
        yield* send(`\ufeff${JSON.stringify([event({ id: "boms" })])}`, { "content-type": batch }),
        yield* send(Uint8Array.of(0, 255), { ...attributes, "ce-id": "bytes", "content-type": "image/png" }),
        yield* send("{}", { ...attributes, "ce-id": '"open\\"', "content-type": "application/json" }),
        yield* send("\u001e1\n", { ...attributes, "ce-id": "8", "content-type": "application/json-seq" }),
        yield* send("no JSON", { ...attributes, "ce-id": "9", "content-type": "text/plain; format=json" }),
        yield* send("1", { ...attributes, "ce-id": "10", "content-type": "application/vnd.api+JSON; v=2" }),
        yield* send("a\u0000", { ...attributes, "ce-id": "11", "content-type": "text/plain; charset=utf-16le" }),
        yield* send("<a/>", { ...attributes, "ce-id": "12", "content-type": "image/svg+xml;charset='UTF-8'" })
      ]
      assert.deepStrictEqual(
        made.map(({ status }) => status),
        made.map(() => 201),
        JSON.stringify(made)
      )
      const { items } = yield* eventually(pull("", key), ({ items }) => items.length === made.length)
      assert.deepStrictEqual(
        items.map(({ id }) => id),
        ["a b", 'say "ä" \\', "ab cd", "bom", "boms", "bytes", '"open\\"', "8", "9", "10", "11", "12"]
      )
      assert.deepStrictEqual(
        items.slice(7).map((item) => item.data ?? item.data_base64),
        ["HjEK", "no JSON", 1, "YQA=", "<a/>"]
      )
      for (const type of ["application/cloudevents+xml", "application/cloudevents", "application/CloudEvents+avro"]) {
        const refused = yield* send("<event/>", { ...attributes, "ce-id": "13", "content-type": type })
        assert.strictEqual(refused.status, 415, type)
      }
      assert.deepStrictEqual([items[1].data, items[2].data, items[5].data_base64], [{ a: 1 }, "\ufefftext", "AP8="])
      const faulty = yield* send("{}", { "ce-id": "1", "content-type": "application/json" })
      assert.strictEqual(faulty.status, 400, faulty.text)
      assert.include(faulty.text, "specversion")
      assert.strictEqual((yield* send("{}", { "content-type": "application/json" })).status, 415)
    })
  )

  it.effect("of others: a batch is taken whole or not at all, and a hundred of its faults are named", () =>
    Effect.gen(function* () {
      const { key } = yield* inTenant()
      const refused = yield* publish([event({ id: "whole" }), event({ id: "" })], key, batch)
      assert.deepStrictEqual(faultPaths(refused), ["payload.1.id"])
      assert.strictEqual((yield* publish(event({ id: "whole" }), key)).status, 201)
      assert.lengthOf(faultPaths(yield* publish(`[${Array(1000).fill("{}").join()}]`, key, batch)), 100)
    })
  )

  const deep = `${"[".repeat(10_000)}${"]".repeat(10_000)}`
  refuses(
    it,
    [
      [
        "an event with every fault",
        publishing({ specversion: "0.3", source: "a b", time: "yesterday", Up: 1, nested: {} }),
        faults(...["specversion", "id", "source", "type", "time", "Up", "nested"].map((member) => `payload.${member}`))
      ],
      ["NUL in the data", publishing(event({ data: { a: "\0" } })), faults("payload")],
      ["data twice", publishing(event({ data_base64: "AA==" })), faults("payload.data_base64")],
      ["an event as a batch", publishing(event(), batch), faults("payload")],
      ...each(["id", "type", "source", "subject", "myext", "datacontenttype"], (name) => [
        `line breaks in ${name}`,
        publishing(event({ [name]: "a\r\nb" })),
        faults(`payload.${name}`)
      ]),
      [
        "a content type that is none",
        publishing(event({ datacontenttype: "json" })),
        faults("payload.datacontenttype")
      ],
      ["JSON that is deep and does not end", publishing("[".repeat(500_000)), malformed],
      ["deep data", publishing(`{"specversion":"1.0","data":${deep}}`), problem(400, "validation-failed")],
      ["a fraction as an extension", publishing(event({ ext: 1.5 })), faults("payload.ext")],
      ["a number that none is", publishing(JSON.stringify(event()).replace("42", "1e400")), faults("payload")],
      ["data with a number of too many digits", publishing(event({ data: { a: [2 ** 53] } })), faults("payload.data")],
      ["no JSON", publishing("{"), malformed],
      ["a member twice", publishing('{"id":"1","id":"2"}'), malformed],
      ["another content type", publishing(event(), "application/json"), problem(415, "unsupported-media-type")],
      ["an event of more than 64 KiB", publishing(event({ data: "x".repeat(66_000) })), tooLarge],
      ["a batch of more than a thousand events", publishing(`[${Array(1001).fill("{}").join()}]`, batch), tooLarge],
      ["a body of more than 1 MiB", publishing(event({ data: "x".repeat(1_100_000) })), tooLarge]
    ],
    { given: inTenant() }
  )

  refuses(
    it,
    [
      ["an event of the system", publishing(event({ source: "/system" })), forbidden],
      ["an event of a tenant of ours", publishing(event({ source: `/tenants/${nobody}` })), forbidden],
      ["a source that is the system's once resolved", publishing(event({ source: "/x/%2e%2e/system?x" })), forbidden],
      ["a source that is a tenant's once normalized", publishing(event({ source: `//Tenants/${nobody}` })), forbidden],
      ["an event of ours", publishing(event({ type: "com.application-manager.trial-user.created" })), forbidden],
      ["a type of ours in other letters", publishing(event({ type: "COM.Application-Manager.x" })), forbidden],
      ["usage by whoever may not spend", publishing(usage({ data: { actualUsd: 1 } })), forbidden]
    ],
    { given: inTenant(["events:write"]) }
  )

  it.effect("of usage are charged in full, once, above the limit too", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { key, tenantId } = yield* inTenant()
      const cap = yield* service.call("POST", "/api/budgets/caps", {
        body: { name: "Tight", unit: "usd", limit: 1, period: "month", tenantId }
      })
      assert.strictEqual(cap.status, 201, cap.text)
      const spent = Effect.map(
        service.call("GET", `/api/budgets/caps-status?tenantId=${tenantId}`),
        ({ body }) => body.items.find(({ capId }: Members) => capId === cap.body.id).spent
      )
      const first = usage()
      assert.strictEqual((yield* publish(first, key)).status, 201)
      assert.strictEqual((yield* publish(first, key)).status, 200)
      assert.strictEqual(yield* spent, 0.75)
      assert.strictEqual((yield* publish(usage(), key)).status, 201)
      assert.strictEqual((yield* publish(usage(), key)).status, 201)
      assert.strictEqual(yield* spent, 2.25)
      assertProblem(yield* publish(usage({ data: { model: "m" } }), key), 400, "validation-failed")
      assertProblem(yield* publish(usage({ data: { actualUsd: -1 } }), key), 400, "validation-failed")
    })
  )

  it.effect("have their types listed", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { body, status } = yield* service.call("GET", `${path}/types`)
      assert.strictEqual(status, 200)
      assert.deepInclude(body, { type: "com.application-manager.trial-user.created", actionType: "UserCreated" })
      assert.isAbove(Number(yield* head()), 0)
    })
  )
})

const expired = CloudEvents.layer.pipe(
  Layer.provide([
    Layer.mock(LiveAuthorization)({}),
    Layer.mock(AuditFeed)({
      hasAllBehind: (sequence) => Effect.succeed(sequence >= 100),
      page: (_, after) => Effect.succeed({ entries: [], upTo: Math.max(after, 120) })
    })
  ])
)

layer(expired)("behind what retention has dropped", (it) => {
  it.effect("a cursor is 410, and the oldest that is kept begins without one", () =>
    Effect.gen(function* () {
      const events = yield* CloudEvents
      for (const failing of [events.list({ after: "00000000000000000099" }), events.stream({} as never, {}, "99")]) {
        const { detail, status } = yield* Effect.flip(failing as Effect.Effect<unknown, EventsExpired>)
        assert.strictEqual(status, 410)
        assert.match(detail, /retention/)
      }
      for (const query of [{}, { after: "100" }]) {
        assert.strictEqual((yield* events.list(query)).nextCursor, "00000000000000000120")
      }
    })
  )
})
