import { assert, type Vitest } from "@effect/vitest"
import { Effect } from "effect"
import { type TestDatabase } from "./database.ts"
import { assertProblem } from "./problem.ts"
import { TestService } from "./service.ts"
import { asSuperuser } from "./statements.ts"

/** A key as its creating answer shows it, as far as tests look. */
export interface MadeKey {
  readonly id: string
  readonly key: string
  readonly start: string
  readonly tenantId: string | null
}

/** Makes a key over HTTP, by the service account unless `by` says whose key asks. */
export const makeKey = Effect.fnUntraced(function* (
  service: TestService["Service"],
  scopes: ReadonlyArray<string>,
  members: {
    readonly tenantId?: string
    readonly expiresAt?: string
    readonly name?: string
    readonly by?: string
  } = {}
) {
  const { by = service.serviceKey, ...rest } = members
  const made = yield* service.call("POST", "/api/api-keys", { key: by, body: { name: "a key", scopes, ...rest } })
  assert.strictEqual(made.status, 201, made.text)
  return made.body as MadeKey
})

/** A key whose time is over. */
export const makeExpiredKey = Effect.fnUntraced(function* (
  service: TestService["Service"],
  scopes: ReadonlyArray<string>
) {
  const made = yield* makeKey(service, scopes)
  yield* asSuperuser(
    service.database,
    (sql) => sql`UPDATE api_keys SET expires_at = '2020-01-01Z' WHERE id = ${made.id}`
  )
  return made
})

/** A tenant of its own; answers its id. */
export const makeTenant = (database: TestDatabase, status: "active" | "suspended" = "active"): Effect.Effect<string> =>
  asSuperuser(database, (sql) =>
    Effect.map(
      sql<{ readonly id: string }>`
        INSERT INTO tenants (name, slug, status, created_at, updated_at)
        VALUES ('A tenant', gen_random_uuid()::text, ${status}, now(), now()) RETURNING id`,
      ([tenant]) => tenant?.id ?? assert.fail("no tenant was made")
    )
  )

/** An operation and what it asks of its caller. */
export interface Operation {
  readonly name: string
  readonly method: string
  readonly path: string
  readonly body?: unknown
  readonly capability: string
  /** Whether a tenant's key is kept out whatever its scopes. */
  readonly systemOnly: boolean
}

/** Registers, for every operation, the tests that it lets in nobody but a caller with its capability. */
export const refusesStrangers = (
  it: Vitest.MethodsNonLive<TestService>,
  operations: ReadonlyArray<Operation>
): void => {
  for (const { body, capability, method, name, path, systemOnly } of operations) {
    const call = (service: TestService["Service"], key: string | null) =>
      service.call(method, path, { key, ...(body === undefined ? {} : { body }) })

    it.effect(`401: ${name} without a key`, () =>
      Effect.gen(function* () {
        const answer = yield* call(yield* TestService, null)
        assertProblem(answer, 401, "unauthenticated")
        assert.isNotNull(answer.headers.get("www-authenticate"))
      })
    )

    it.effect(`401: ${name} with a key that is none`, () =>
      Effect.gen(function* () {
        assertProblem(yield* call(yield* TestService, "nobody's key"), 401, "unauthenticated")
      })
    )

    it.effect(`403: ${name} without the scope ${capability}, which the answer names`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const [resource = "", action] = capability.split(":")
        const near = [
          `${resource}:${action === "read" ? "write" : "read"}`,
          resource === "dashboard" ? "roles:*" : "dashboard:*"
        ]
        const { key } = yield* makeKey(service, near)
        const answer = yield* call(service, key)
        assertProblem(answer, 403, "forbidden")
        assert.deepStrictEqual(answer.body.missing, [capability])
      })
    )

    if (!systemOnly) continue
    it.effect(`403: ${name} with a tenant's key, whatever its scopes`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { key } = yield* makeKey(service, ["*:*"], { tenantId: yield* makeTenant(service.database) })
        assertProblem(yield* call(service, key), 403, "forbidden")
      })
    )
  }
}
