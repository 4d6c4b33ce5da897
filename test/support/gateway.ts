import { type PgClient } from "@effect/sql-pg"
import { assert } from "@effect/vitest"
import { Effect, String as Text } from "effect"
import { makeKey, makeTenant } from "./authority.ts"
import { type ProviderStandIn } from "./provider.ts"
import { type TestService } from "./service.ts"
import { asSuperuser } from "./statements.ts"
import { used } from "./vendors.ts"

type Service = TestService["Service"]

/** What is written into a cache costs what is read, so that what is reserved is the same at each dialect. */
export const prices = {
  inputUsdPerMTok: 2,
  outputUsdPerMTok: 10,
  cacheReadUsdPerMTok: 0.5,
  cacheWriteUsdPerMTok: 2,
  cacheWrite1hUsdPerMTok: 2
}
/** What a call of a vendor's stand-in costs at these prices. */
export const costNanoUsd = (used.input - used.cached) * 2000 + used.cached * 500 + used.output * 10_000

export const provider = (id: string, { url }: Pick<ProviderStandIn, "url">, members: object = {}) => ({
  id,
  dialect: "openai",
  baseUrl: `${url}/v1`,
  ...members
})
export const model = (id: string, providers: ReadonlyArray<string>, members: object = {}) => ({
  id,
  kind: "chat",
  prices,
  targets: providers.map((provider) => ({ provider, model: id })),
  ...members
})

/** A target that charged more than was held, as the ledger notes it; its id. */
export const makeBrokenBound = ({ database }: Pick<Service, "database">) =>
  asSuperuser(
    database,
    (sql) => sql<{ readonly id: string }>`
      INSERT INTO gateway_broken_bounds (provider, model, operation, reservation_id, reserved, charged, broken_at)
      SELECT 'broken', new_id()::text, 'chat', new_id(), 1, 2, now() RETURNING id`
  ).pipe(Effect.map(([row]) => row?.id ?? ""))

/** Acknowledges what earlier tests of a shared service were charged above their holds: targets of this one may have the same names. */
export const acknowledgeBounds = Effect.fnUntraced(function* (service: Pick<Service, "call">) {
  // Charges that are on their way are written before caps are listed.
  yield* service.call("GET", "/api/budgets/caps?limit=1")
  const { body } = yield* service.call("GET", "/api/llm/admin/broken-bounds?status=over&limit=200")
  for (const { id } of body.items) {
    const acknowledged = { status: "acknowledged", reason: "Another test begins" }
    yield* service.call("PATCH", `/api/llm/admin/broken-bounds/${id}`, { body: acknowledged })
  }
})

export const configure = Effect.fnUntraced(function* (
  service: Pick<Service, "call">,
  providers: ReadonlyArray<object>,
  models: ReadonlyArray<object>,
  routing: object = {}
) {
  const body = { providers, models, routing: { retries: 0, breaker: { failures: 1000 }, ...routing } }
  const written = yield* service.call("PUT", "/api/llm/admin/config", { body })
  assert.strictEqual(written.status, 200, written.text)
  yield* acknowledgeBounds(service)
})

/** A tenant of its own with a key for calls, and the caps that govern it. */
export const spender = Effect.fnUntraced(function* (service: Service, caps: ReadonlyArray<object>) {
  const tenantId = yield* makeTenant(service.database)
  const { key } = yield* makeKey(service, ["llm:*"], { tenantId })
  for (const cap of caps) {
    const body = { tenantId, name: "a cap", unit: "usd", period: "total", ...cap }
    const made = yield* service.call("POST", "/api/budgets/caps", { body })
    assert.strictEqual(made.status, 201, made.text)
  }
  return { key, tenantId }
})

export const ask = (service: Service, key: string, body: object = {}, headers: Record<string, string> = {}) =>
  service.call("POST", "/v1/chat/completions", {
    key,
    headers,
    body: { model: "gpt", messages: [{ role: "user", content: "What time is it?" }], ...body }
  })

/** A call on a path of either vendor, with one question unless the body has its own. */
export const asks = (service: Service, key: string, path: string, body: object) =>
  service.call("POST", path, { key, body: { messages: [{ role: "user", content: "What time is it?" }], ...body } })

/** A call whose answer is read to its end, also where it is a stream. */
export const readAll = ({ url }: Pick<Service, "url">, key: string, path: string, body: object, headers: object = {}) =>
  Effect.promise(async () => {
    const response = await fetch(`${url}${path}`, {
      method: "POST",
      headers: { "x-api-key": key, "content-type": "application/json", ...headers },
      body: JSON.stringify(body)
    })
    return { status: response.status, headers: response.headers, text: await response.text() }
  })

/** Asks the database once everything is written that was used before, as whoever asks the service is told. */
export const whenCharged = <A, E, R>(
  service: Pick<Service, "call" | "database">,
  statements: (sql: PgClient.PgClient) => Effect.Effect<A, E, R>
) => Effect.andThen(service.call("GET", "/api/budgets/caps?limit=1"), asSuperuser(service.database, statements))

export const counters = (service: Service, tenantId: string) =>
  whenCharged(
    service,
    (sql) => sql<{ readonly spent: string; readonly reserved: string }>`
      SELECT spent::text, reserved::text FROM budget_counters WHERE tenant_id = ${tenantId} ORDER BY id`
  )
/** What each call of a tenant did cost, and how that was found. */
export const charges = (service: Service, tenantId: string) =>
  whenCharged(
    service,
    (sql) => sql<{
      readonly amount: string
      readonly state: string
      readonly method: string | null
    }>`
      SELECT r.state, coalesce(e.amount, 0)::text AS amount, u.method FROM budget_reservations r
      LEFT JOIN budget_entries e ON e.tenant_id = r.tenant_id AND e.id = r.charge_id
      LEFT JOIN usage_rows u ON u.tenant_id = r.tenant_id AND u.reservation_id = r.id
      WHERE r.tenant_id = ${tenantId} ORDER BY r.id`
  )

/** The rows of a tenant's calls, in their order. */
export const usageRows = (service: Service, tenantId: string) =>
  Effect.map(
    whenCharged(
      service,
      (sql) => sql<{ readonly row: Readonly<Record<string, unknown>> }>`
        SELECT to_json(u) AS row FROM usage_rows u WHERE tenant_id = ${tenantId} ORDER BY reservation_id`
    ),
    // oxlint-disable-next-line typescript/no-explicit-any -- tests look into every column
    (rows): ReadonlyArray<any> =>
      rows.map(({ row }) =>
        Object.fromEntries(Object.entries(row).map(([name, value]) => [Text.snakeToCamel(name), value]))
      )
  )

/** Makes the time of every open reservation of a tenant run out. */
export const outlive = ({ database }: Pick<Service, "database">, tenantId: string) =>
  asSuperuser(
    database,
    (sql) => sql`
      UPDATE budget_reservations SET expires_at = now() - interval '1 second'
      WHERE tenant_id = ${tenantId} AND state = 'open' AND origin <> 'plan'`
  )
