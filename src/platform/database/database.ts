import { Clock, Context, DateTime, Effect, Layer, Option, Predicate, String as Text } from "effect"
import { SqlClient, type SqlError, type Statement } from "effect/sql"
import { CurrentPrincipal, type Principal } from "../../kernel/authority/principal.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { makeTurns } from "../runtime/turns.ts"
import { type DatabaseAddress, interruptedWithoutWaiting } from "./hosts.ts"
import { applicationRole } from "./migrations.ts"
import { CurrentReading } from "./read-replica.ts"
import { type Expected } from "./session-state.ts"
import {
  type ClientOptions,
  CurrentStatementScope,
  DatabaseSessions,
  sessionPoolLayer,
  type PlannerMethod,
  singleSessionLayer,
  type StatementScope
} from "./sessions.ts"

/** The moment that a statement judges time by; undefined for that of the database. */
export type Moment = DateTime.Utc | undefined

const machineClock = Context.get(Context.empty(), Clock.Clock)

/** The database's clock decides, whatever that of this machine says; only tests have another one. */
export const statementMoment: Effect.Effect<Moment> = Effect.clockWith((clock) =>
  Effect.succeed(clock === machineClock ? undefined : DateTime.makeUnsafe(clock.currentTimeMillisUnsafe()))
)

/** A moment in PostgreSQL's text. */
export const momentText = (moment: Moment): string | undefined =>
  moment === undefined ? undefined : DateTime.formatIso(moment)

/** Which tenant's rows a transaction may see: one tenant's, or every tenant's for a system principal. */
export type TenantScope = TenantId | "all"

/** The rows that a principal may see: its tenant's, or all. */
export const scopeOf = (principal: Principal): TenantScope =>
  principal.tenantId ?? (principal.kind === "anonymous" ? noTenant : "all")
const noTenant = "none" as TenantScope

/** Whose rows the current transaction, or read, sees; undefined outside one. */
const CurrentScope = Context.Reference<TenantScope | undefined>("app/platform/CurrentScope", {
  defaultValue: () => undefined
})

/** The tenant whose rows alone the current transaction, or read, sees, for statements that find them by an index. */
export const tenantInScope = Effect.map(CurrentScope, (scope) => (scope === "all" ? undefined : scope))

/** Whether a transaction is under way, which holds a connection. */
export const isInTransaction = Effect.zipWith(
  CurrentScope,
  CurrentStatementScope,
  (scope, ofStatements) => scope !== undefined && ofStatements === undefined
)

