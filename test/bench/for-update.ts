import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { DateTime, Effect, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { HttpRouter, HttpServer, type HttpServerRequest } from "effect/http"
import { HttpApi, HttpApiBuilder, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { createServer } from "node:http"
import { OpenedReservation, ReservationId, ReserveRequest } from "../../src/ledger/domain.ts"
import { totalOf } from "../../src/ledger/quantity-domain.ts"
import { BudgetDenied } from "../../src/ledger/problem-domain.ts"
import { CapId } from "../../src/ledger/cap-domain.ts"
import { Created, created } from "../../src/kernel/location.ts"
import { poolLayer } from "../../src/platform/database.ts"
import { connection, join } from "../../src/platform/embedded-postgres.ts"

/**
 * The reserve endpoint as it is usually written: a transaction locks the cap's row, looks, writes the reservation and moves
 * the counter. It knows one kind of cap and one key, so it does less than the service.
 */
class ForUpdateApi extends HttpApi.make("for-update").add(
  HttpApiGroup.make("spend")
    .add(
      HttpApiEndpoint.post("reserve", "/reserve", {
        payload: ReserveRequest,
        success: Created(OpenedReservation),
        error: BudgetDenied
      })
    )
    .prefix("/api/spend")
) {}

const tables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SET ROLE NONE`
  yield* sql`
    CREATE TABLE IF NOT EXISTS naive_caps (id uuid PRIMARY KEY, limit_amount bigint NOT NULL, spent bigint NOT NULL,
      reserved bigint NOT NULL) WITH (fillfactor = 50)`
  yield* sql`
    CREATE TABLE IF NOT EXISTS naive_reservations (id uuid PRIMARY KEY, cap_id uuid NOT NULL, amount bigint NOT NULL,
      state text NOT NULL, created_by text NOT NULL, created_at timestamptz NOT NULL, expires_at timestamptz NOT NULL)`
  yield* sql`GRANT SELECT, INSERT, UPDATE ON naive_caps, naive_reservations TO application_manager`
  yield* sql`
    INSERT INTO naive_caps SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 1000000000000000, 0, 0
    FROM generate_series(0, 1999) n ON CONFLICT DO NOTHING`
})

const digest = (text: string) => createHash("sha256").update(text).digest("hex")
const expected = digest(process.env.BENCH_KEY ?? "")

const Handlers = HttpApiBuilder.group(
  ForUpdateApi,
  "spend",
  Effect.fn(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const random = yield* SecureRandom.SecureRandom
    const reserve = Effect.fnUntraced(function* (
      { amountUsd = 0n, taskType }: ReserveRequest,
      request: HttpServerRequest.HttpServerRequest
    ) {
      if (digest(request.headers["x-api-key"] ?? "") !== expected) return yield* Effect.die("no key")
      const id = ReservationId.make(yield* random.uuidV7())
      const now = yield* DateTime.now
      const expiresAt = DateTime.add(now, { minutes: 5 })
      const place = Number(taskType ?? 0)
        .toString(16)
        .padStart(12, "0")
      const capId = CapId.make(`00000000-0000-7000-8000-${place}`)
      const row = yield* sql<{ readonly left: bigint }>`
        SELECT limit_amount - spent - reserved AS left FROM naive_caps WHERE id = ${capId} FOR UPDATE`.pipe(
        Effect.tap(
          sql`
            INSERT INTO naive_reservations VALUES (${id}, ${capId}, ${amountUsd}, 'open', 'api-key:bench',
              ${DateTime.toDateUtc(now)}, ${DateTime.toDateUtc(expiresAt)})`
        ),
        Effect.tap(sql`UPDATE naive_caps SET reserved = reserved + ${amountUsd} WHERE id = ${capId}`),
        sql.withTransaction,
        Effect.orDie
      )
      const left = row[0]?.left ?? 0n
      if (left < amountUsd) {
        return yield* new BudgetDenied({ reason: "exhausted", capId, resetsAt: null, caps: [] })
      }
      return {
        id,
        state: "open" as const,
        amountUsd,
        tokens: 0,
        expiresAt,
        remainingTtlSeconds: 300,
        caps: [{ capId, name: "hot", headroom: totalOf("usd", left - amountUsd), resetsAt: null }],
        planId: null
      }
    })
    return handlers.handleAll({
      reserve: ({ payload, request }) => Effect.map(reserve(payload, request), created("/api/spend/reservations"))
    })
  })
)

const Database = Layer.unwrap(
  Effect.map(join({ directory: process.env.BENCH_DATABASE ?? "" }), (server) =>
    poolLayer({ connection: connection(server), maxConnections: 10, statementTimeoutSeconds: 30 })
  )
)

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
  Layer.provide(Layer.effectDiscard(tables)),
  Layer.provide(Layer.merge(Database, NodeCrypto.layerSecureRandom)),
  Layer.launch,
  NodeRuntime.runMain
)
