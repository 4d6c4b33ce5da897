import "../../src/platform/runtime/json-parse.ts"
import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Cache, DateTime, Effect, Layer, Option, Redacted } from "effect"
import { SecureRandom } from "effect/crypto"
import { HttpRouter, HttpServer, type HttpServerRequest } from "effect/http"
import { HttpApi, HttpApiBuilder, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { createServer } from "node:http"
import { AgentNotFound } from "../../src/agents/agents/domain.ts"
import { BudgetDenied, type CapId, ReservationId } from "../../src/budgets/ledger/domain.ts"
import { totalOf } from "../../src/budgets/ledger/quantity-domain.ts"
import { OpenedReservation, ReserveRequest, ttlSecondsDefault } from "../../src/budgets/reservations/domain.ts"
import { Forbidden, Unauthenticated } from "../../src/kernel/authority/principal.ts"
import { Created, created } from "../../src/kernel/http/location.ts"
import { poolLayer } from "../../src/platform/database/database.ts"
import { IdempotencyKeyReused } from "../../src/platform/idempotency/domain.ts"
import { forUpdateTables } from "./for-update-tables.ts"

/**
 * The reserve endpoint as it is usually written, with the duties of the service's: it knows the key and what it may, sees
 * whether the agent is the tenant's, keeps the Idempotency-Key with the change, and in one transaction locks the rows of all
 * governing caps with one `SELECT … FOR UPDATE` in their order, adds what was granted, decides, notes thresholds, writes
 * the reservation and moves the counters with one statement: three round trips under the lock, COMMIT among them.
 * It has the same framework, schemas, server and durability, ten connections, and keys and agents in memory for a second.
 * It is spared what the service also does: other modes, units and periods than a month in dollars, plans, replays,
 * request ids, limits, metrics, spans, and the expiry of what is in the way.
 */
class ForUpdateApi extends HttpApi.make("for-update").add(
  HttpApiGroup.make("spend")
    .add(
      HttpApiEndpoint.post("reserve", "/reserve", {
        payload: ReserveRequest,
        success: Created(OpenedReservation),
        error: [BudgetDenied, AgentNotFound, Unauthenticated, Forbidden, IdempotencyKeyReused]
      }),
      HttpApiEndpoint.post("reserveInOne", "/reserve-in-one", {
        payload: ReserveRequest,
        success: Created(OpenedReservation),
        error: [BudgetDenied, Unauthenticated, Forbidden]
      })
    )
    .prefix("/api/spend")
) {}

interface Key {
  readonly tenantId: string
  readonly name: string
  readonly scopes: ReadonlyArray<string>
  readonly revokedAt: Date | null
}

interface ApplicableCap {
  readonly id: CapId
  readonly name: string
  readonly limitAmount: bigint
  readonly thresholds: ReadonlyArray<number>
  readonly periodId: string
  readonly spent: bigint
  readonly reserved: bigint
  readonly periodEnd: Date
}

const digest = (text: string) => createHash("sha256").update(text).digest("hex")
const hundred = 100n

const Handlers = HttpApiBuilder.group(
  ForUpdateApi,
  "spend",
  Effect.fn(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const random = yield* SecureRandom.SecureRandom

    const keys = yield* Cache.make({
      lookup: (sha256: string) =>
        Effect.map(
          sql<Key>`SELECT tenant_id, name, scopes, revoked_at FROM naive_keys WHERE sha256 = ${sha256}`,
          (rows) => Option.fromUndefinedOr(rows[0])
        ),
      capacity: 10_000,
      timeToLive: "1 second"
    })
    const agents = yield* Cache.make({
      lookup: (id: string) =>
        Effect.map(sql<{ readonly tenantId: string }>`SELECT tenant_id FROM naive_agents WHERE id = ${id}`, (rows) =>
          Option.fromUndefinedOr(rows[0])
        ),
      capacity: 10_000,
      timeToLive: "1 second"
    })

    const authenticate = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
      const found = yield* Effect.orDie(Cache.get(keys, digest(request.headers["x-api-key"] ?? "")))
      if (Option.isNone(found) || found.value.revokedAt !== null) return yield* new Unauthenticated({})
      if (!found.value.scopes.includes("spend:*")) return yield* new Forbidden({ missing: ["spend:write"] })
      return found.value
    })

    const reserve = Effect.fnUntraced(function* (
      { agentId, amountUsd = 0n, model, taskType, tokens = 0, ttlSeconds = ttlSecondsDefault }: ReserveRequest,
      request: HttpServerRequest.HttpServerRequest
    ) {
      const { name, tenantId } = yield* authenticate(request)
      if (agentId !== undefined) {
        const agent = yield* Effect.orDie(Cache.get(agents, agentId))
        if (Option.isNone(agent) || agent.value.tenantId !== tenantId) return yield* new AgentNotFound({})
      }
      const id = ReservationId.make(yield* random.uuidV7())
      const now = yield* DateTime.now
      const at = DateTime.toDateUtc(now)
      const expiresAt = DateTime.add(now, { seconds: ttlSeconds })
      const idempotencyKey = request.headers["idempotency-key"]
      const requestSha256 = idempotencyKey === undefined ? "" : digest(yield* Effect.orDie(request.text))

      const governing = yield* Effect.gen(function* () {
        if (idempotencyKey !== undefined) {
          const claimed = yield* sql`
            INSERT INTO naive_idempotency_keys VALUES (${name}, ${idempotencyKey}, ${requestSha256}, ${id}, ${at})
            ON CONFLICT DO NOTHING RETURNING key`
          if (claimed.length === 0) return yield* new IdempotencyKeyReused({})
        }
        const rows = yield* sql<ApplicableCap>`
          SELECT c.id, c.name, c.thresholds, p.id AS period_id, p.spent, p.reserved, p.period_end,
            c.limit_amount + coalesce((
              SELECT sum(g.amount) FROM naive_grants g WHERE g.tenant_id = c.tenant_id AND g.cap_id = c.id
                AND (g.expires_at IS NULL OR g.expires_at > ${at})), 0)::bigint AS limit_amount
          FROM naive_caps c
          JOIN naive_periods p ON p.tenant_id = c.tenant_id AND p.cap_id = c.id
            AND p.agent_id = CASE WHEN c.per_agent THEN ${agentId ?? "none"} ELSE '' END
            AND p.period_start <= ${at} AND p.period_end > ${at}
          WHERE c.tenant_id = ${tenantId} AND c.task_type IN ('', ${taskType ?? ""}) AND c.model IN ('', ${model ?? ""})
          ORDER BY p.id FOR UPDATE OF p`
        for (const { id: capId, limitAmount, periodEnd, reserved, spent } of rows) {
          if (spent + reserved + amountUsd > limitAmount) {
            const resetsAt = DateTime.fromDateUnsafe(periodEnd)
            return yield* new BudgetDenied({ reason: "exhausted", capId, resetsAt, caps: [] })
          }
        }
        for (const { limitAmount, periodId, reserved, spent, thresholds } of rows) {
          for (const percent of thresholds) {
            if ((spent + reserved + amountUsd) * hundred < limitAmount * BigInt(percent)) continue
            yield* sql`
              INSERT INTO naive_alerts VALUES (${tenantId}, ${periodId}, ${percent}, ${at}) ON CONFLICT DO NOTHING`
          }
        }
        const periods = rows.map(({ periodId }) => periodId)
        yield* sql`
          INSERT INTO naive_reservations VALUES (${tenantId}, ${id}, 'open', ${agentId ?? null}, ${model ?? null},
            ${taskType ?? null}, ${amountUsd}, ${tokens}, ${ttlSeconds}, ${DateTime.toDateUtc(expiresAt)}, ${at}, ${name},
            ${`{${periods.join()}}`}::text::uuid[])`
        yield* sql`
          UPDATE naive_periods SET reserved = reserved + ${amountUsd}
          WHERE tenant_id = ${tenantId} AND id = ANY (${`{${periods.join()}}`}::text::uuid[])`
        return rows
      }).pipe(sql.withTransaction, Effect.catchTag("SqlError", Effect.die))

      return {
        id,
        state: "open" as const,
        amountUsd,
        tokens,
        expiresAt,
        remainingTtlSeconds: ttlSeconds,
        caps: governing.map(({ id: capId, limitAmount, name: capName, periodEnd, reserved, spent }) => ({
          capId,
          name: capName,
          headroom: totalOf("usd", limitAmount - spent - reserved - amountUsd),
          resetsAt: DateTime.fromDateUnsafe(periodEnd)
        })),
        planId: null
      }
    })

    // One statement and so one round trip, for the latency of a lone request: it moves the counter of one cap.
    const reserveInOne = Effect.fnUntraced(function* (
      { amountUsd = 0n, ttlSeconds = ttlSecondsDefault }: ReserveRequest,
      request: HttpServerRequest.HttpServerRequest
    ) {
      const { name, tenantId } = yield* authenticate(request)
      const id = ReservationId.make(yield* random.uuidV7())
      const now = yield* DateTime.now
      const at = DateTime.toDateUtc(now)
      const expiresAt = DateTime.add(now, { seconds: ttlSeconds })
      const rows = yield* Effect.orDie(sql<{ readonly id: string }>`
        WITH moved AS (
          UPDATE naive_periods p SET reserved = reserved + ${amountUsd} FROM naive_caps c
          WHERE c.tenant_id = ${tenantId} AND p.tenant_id = c.tenant_id AND p.cap_id = c.id
            AND p.period_start <= ${at} AND p.period_end > ${at} AND p.spent + p.reserved + ${amountUsd} <= c.limit_amount
          RETURNING p.id)
        INSERT INTO naive_reservations SELECT ${tenantId}, ${id}, 'open', NULL, NULL, NULL, ${amountUsd}::bigint, 0,
          ${ttlSeconds}::integer, ${DateTime.toDateUtc(expiresAt)}, ${at}, ${name}, ARRAY[moved.id] FROM moved RETURNING id`)
      if (rows.length === 0) {
        return yield* new BudgetDenied({ reason: "exhausted", capId: null, resetsAt: null, caps: [] })
      }
      const remainingTtlSeconds = ttlSeconds
      return {
        id,
        state: "open" as const,
        amountUsd,
        tokens: 0,
        expiresAt,
        remainingTtlSeconds,
        caps: [],
        planId: null
      }
    })

    return handlers.handleAll({
      reserve: ({ payload, request }) => Effect.map(reserve(payload, request), created("/api/spend/reservations")),
      reserveInOne: ({ payload, request }) =>
        Effect.map(reserveInOne(payload, request), created("/api/spend/reservations"))
    })
  })
)

const Database = poolLayer({
  connection: { url: Redacted.make(process.env.BENCH_DATABASE_URL ?? "") },
  maxConnections: 10,
  statementTimeoutSeconds: 30
})

const Announced = Layer.effectDiscard(
  Effect.flatMap(HttpServer.HttpServer, ({ address }) =>
    Effect.sync(() => process.stdout.write(`listening on ${HttpServer.formatAddress(address)}\n`))
  )
)

HttpRouter.serve(HttpApiBuilder.layer(ForUpdateApi).pipe(Layer.provide(Handlers)), {
  disableLogger: true,
  disableListenLog: true
}).pipe(
  Layer.provideMerge(Announced),
  Layer.provide(NodeHttpServer.layer(createServer, { port: 0, host: "127.0.0.1" })),
  Layer.provide(Layer.effectDiscard(forUpdateTables)),
  Layer.provide(Layer.merge(Database, NodeCrypto.layerSecureRandom)),
  Layer.launch,
  NodeRuntime.runMain
)