/** Reads with plans that do without a method of the planner. */
export const planningWithout = <A, E, R>(
  sql: SqlClient.SqlClient,
  method: PlannerMethod,
  reading: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.flatMap(CurrentStatementScope, (scope) => {
    if (scope !== undefined) {
      return Effect.provideService(reading, CurrentStatementScope, { ...scope, without: method })
    }
    const on = Effect.orDie(sql`SELECT set_config(${method}, 'on', true)`)
    const off = Effect.orDie(sql`SELECT set_config(${method}, 'off', true)`)
    return off.pipe(Effect.andThen(reading), Effect.tap(on))
  })

/** Set while a request's precondition is evaluated: reads lock the rows that they find, and note here that they have. */
export const LocksRows = Context.Reference<{ isLocked: boolean } | undefined>("app/platform/LocksRows", {
  defaultValue: () => undefined
})

/**
 * The end of the statement that reads a resource by its id: locks its row (of the table with this alias) where a change
 * follows that depends on what was read.
 */
export const rowLock = (sql: SqlClient.SqlClient, alias?: string): Effect.Effect<Statement.Fragment> =>
  Effect.map(LocksRows, (locks) => {
    if (locks === undefined) return sql.literal("")
    locks.isLocked = true
    return sql.literal(alias === undefined ? "FOR NO KEY UPDATE" : `FOR NO KEY UPDATE OF ${alias}`)
  })

/** Set while a request's precondition is evaluated whose change compares versions: reads note that of the row they find. */
export const NotesVersion = Context.Reference<{ version: string | undefined } | undefined>(
  "app/platform/NotesVersion",
  { defaultValue: () => undefined }
)

/** Notes the version of a row that was read by its id, where a change follows that requires it. */
export const noteVersionOf = (found: Option.Option<{ readonly version: string }>): Effect.Effect<void> =>
  Effect.map(NotesVersion, (noted) => {
    if (noted !== undefined && Option.isSome(found)) noted.version = found.value.version
  })

/**
 * The transactions and reads of the service. Row-level security shows a tenant-scoped table only inside them, which set the
 * tenant in PostgreSQL; statements outside of them see no tenant's rows.
 */
export class Database extends Context.Service<
  Database,
  {
    /** Runs an effect in one transaction (a savepoint inside another) that sees the rows of `scope`. */
    transaction<A, E, R>(scope: TenantScope, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R>
    /** The same in one snapshot: all that the effect reads is of one moment, and it writes nothing. */
    snapshot<A, E, R>(scope: TenantScope, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R>
    /**
     * Runs an effect that only reads, each of whose statements sees the rows of `scope` as of its own moment: a round trip each,
     * where a transaction has three more. In a transaction it is a part of that.
     */
    read<A, E, R>(scope: TenantScope, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R>
    /** Reads the rows that the caller may see. */
    asCaller<A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R>
    /**
     * A transaction for the rows that the caller may see, around a whole handler, which may need further connections: half of them are left for that, and a handler that
     * asks other servers delays its own tenant alone.
     */
    aroundHandler<A, E, R>(handler: Effect.Effect<A, E, R>): Effect.Effect<A, E, R>
    /** Runs an effect outside of the transaction under way. */
    outside<A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R>
  }
>()("app/platform/Database") {
  /**
   * Over a pool of so many connections, for which tenants queue in turns: one that asks much delays itself alone, and leaves
   * some to others.
   */
  static readonly layer = (maxConnections: number) =>
    Layer.effect(
      Database,
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const inTurn = yield* makeTurns({ atOnce: maxConnections, ofOne: Math.max(1, maxConnections - 2) })
        const handlersAtOnce = Math.max(1, Math.floor(maxConnections / 2))
        const handlerInTurn = yield* makeTurns({
          atOnce: handlersAtOnce,
          ofOne: Math.max(2, Math.ceil(handlersAtOnce / 2))
        })
        const sessions = yield* DatabaseSessions
        const fingerprint = sql.literal(sessions.fingerprint)
        const set = (scope: TenantScope) => sql`set_config('app.tenant_id', ${settingOf(scope)}, true)`
        const enter = (scope: TenantScope) => sql`SELECT ${set(scope)}`.values
        // The answer to the first statement says whether the transaction runs in the session that was checked.
        const begin = (scope: TenantScope) =>
          Effect.contextWith((context: Context.Context<never>) =>
            sql`SELECT ${set(scope)}, ${fingerprint}`.values.pipe(
              Effect.map(([row]) => row?.[1]),
              Effect.catchIf(isStatementLost, () => Effect.undefined),
              Effect.flatMap((found) =>
                sessions.verify(Context.getOrUndefined(context, sql.transactionService)?.[0], found)
              )
            )
          )

        const within = <A, E, R>(
          isInner: boolean,
          outer: TenantScope | undefined,
          scope: TenantScope,
          effect: Effect.Effect<A, E, R>
        ): Effect.Effect<A, E | SqlError.SqlError, R> => {
          if (outer === scope) return effect
          const entered = Effect.andThen(
            isInner ? enter(scope) : begin(scope),
            Effect.provideService(effect, CurrentScope, scope)
          )
          // A setting made in a savepoint outlives its release; only a rollback reverts it.
          return outer === undefined ? entered : Effect.tap(entered, () => enter(outer))
        }

        const run = <A, E, R>(
          isSnapshot: boolean,
          scope: TenantScope,
          effect: Effect.Effect<A, E, R>
        ): Effect.Effect<A, E, R> =>
          Effect.contextWith((context: Context.Context<never>) => {
            // An effect that runs after the commit has the scope it was registered in, but no transaction.
            const isInner = Context.getOrUndefined(context, sql.transactionService) !== undefined
            const outer = isInner ? Context.get(context, CurrentScope) : undefined
            const scoped = within(isInner, outer, scope, effect)
            if (isInner) return dying(sql.withTransaction(scoped))
            // What the effect runs outside of its transaction is outside of a read around it, too.
            const alone = Effect.provideService(scoped, CurrentStatementScope, undefined)
            return interruptedWithoutWaiting(
              inTurn(scope, dying(isSnapshot ? beginningSnapshot(sql, alone) : sql.withTransaction(alone)))
            )
          })

        const transaction: Database["Service"]["transaction"] = (scope, effect) => run(false, scope, effect)

        const read: Database["Service"]["read"] = (scope, effect) =>
          Effect.contextWith((context: Context.Context<never>) => {
            const isInner = Context.getOrUndefined(context, sql.transactionService) !== undefined
            if (isInner)
              return Context.get(context, CurrentScope) === scope ? dying(effect) : transaction(scope, effect)
            const ofStatements: StatementScope = {
              tenant: settingOf(scope),
              without: "nothing",
              inTurn: (statement) => inTurn(scope, statement)
            }
            const scoped = Effect.provideService(effect, CurrentStatementScope, ofStatements)
            return dying(Effect.provideService(scoped, CurrentScope, scope))
          })

        return Database.of({
          transaction,
          snapshot: (scope, effect) => run(true, scope, effect),
          read,
          asCaller: (effect) => Effect.flatMap(CurrentPrincipal, (principal) => read(scopeOf(principal), effect)),
          aroundHandler: (handler) =>
            Effect.contextWith((context: Context.Context<never>) => {
              const scope = scopeOf(Context.get(context, CurrentPrincipal))
              const changed = transaction(scope, handler)
              const isInner = Context.getOrUndefined(context, sql.transactionService) !== undefined
              return isInner ? changed : handlerInTurn(scope, changed)
            }),
          outside: (effect) =>
            Effect.updateContext(
              effect,
              (context) =>
                Context.add(
                  Context.omit(sql.transactionService, CurrentReading)(context),
                  CurrentStatementScope,
                  undefined
                ) as typeof context
            )
        })
      })
    )
}

const settingOf = (scope: TenantScope): string => (scope === "all" ? "*" : scope)

const dying = <A, E, R>(effect: Effect.Effect<A, E | SqlError.SqlError, R>): Effect.Effect<A, E, R> =>
  Effect.catchIf(effect, isSqlError, Effect.die) as Effect.Effect<A, E, R>

/** In one snapshot; the transactions that the effect begins outside of it are none. */
const beginningSnapshot = <A, E, R>(sql: SqlClient.SqlClient, effect: Effect.Effect<A, E, R>) =>
  Effect.provideService(
    sql.withTransaction(Effect.provideService(effect, SqlClient.BeginTransaction, undefined)),
    SqlClient.BeginTransaction,
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
  )

/** Whether a session does not know what was prepared in it, which ends a transaction: it is another one. */
const isStatementLost = ({ reason: { cause } }: SqlError.SqlError): boolean =>
  Predicate.hasProperty(cause, "code") && (cause.code === "26000" || cause.code === "25P02")

const isSqlError = (error: unknown): error is SqlError.SqlError =>
  typeof error === "object" && error !== null && "_tag" in error && error._tag === "SqlError"

/** Column names are few and come with every row, so each is transformed once. */
const memoized = (transform: (name: string) => string) => {
  const known = new Map<string, string>()
  return (name: string): string => {
    let transformed = known.get(name)
    if (transformed === undefined) known.set(name, (transformed = transform(name)))
    return transformed
  }
}

export interface PoolOptions {
  readonly connection: DatabaseAddress
  /** A pooler whose sessions the pool shares with others, transaction by transaction; `connection` is for all that needs its own. */
  readonly pooler?: DatabaseAddress | undefined
  /** A replica, or several, that answer some reads. */
  readonly replica?: DatabaseAddress | undefined
  readonly maxConnections: number
  readonly statementTimeoutSeconds: number
}

/**
 * The longest message of the server that a connection reads: all that PostgreSQL sends, whose values have less than a
 * gibibyte. What each kind of value may have is limited where it is stored.
 */
export const maxMessageSize = 2 ** 30

/**
 * Every session runs as the application's role, which owns nothing and bypasses no policy. What the server, the database or
 * the user has by default matters for none of these.
 */
const clientOptions = (
  setting: Expected["setting"],
  address: DatabaseAddress,
  statementTimeoutSeconds: number
): ClientOptions => ({
  ...address,
  maxMessageSize,
  applicationName: "application-manager",
  expected: {
    setting,
    isPooled: setting === "Database:PoolUrl",
    isWritten: address.hosts !== undefined && setting !== "Database:ReadUrl",
    settings: {
      role: applicationRole,
      row_security: "on",
      search_path: "public, pg_temp",
      default_transaction_isolation: "read committed",
      statement_timeout: `${statementTimeoutSeconds}s`,
      idle_in_transaction_session_timeout: `${statementTimeoutSeconds * 2}s`,
      timezone: "UTC",
      datestyle: "ISO, MDY",
      // Compiling takes seconds that the statements of this service do not have to spare.
      jit: "off"
    }
  },
  transformQueryNames: memoized(Text.camelToSnake),
  transformResultNames: memoized(Text.snakeToCamel)
})

/** The pool that requests share. */
export const poolLayer = ({ connection, maxConnections, pooler, replica, statementTimeoutSeconds }: PoolOptions) => {
  const direct = clientOptions("Database:Url", connection, statementTimeoutSeconds)
  const pooled = pooler && { ...clientOptions("Database:PoolUrl", pooler, statementTimeoutSeconds), listening: direct }
  return Database.layer(maxConnections).pipe(
    Layer.provideMerge(
      sessionPoolLayer({
        ...(pooled ?? direct),
        maxConnections,
        replica: replica && { ...clientOptions("Database:ReadUrl", replica, statementTimeoutSeconds), maxConnections }
      })
    )
  )
}

/**
 * One connection outside the pool, for work under a session lock: it fails once the connection, and so the lock, is lost.
 * It sees every tenant's rows, and the server drops it within seconds when this host disappears.
 */
export const sessionLayer = (connection: DatabaseAddress) =>
  singleSessionLayer({
    ...clientOptions("Database:Url", connection, 30),
    applicationName: "application-manager-session",
    startupParameters: { tcp_keepalives_idle: "2", tcp_keepalives_interval: "1", tcp_keepalives_count: "3" },
    tenantId: "*"
  })

/** The name of the constraint that a statement violated; undefined when the database gives none. */
export const violatedConstraint = (reason: { readonly cause: unknown }): unknown =>
  Predicate.hasProperty(reason.cause, "constraint") ? reason.cause.constraint : undefined
