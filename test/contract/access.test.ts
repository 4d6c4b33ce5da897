import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Layer, Schema } from "effect"
import { HttpRouter, HttpServer } from "effect/http"
import { HttpApi, HttpApiBuilder, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { AccessLayer } from "../../src/access/access.ts"
import { Authentication } from "../../src/access/authentication.ts"
import { CapabilityUses } from "../../src/access/capability-uses.ts"
import {
  AgentTokenCheck,
  ApiKeyCheck,
  GatewayCredentialCheck,
  SessionTokenCheck
} from "../../src/access/credential-checks.ts"
import { RateLimits } from "../../src/access/rate-limits.ts"
import { Rejections } from "../../src/access/rejections.ts"
import { ServiceAccount } from "../../src/access/service-account.ts"
import { Api } from "../../src/api.ts"
import { Audit } from "../../src/audit/log/service.ts"
import { Access, RequiredCapability } from "../../src/kernel/authority/access.ts"
import {
  capabilitiesOf,
  Capability,
  covers,
  isOwn,
  missing,
  resources,
  Scope
} from "../../src/kernel/authority/capability.ts"
import { Settings } from "../../src/platform/settings/settings.ts"
import { makeKey, makeTenant } from "../support/authority.ts"
import { assertProblem } from "../support/problem.ts"
import { serviceLayer, TestService } from "../support/service.ts"
import { attempts, authorityCapabilities, beyond, held, lacking, watched } from "./authorities.ts"
import {
  anonymousOperations,
  examplePath,
  mutating,
  type Operation,
  operations,
  ownOperations,
  pathOf,
  standardOperations
} from "./document.ts"

type Service = TestService["Service"]

/** What belongs to the installation and to no tenant. */
const systemResources = new Set([
  "tenants",
  "applications",
  "trial-users",
  "sessions",
  "roles",
  "configuration",
  "dashboard",
  "identity-providers",
  "attestation"
])

/** Operations of the installation among those of a resource that tenants have too. */
const systemOperations = new Set([
  "auditLogs.checkpoints",
  "auditLogs.verify",
  "llm.testProvider",
  "llm.listModels",
  "llmAdmin.getConfiguration",
  "llmAdmin.putConfiguration",
  "llmAdmin.versions",
  "llmAdmin.rollback",
  "llmAdmin.getCatalogue",
  "llmAdmin.putCatalogue",
  "llmAdmin.catalogueVersions",
  "llmAdmin.reload",
  "brokenBounds.list",
  "brokenBounds.get",
  "brokenBounds.update",
  "gatewayContents.get",
  "reconciliation.list",
  "reconciliation.refresh"
])

describe("a capability", () => {
  it.each([
    ["roles:read", "roles:read", true],
    ["roles:*", "roles:read", true],
    ["*:read", "roles:read", true],
    ["*:*", "roles:read", true],
    ["*:*", "*:*", true],
    ["*:*", "roles:*", true],
    ["roles:*", "roles:*", true],
    ["roles:read", "roles:write", false],
    ["roles:read", "roles:*", false],
    ["roles:read", "*:read", false],
    ["roles:*", "*:*", false],
    ["*:read", "*:*", false],
    ["*:read", "roles:*", false],
    ["roles:*", "role:read", false],
    ["role:*", "roles:read", false],
    ["audit:read", "audit-logs:read", false],
    ["roles:re", "roles:read", false]
  ] as const)("%s covers %s: %s", (one, other, expected) => {
    assert.strictEqual(covers(one, other), expected)
  })

  it.each([
    [["*:*"], ["roles:read", "x:y"], []],
    [[], ["roles:read"], ["roles:read"]],
    [["roles:read"], [], []],
    [["roles:read", "roles:write"], ["roles:*"], ["roles:*"]],
    [["*:read", "llm:*"], ["roles:read", "llm:admin", "roles:write"], ["roles:write"]],
    [["roles:read"], ["plans:read", "roles:read", "llm:*"], ["plans:read", "llm:*"]]
  ])("of those in %j, with %j needed, these are missing: %j", (given, needed, expected) => {
    assert.deepStrictEqual(missing(given, needed), expected)
  })

  it.each([
    ["trial-users:read", true],
    ["llm:complete", true],
    ["audit-logs:export", true],
    ["*:*", true],
    ["*:read", true],
    ["*:approve", true],
    ["roles:*", true],
    ["roles:approve", false],
    ["billing:read", false],
    ["billing:*", false],
    ["*:pay", false],
    ["__proto__:read", false],
    ["constructor:name", false],
    ["roles:constructor", false]
  ] as const)("%s is one of this service: %s", (capability, expected) => {
    assert.strictEqual(isOwn(capability), expected)
  })

  it("of this service is well-formed, its own, and covered by its wildcards", () => {
    for (const resource of resources) {
      for (const capability of capabilitiesOf(resource)) {
        assert.isTrue(Schema.is(Scope)(capability), capability)
        const action = capability.slice(resource.length + 1)
        for (const wide of [`${resource}:*`, `*:${action}`, "*:*"]) assert.isTrue(covers(wide, capability), wide)
      }
    }
  })

  it.each([
    "roles",
    "roles:",
    ":read",
    "roles:read:all",
    "Roles:read",
    "roles: read",
    "roles:r*",
    "**:read",
    "-a:b",
    ""
  ])("is not written %j", (text) => {
    assert.isFalse(Schema.is(Capability)(text))
  })
})

describe("every endpoint", () => {
  it("asks for a capability, or is known to be anonymous, or to authenticate its callers itself", () => {
    HttpApi.reflect(Api, {
      onGroup: () => {},
      onEndpoint: ({ endpoint, group, middleware }) => {
        const name = `${group.identifier}.${endpoint.identifier}`
        const required = Context.getOrUndefined(endpoint.annotations, RequiredCapability)
        const checked = [...middleware].some(({ key }) => key === Access.key)
        const anonymous = anonymousOperations.includes(name) || standardOperations.includes(name)
        assert.strictEqual(checked, !anonymous, `${name} and the middleware Access: its api.ts declares \`access\``)
        assert.strictEqual(
          required !== undefined,
          !anonymous,
          `${name} and its capability: its api.ts declares \`access: requires(…)\``
        )
        if (!anonymous) assert.strictEqual(required?.capability === null, ownOperations.includes(name), name)
      }
    })
  })

  it("of the installation is closed to tenants, and no other", () => {
    for (const operation of operations) {
      const [resource = ""] = operation["x-required-capability"]?.split(":") ?? []
      const closed = systemResources.has(resource) || systemOperations.has(operation.operationId)
      assert.strictEqual(
        operation["x-system-only"] === true,
        closed,
        `${operation.operationId}: systemOnly is for what is listed in systemResources above`
      )
    }
  })

  class ClosedApi extends HttpApi.make("closed").add(
    HttpApiGroup.make("things")
      .add(HttpApiEndpoint.get("get", "/", { success: Schema.String }))
      .middleware(Access)
  ) {}
  const handlers = HttpApiBuilder.group(ClosedApi, "things", (things) =>
    things.handle("get", () => Effect.succeed("in"))
  )
  const mocks = Layer.mergeAll(
    Layer.mock(ServiceAccount, { owns: () => Effect.succeed(true), firstKey: Effect.succeedNone }),
    Layer.mock(Audit, { refused: () => Effect.void }),
    Layer.mock(ApiKeyCheck, {}),
    Layer.mock(AgentTokenCheck, {}),
    Layer.mock(GatewayCredentialCheck, {}),
    Layer.mock(SessionTokenCheck, {}),
    Settings.layerMemory(),
    Layer.mock(RateLimits, { principal: () => Effect.void, anonymous: Effect.void }),
    Layer.mock(Rejections, {}),
    Layer.mock(CapabilityUses, { record: () => {} })
  )

  it("without a declared capability lets nobody in, not even the service account", async () => {
    const { dispose, handler } = HttpRouter.toWebHandler(
      HttpApiBuilder.layer(ClosedApi).pipe(
        Layer.provide(handlers),
        Layer.provide(AccessLayer),
        Layer.provide(Authentication.layer),
        Layer.provide(mocks),
        Layer.provide(HttpServer.layerServices)
      ),
      { disableLogger: true }
    )
    const answer = await handler(new Request("http://localhost/", { headers: { "x-api-key": "service account" } }))
    assert.strictEqual(answer.status, 403)
    assert.deepInclude(await answer.json(), { type: "urn:application-manager:problem:forbidden", missing: [] })
    await dispose()
  })
})

const exampleCall = (operation: Operation, key: string | null) => {
  const body = operation.requestBody?.content["application/json"]?.example
  return body === undefined ? { key } : { key, body }
}

/** What must stay as it is, but for when keys were last used and agents last seen. */
const snapshot = Effect.fnUntraced(function* (service: Service) {
  const answers = yield* Effect.forEach(watched, (path) => service.call("GET", path))
  return answers.map(({ text }) => text.replaceAll(/"last(?:Used|Seen)At":(?:null|"[^"]*")/g, ""))
})

layer(serviceLayer({ IdentityProviders__AllowPrivateAddresses: "true" }), {
  excludeTestServices: true,
  timeout: "60 seconds"
})("access", (it) => {
  for (const operation of operations) {
    if (anonymousOperations.includes(operation.operationId)) continue
    const systemOnly = operation["x-system-only"] === true
    const outcome = systemOnly || operation["x-accounts-only"] === true ? "is closed" : "is open"

    it.effect(`${operation.operationId} ${outcome} to a tenant's key with every scope`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { key } = yield* makeKey(service, ["*:*"], { tenantId: yield* makeTenant(service.database) })
        const answer = yield* service.call(operation.method, examplePath(operation), exampleCall(operation, key))
        if (systemOnly || operation["x-accounts-only"] === true) {
          assertProblem(answer, 403, "forbidden")
          assert.deepStrictEqual(answer.body.missing, [])
        } else assert.notInclude([401, 500], answer.status, answer.text)
      })
    )
  }

  it("has an attempt at giving more than one has for every operation that makes or changes an authority", () => {
    for (const operation of operations.filter(mutating)) {
      if (!authorityCapabilities.includes(operation["x-required-capability"] ?? "")) continue
      // Ending a credential is never refused, and gives nobody anything.
      if (operation.operationId === "agentCredentials.revoke") continue
      assert.isTrue(
        attempts.some(({ operationId }) => operationId === operation.operationId),
        `${operation.operationId} is missing in authorities.ts`
      )
    }
  })

  for (const { about, operationId, prepare } of attempts) {
    const operation = operations.find((one) => one.operationId === operationId)

    it.effect(`${operationId} gives nobody more than the caller has: ${about}`, () =>
      Effect.gen(function* () {
        if (operation === undefined) return assert.fail(`there is no operation ${operationId}`)
        const service = yield* TestService
        const { id, key } = yield* makeKey(service, held)
        const { body, parameters } = yield* prepare(service)
        const before = yield* snapshot(service)
        const call = { key, ...(body === undefined ? {} : { body }) }
        const answer = yield* service.call(operation.method, pathOf(operation, parameters), call)
        assertProblem(answer, 403, "forbidden")
        assert.deepStrictEqual(answer.body.missing, [...lacking])
        assert.deepStrictEqual(yield* snapshot(service), before)
        const entries = yield* service.call("GET", `/api/audit-logs?userId=${encodeURIComponent(`api-key:${id}`)}`)
        assert.deepStrictEqual(
          entries.body.items.map((entry: Readonly<Record<string, unknown>>) => [entry.actionType, entry.outcome]),
          [["AccessForbidden", "denied"]]
        )
      })
    )

    it.effect(`${operationId} lets whoever has as much: ${about}`, () =>
      Effect.gen(function* () {
        if (operation === undefined) return assert.fail(`there is no operation ${operationId}`)
        const service = yield* TestService
        const { key } = yield* makeKey(service, [...held, ...beyond])
        const { body, parameters } = yield* prepare(service)
        const call = { key, ...(body === undefined ? {} : { body }) }
        const answer = yield* service.call(operation.method, pathOf(operation, parameters), call)
        assert.isBelow(answer.status, 300, answer.text)
      })
    )
  }
})
