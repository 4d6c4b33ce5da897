import { assert, describe, it as test, layer } from "@effect/vitest"
import { HTTP } from "cloudevents"
import { Effect } from "effect"
import { Webhook } from "standardwebhooks"
import { type Filter, passes } from "../../../src/events/deliveries/domain.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { startReceiver } from "../../support/webhook-receiver.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- answers are looked into
const eventIn = (hook: unknown) => HTTP.toEvent(hook as never) as Record<string, any>

const path = "/api/cloudevents/subscriptions"

describe("filters of subscriptions", () => {
  const event = { type: "com.a.b", source: "/x", subject: "thing/1", n: 7, data: { type: "hidden" } }
  const cases: ReadonlyArray<readonly [Filter, boolean]> = [
    [{ exact: { type: "com.a.b" } }, true],
    [{ exact: { type: "com.a.b", source: "/y" } }, false],
    [{ exact: { n: "7" } }, true],
    [{ prefix: { type: "com.a." } }, true],
    [{ prefix: { subject: "other/" } }, false],
    [{ suffix: { subject: "/1" } }, true],
    [{ suffix: { absent: "x" } }, false],
    [{ prefix: { constructor: "function" } }, false],
    [{ all: [{ exact: { source: "/x" } }, { prefix: { type: "com" } }] }, true],
    [{ all: [{ exact: { source: "/x" } }, { prefix: { type: "org" } }] }, false],
    [{ any: [{ exact: { source: "/z" } }, { prefix: { type: "com" } }] }, true],
    [{ not: { exact: { source: "/x" } } }, false],
    [{ not: { exact: { absent: "x" } } }, true]
  ]
  test.each(cases)("%j", (filter, passed) => assert.strictEqual(passes(filter, event), passed))
})

