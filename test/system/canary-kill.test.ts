import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { isLinux, makeDirectory } from "../support/embedded-postgres.ts"
import { startProcess } from "../support/service-process.ts"
import { eventually } from "../support/waiting.ts"

const path = "/api/synthetic-principals"

it.live.runIf(isLinux)(
  "kill -9 right after the answer to a canary loses neither the finding nor the event",
  () =>
    Effect.gen(function* () {
      const directory = yield* makeDirectory()
      const first = yield* startProcess(directory)
      const tenant = yield* first.call("POST", "/api/tenants", { body: { name: "Trapped" } })
      assert.strictEqual(tenant.status, 201, tenant.text)
      const canary = Effect.gen(function* () {
        const body = { kind: "canary", name: "in the wiki", scopes: ["llm:read"], tenantId: tenant.body.id }
        const made = yield* first.call("POST", path, { body })
        assert.strictEqual(made.status, 201, made.text)
        return made.body as { readonly id: string; readonly key: string }
      })
      const [api, bearer, vendor] = [yield* canary, yield* canary, yield* canary]
      const untouched = yield* canary
      for (const [at, call] of [
        ["/api/agents", { key: api.key }],
        ["/api/agents", { key: null, headers: { authorization: `Bearer ${bearer.key}` } }],
        ["/v1/models", { key: null, headers: { authorization: `Bearer ${vendor.key}` } }]
      ] as const) {
        assert.strictEqual((yield* first.call("GET", at, call)).status, 401)
      }
      yield* first.signal("SIGKILL")
      assert.strictEqual(yield* first.ended, "SIGKILL")

      const second = yield* startProcess(directory)
      const asked = yield* second.call("POST", "/api/security/reports", { body: { kind: "posture" } })
      const at = `/api/security/reports/${asked.body.id}`
      yield* eventually(second.call("GET", at), ({ body }) => body.status === "completed")
      const { body: found } = yield* second.call("GET", `${at}/findings?rule=canary-touched`)
      const ids = found.items.map(({ resource }: { readonly resource: { readonly id: string } }) => resource.id)
      assert.sameMembers(ids, [api.id, bearer.id, vendor.id])
      assert.notInclude(ids, untouched.id)
      const types = "com.application-manager.security.canary.touched"
      const events = yield* eventually(
        second.call("GET", `/api/cloudevents?types=${types}`),
        ({ body }) => body.items.length === 3
      )
      assert.sameMembers(
        events.body.items.map(({ subject }: { readonly subject: string }) => subject),
        ids.map((id: string) => `synthetic-principal/${id}`)
      )
    }).pipe(Effect.scoped),
  120_000
)
