import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Fiber, Layer, String as Text } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { type TenantId } from "../../kernel/identifier.ts"
import { CurrentPrincipal, type Principal } from "../../kernel/principal.ts"
import { applicationRole } from "./migrations.ts"

/** Which tenant's rows a transaction may see: one tenant's, or every tenant's for a system principal. */
export type TenantScope = TenantId | "all"

/** The rows that a principal may see: its tenant's, or all. */
export const scopeOf = (principal: Principal): TenantScope =>
  principal.tenantId ?? (principal.kind === "anonymous" ? nobody : "all")
const nobody = "none" as TenantScope

/** Whose rows the transaction in hand sees; undefined outside one. */
const CurrentScope = Context.Reference<TenantScope | undefined>("app/platform/CurrentScope", {
  defaultValue: () => undefined
})

/**
 * The transactions of the service. Row-level security shows a tenant-scoped table only inside {@link Database.transaction},
 * which tells PostgreSQL whose rows they are; plain statements run on any connection and see no tenant's rows.
 */
export class Database extends Context.Service<
  Database,
  {
    /** Runs an effect in one transaction (a savepoint inside another) that sees the rows of `scope`. */
    transaction<A, E, R>(scope: TenantScope, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R>
    /** The same for the rows that the caller may see. */
    asCaller<A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R>
  }
>()("app/platform/Database") {
  static readonly layer = Layer.effect(
    Database,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const enter = (scope: TenantScope) =>
        sql`SELECT set_config('app.tenant_id', ${scope === "all" ? "*" : scope}, true)`.values

      const within = <A, E, R>(
        outer: TenantScope | undefined,
        scope: TenantScope,
        effect: Effect.Effect<A, E, R>
      ): Effect.Effect<A, E | SqlError.SqlError, R> => {
        if (outer === scope) return effect
        const entered = Effect.andThen(enter(scope), Effect.provideService(effect, CurrentScope, scope))
        // What a savepoint set outlives its release; only a rollback to it takes that back.
        return outer === undefined ? entered : Effect.tap(entered, () => enter(outer))
      }

      const transaction: Database["Service"]["transaction"] = (scope, effect) =>
        Effect.contextWith((context: Context.Context<never>) => {
          // What runs after a commit keeps the scope it was registered in, but no transaction.
          const isInner = Context.getOrUndefined(context, sql.transactionService) !== undefined
          const outer = isInner ? Context.get(context, CurrentScope) : undefined
          const transaction = Effect.catchIf(sql.withTransaction(within(outer, scope, effect)), isSqlError, Effect.die)
          return isInner ? transaction : unattended(transaction)
        })

      return Database.of({
        transaction,
        asCaller: (effect) => Effect.flatMap(CurrentPrincipal, (principal) => transaction(scopeOf(principal), effect))
      })
    })
  )
}

/** An interruption is handed on and not waited for: a database that says nothing would not answer the rollback either. */
const unattended = <A, E, R>(transaction: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkDetach(restore(transaction), { startImmediately: true }), (fiber) =>
      Effect.onInterrupt(restore(Fiber.join(fiber)), () => Effect.sync(() => fiber.interruptUnsafe()))
    )
  )

const isSqlError = (error: unknown): error is SqlError.SqlError =>
  typeof error === "object" && error !== null && "_tag" in error && error._tag === "SqlError"

/** Column names are few and come with every row, so each is transformed once. */
const once = (transform: (name: string) => string) => {
  const known = new Map<string, string>()
  return (name: string): string => {
    let transformed = known.get(name)
    if (transformed === undefined) known.set(name, (transformed = transform(name)))
    return transformed
  }
}

export interface PoolOptions {
  readonly connection: PgClient.PgClientConfig
  readonly maxConnections: number
  readonly statementTimeoutSeconds: number
}

/** Every session runs as the application's role, which owns nothing and bypasses no policy. */
const clientOptions = (connection: PgClient.PgClientConfig, statementTimeoutSeconds: number) => ({
  ...connection,
  applicationName: "application-manager",
  connectTimeout: "5 seconds" as const,
  startupParameters: {
    role: applicationRole,
    statement_timeout: `${statementTimeoutSeconds}s`,
    idle_in_transaction_session_timeout: `${statementTimeoutSeconds * 2}s`,
    timezone: "UTC"
  },
  transformQueryNames: once(Text.camelToSnake),
  transformResultNames: once(Text.snakeToCamel),
  transformJson: false
})

/** The pool that requests share. */
export const poolLayer = (options: PoolOptions) =>
  Database.layer.pipe(
    Layer.provideMerge(
      PgClient.layer({
        ...clientOptions(options.connection, options.statementTimeoutSeconds),
        maxConnections: options.maxConnections,
        // An interruption waits for no answer of the database, which only a pipeline allows; but what is sent after a statement
        // that takes long would wait for it, so nothing shares a connection.
        multiplex: true,
        multiplexConcurrency: 1
      })
    )
  )

/**
 * One connection outside the pool, for work that a session lock protects: it can do nothing more once the connection, and
 * with it the lock, is gone. It sees every tenant's rows, and the server drops it within seconds when this host vanishes.
 */
export const sessionLayer = (connection: PgClient.PgClientConfig) => {
  const options = clientOptions(connection, 30)
  return PgClient.layerFrom(
    PgClient.makeClient({
      ...options,
      applicationName: "application-manager-session",
      startupParameters: {
        ...options.startupParameters,
        "app.tenant_id": "*",
        tcp_keepalives_idle: "2",
        tcp_keepalives_interval: "1",
        tcp_keepalives_count: "3"
      }
    })
  )
}