layer(serviceLayer({ Integrations__AllowPrivateAddresses: "true" }), { excludeTestServices: true, timeout: 60_000 })(
  "event subscriptions",
  (it) => {
    const tenantEvents = { types: ["com.application-manager.tenant.created"] }
    const newTenant = Effect.fnUntraced(function* (name: string) {
      const service = yield* TestService
      assert.strictEqual((yield* service.call("POST", "/api/tenants", { body: { name } })).status, 201)
    })

    it.effect("begin with the consent of their sink, and pass filters on", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const receiver = yield* startReceiver
        receiver.answerHeaders = { "WebHook-Allowed-Origin": "127.0.0.1" }
        const created = yield* service.call("POST", path, {
          body: { sink: receiver.url, ...tenantEvents, filters: [{ not: { suffix: { authid: "nobody" } } }] }
        })
        assert.deepStrictEqual([created.status, created.body.status], [201, "active"], created.text)
        assert.strictEqual(created.headers.get("location"), `${path}/${created.body.id}`)
        assert.strictEqual(receiver.hooks[0]?.method, "OPTIONS")
        assert.strictEqual(receiver.hooks[0]?.headers["webhook-request-origin"], "127.0.0.1")
        yield* newTenant("Structured")
        const [hook] = yield* receiver.until(1)
        assert.strictEqual(eventIn(hook).data.changes.after.name, "Structured")
        const binary = yield* service.call("PUT", `${path}/${created.body.id}`, {
          body: { sink: receiver.url, ...tenantEvents, config: { contentMode: "binary" } }
        })
        assert.deepStrictEqual([binary.status, binary.body.filters], [200, []], binary.text)
        yield* newTenant("Binary")
        const [, second] = yield* receiver.until(2)
        assert.match(second!.headers["ce-type"]!, /tenant\.created$/)
        assert.strictEqual(eventIn(second).data.changes.after.name, "Binary")
        assert.strictEqual((yield* service.call("DELETE", `${path}/${created.body.id}`)).status, 204)
        assert.strictEqual((yield* service.call("GET", `${path}/${created.body.id}`)).status, 404)
      })
    )

    it.effect("with a secret are signed, and show it nowhere", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const receiver = yield* startReceiver
        receiver.answerHeaders = { "WebHook-Allowed-Origin": "*" }
        const [first, second] = [1, 2].map((byte) => `whsec_${Buffer.alloc(32, byte).toString("base64")}`)
        const body = (config: object) => ({ sink: receiver.url, ...tenantEvents, config })
        const verifiers = Effect.fnUntraced(function* (hooks: number) {
          yield* newTenant(`Signed ${hooks}`)
          const hook = (yield* receiver.until(hooks))[hooks - 1]
          return [first, second].map((secret) => {
            try {
              return new Webhook(secret!).verify(hook!.body, hook!.headers) !== undefined
            } catch {
              return false
            }
          })
        })
        const created = yield* service.call("POST", path, { body: body({ secret: first }) })
        assert.deepStrictEqual([created.status, created.body.config], [201, { secret: "********" }], created.text)
        assert.deepStrictEqual(yield* verifiers(1), [true, false])
        const at = `${path}/${created.body.id}`
        const put = Effect.fnUntraced(function* (config: object) {
          const { body: answer, status, text } = yield* service.call("PUT", at, { body: body(config) })
          assert.strictEqual(status, 200, text)
          return answer.config
        })
        // What a response shows keeps the secret.
        assert.deepStrictEqual(yield* put({ contentMode: "binary", secret: "********" }), {
          contentMode: "binary",
          secret: "********"
        })
        assert.deepStrictEqual(yield* verifiers(2), [true, false])
        yield* put({ secret: second })
        assert.deepStrictEqual(yield* verifiers(3), [true, true])
        const shown = [
          (yield* service.call("GET", at)).text,
          (yield* service.call("GET", path)).text,
          (yield* service.call("GET", "/api/cloudevents?types=com.application-manager.event-subscription.*")).text,
          yield* asSuperuser(service.database, (sql) =>
            Effect.map(sql`SELECT row_to_json(t)::text AS stored FROM event_targets t`, (rows) => JSON.stringify(rows))
          )
        ]
        for (const text of shown) assert.notMatch(text, /whsec_|77687365635f|AQEBAQ|AgICAg/)
        assert.deepStrictEqual(yield* put({}), {})
        assert.deepStrictEqual(yield* verifiers(4), [false, false])
        for (const secret of ["********", "whsec_short", "plain text secret", `whsec_${"A".repeat(200)}`]) {
          const answer = yield* service.call("PUT", at, { body: body({ secret }) })
          assertProblem(answer, 400, "validation-failed")
          assert.deepStrictEqual(faultPaths(answer), ["payload.config.secret"])
        }
        assertProblem(
          yield* service.call("POST", path, { body: body({ secret: "********" }) }),
          400,
          "validation-failed"
        )
      })
    )

    it.effect("without consent are refused, until the sink agrees", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const receiver = yield* startReceiver
        const body = { sink: receiver.url, ...tenantEvents }
        for (const [status, answerHeaders] of [
          [204, {}],
          [204, { "webhook-allowed-origin": "elsewhere.example.com" }],
          [405, { "webhook-allowed-origin": "*" }]
        ] as const) {
          Object.assign(receiver, { status, answerHeaders })
          const refused = yield* service.call("POST", path, { body })
          assert.deepStrictEqual([refused.status, refused.body.status], [201, "refused"], refused.text)
        }
        Object.assign(receiver, { status: 204, answerHeaders: { "webhook-allowed-origin": "*" } })
        const { body: list } = yield* service.call("GET", path)
        const [last] = list.items.slice(-1)
        const agreed = yield* service.call("PUT", `${path}/${last.id}`, { body })
        assert.strictEqual(agreed.body.status, "active")
        yield* newTenant("After consent")
        yield* receiver.until(1)
        const disabled = yield* service.call("PUT", `${path}/${last.id}`, { body: { ...body, status: "disabled" } })
        assert.strictEqual(disabled.body.status, "disabled")
        assert.isEmpty(receiver.hooks.filter(({ method }) => method === "POST").slice(1))
      })
    )
  }
)
