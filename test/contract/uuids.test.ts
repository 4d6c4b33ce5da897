import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { signedInService } from "../platform/http/bad-input.ts"
import { makeKey, makeTenant } from "../support/authority.ts"
import { bodyWith, operations } from "../support/operations.ts"
import { make } from "../support/scenarios.ts"
import { type Answer, TestService } from "../support/service.ts"

const unknown = "01890a5d-ac96-774b-bcce-b302099a8057"
const spellings = [unknown.toUpperCase(), unknown.replace(/^[^-]+/, (part) => part.toUpperCase())]

/** What an answer says of a request: its status, and which of its places are at fault. */
const said = ({ body, status }: Answer) => ({
  status,
  type: body?.type,
  faults: (body?.errors ?? []).map(({ path }: { path: ReadonlyArray<string> }) => path.join("."))
})

layer(signedInService, { excludeTestServices: true, timeout: "60 seconds" })("a UUID in any case", (it) => {
  for (const operation of operations) {
    const inPath = operation.pathParameters.filter(({ kind }) => kind === "uuid")
    const inQuery = operation.queryParameters.filter(({ kind }) => kind === "uuid")
    if (inPath.length + inQuery.length === 0) continue
    it.effect(`is one in every parameter of ${operation.name}`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const call = (address: string) =>
          service.call(operation.method, address, operation.readsJson ? { body: {} } : {})
        for (const { name } of inPath) {
          const canonical = said(yield* call(operation.address({ [name]: unknown })))
          for (const id of spellings) {
            assert.deepStrictEqual(said(yield* call(operation.address({ [name]: id }))), canonical, `${name}=${id}`)
          }
        }
        const [path = ""] = operation.address().split("?")
        for (const { name } of inQuery) {
          const canonical = said(yield* call(`${path}?${name}=${unknown}`))
          for (const id of spellings) {
            assert.deepStrictEqual(said(yield* call(`${path}?${name}=${id}`)), canonical, `${name}=${id}`)
          }
        }
      })
    )
  }

  for (const operation of operations.filter(({ readsJson }) => readsJson)) {
    it.effect(`is one in every member of the body of ${operation.name}`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const faultsWith = (member: ReadonlyArray<string | number>, value: string) =>
          service
            .call(operation.method, operation.address(), { body: bodyWith(member, value) })
            .pipe(
              Effect.map(({ body }): ReadonlyArray<string> =>
                (body?.errors ?? []).flatMap(({ message, path }: { message: string; path: ReadonlyArray<string> }) =>
                  message === "Expected a UUID" ? [path.join(".")] : []
                )
              )
            )
        for (const member of operation.textMembers) {
          const at = `payload.${member.join(".")}`
          if (!(yield* faultsWith(member, "no UUID")).includes(at)) continue
          for (const id of spellings) assert.notInclude(yield* faultsWith(member, id), at)
        }
      })
    )
  }

  it.effect("finds what it names, and the answer has it as it is written", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const agent = yield* make(service, "/api/agents", {
        name: "spelled",
        ownerUserId: "ada",
        scopeCeiling: ["llm:complete"],
        tenantId: tenantId.toUpperCase()
      })
      assert.strictEqual(agent.tenantId, tenantId)
      const id: string = agent.id.toUpperCase()
      assert.strictEqual((yield* service.call("GET", `/api/agents/${id}`)).body.id, agent.id)
      const patched = yield* service.call("PATCH", `/api/agents/${id}`, { body: { description: "found" } })
      assert.strictEqual(patched.body.description, "found")
      for (const query of [`ids=${unknown},${id}`, `search=${id}`, `tenantId=${tenantId.toUpperCase()}`]) {
        const listed = yield* service.call("GET", `/api/agents?${query}`)
        assert.deepStrictEqual(
          listed.body.items.map((item: { readonly id: string }) => item.id),
          [agent.id],
          query
        )
      }
      const other = yield* make(service, "/api/agents", { name: "other", ownerUserId: "ada", tenantId })
      const subject = other.id.toUpperCase()
      const grant = { subject, subjectType: "agent", scopes: ["llm:complete"] }
      assert.strictEqual((yield* make(service, `/api/agents/${id}/delegations`, grant)).subject, other.id)
      const { id: keyId, key } = yield* makeKey(service, ["*:*"], { tenantId })
      yield* service.call("PATCH", `/api/agents/${agent.id}`, { key, body: { description: "by a key" } })
      for (const filter of [`entityId=${id}`, `userId=api-key:${keyId.toUpperCase()}`, `search=${id}`]) {
        const entries = yield* service.call("GET", `/api/audit-logs?entityType=Agent&${filter}`)
        assert.isNotEmpty(entries.body.items, filter)
      }
      const called = yield* service.call("POST", "/v1/chat/completions", {
        key,
        body: { model: "loopback-1", messages: [{ role: "user", content: "hello" }] },
        headers: { "x-agent-id": id }
      })
      assert.strictEqual(called.status, 200, called.text)
    })
  )
})
