import { PgClient, PgConnection, PgPool, PgTypes } from "@effect/sql-pg"
import {
  Context,
  Data,
  Effect,
  Exit,
  Fiber,
  Layer,
  Option,
  Predicate,
  Result,
  Schema,
  type Scope,
  Stream
} from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, SqlError, Statement, type SqlConnection } from "effect/sql"

/** What a session must be like, its `role` too: sent at its start, and compared with what arrived. */
export type SessionSettings = Readonly<Record<string, string>>

/** A session without the state that tenancy and safety rest on, or one that may lose it. */
export class SessionRefused extends Data.TaggedError("SessionRefused")<{
  /** What is wrong, without names of the installation. */
  readonly summary: string
  readonly fault: string
  readonly remedy: string
}> {
  override get message() {
    return `A connection to the database (Database:Url) was refused: ${this.fault}. ${this.remedy}`
  }
}

const direct = "let Database:Url name PostgreSQL itself"

/** A pooler that ignores startup parameters drops them without an error. */
const dropped = (differences: ReadonlyArray<Difference>, isPooled: boolean) =>
  new SessionRefused({
    summary: `${differences.map(({ name }) => name).join(", ")} of its sessions are not as the service sets them`,
    fault: differences
      .map(({ actual, expected, name }) => `its ${name} is ${actual ?? "not set"} instead of ${expected}`)
      .join(", "),
    remedy: isPooled
      ? `A connection pooler changes or drops what the service sets at the start of a session (PgBouncer: ignore_startup_parameters). To mend it, ${direct}, or set these for the user who connects (ALTER ROLE … SET …) and let the pooler use pool_mode = session.`
      : `Something between the service and PostgreSQL changes or drops what the service sets at the start of a session (a connection pooler: ignore_startup_parameters). To mend it, ${direct}.`
  })

const sharedSession = new SessionRefused({
  summary: "its sessions are shared with others",
  fault: "its statements run in sessions that are shared with others",
  remedy: `A connection pooler pools transactions or statements, which loses locks, notifications and the state of sessions (PgBouncer: pool_mode). To mend it, ${direct}, or let the pooler use pool_mode = session.`
})

const unprotected = (role: string, tables: number) =>
  new SessionRefused({
    summary: "its role bypasses row-level security",
    fault: `its role ${role} bypasses row-level security on ${tables} tables`,
    remedy: `To mend it, let an administrator run ALTER ROLE ${role} NOSUPERUSER NOBYPASSRLS, and make another role the owner of its tables.`
  })

/** As an unreachable database: a request that meets it is answered 503, and the pool tries again. */
const refusedBy = (cause: SessionRefused) =>
  new SqlError.SqlError({
    reason: new SqlError.ConnectionError({ cause, message: cause.message, operation: "connect" })
  })

/** The refusal in an error of the database; undefined where it has another reason. */
export const refusalOf = (error: unknown): SessionRefused | undefined =>
  SqlError.isSqlError(error) && error.reason.cause instanceof SessionRefused ? error.reason.cause : undefined

const Difference = Schema.Struct({ name: Schema.String, expected: Schema.String, actual: Schema.NullOr(Schema.String) })
type Difference = typeof Difference.Type

const Found = Schema.Tuple([
  Schema.String,
  Schema.String,
  Schema.String,
  Schema.Int,
  Schema.NullOr(Schema.Int),
  Schema.fromJsonString(Schema.Array(Difference))
])

/** No user but a superuser may set it, and it turns triggers and foreign keys off. */
const neverChanged = { session_replication_role: "origin" }

/** The state of a session in one text, for a comparison at each transaction; `session_entry` compares the same. */
const fingerprintOf = (settings: SessionSettings): string => {
  const names = Object.keys({ ...settings, ...neverChanged }).filter((name) => name !== "role")
  const values = names.map((name) => `current_setting('${name.replaceAll("'", "''")}', true)`)
  return `concat_ws(' ', pg_backend_pid(), current_user, ${values.join()})`
}

// PostgreSQL shows 60s as 1min, so durations are compared as such.
const differences = `
  SELECT coalesce(json_agg(json_build_object('name', name, 'expected', expected, 'actual', actual)), '[]')::text
  FROM (
    SELECT name, expected, CASE name WHEN 'role' THEN current_user::text ELSE current_setting(name, true) END AS actual
    FROM json_each_text($1::json) AS e(name, expected)
  ) s
  WHERE NOT coalesce(
    CASE
      WHEN expected ~ '^[0-9]+s$' THEN actual::interval = expected::interval
      ELSE lower(actual) = lower(expected)
    END, false)`

const query = (connection: PgConnection.PgConnection, statement: string, values: ReadonlyArray<unknown> = []) =>
  connection.queryValues(statement, values, false)

const backendOf = (connection: PgConnection.PgConnection) =>
  Effect.map(query(connection, "SELECT pg_backend_pid()::text"), ([row]) => row?.[0])

/**
 * Whether the statements of two connections run in sessions of their own: a pooler that shares sessions gives one that is
 * idle to whichever asks next. A pooler that has none left for the second keeps the first one's.
 */
const isShared = Effect.fnUntraced(
  function* (options: PgConnection.Config, first: PgConnection.PgConnection, backend: string) {
    const second = yield* PgConnection.make(options)
    const backends = yield* Effect.forEach([second, first, first, second], backendOf)
    return backends[0] === backend || backends[1] !== backend || backends[2] !== backend || backends[3] !== backends[0]
  },
  Effect.scoped,
  Effect.timeoutOption("2 seconds"),
  Effect.map(Option.getOrElse(() => false))
)

/** The state of a session that was found right. */
interface Session {
  readonly fingerprint: string
  /** The type of the parameter by which a statement enters a tenant; none before the database has it. */
  readonly entryType: number | null
}

const entryCheck = "session_entry_check"
const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** Its values are sent as those of `text`. */
const registerEntryType = (oid: number): void =>
  PgTypes.register<string>(oid, {
    encode: (value) => Result.succeed(encoder.encode(value)),
    decode: (bytes) => Result.succeed(decoder.decode(bytes)),
    write: (sink, value) => Result.succeed(sink.utf8(value))
  })

/** Fails unless a new connection is as its settings say, and its own. */
const check = Effect.fnUntraced(function* (
  options: PgConnection.Config,
  settings: SessionSettings,
  connection: PgConnection.PgConnection
): Effect.fn.Return<Session, SqlError.SqlError> {
  const [row] = yield* query(
    connection,
    `SELECT pg_backend_pid()::text, ${fingerprintOf(settings)}, current_user::text,
      (SELECT count(*)::integer FROM pg_class WHERE relrowsecurity AND NOT row_security_active(oid)),
      to_regtype('public.session_entry')::oid::integer, (${differences})`,
    [JSON.stringify({ ...settings, ...neverChanged })]
  )
  const [backend, fingerprint, user, open, entryType, different] = yield* Effect.orDie(
    Schema.decodeUnknownEffect(Found)(row)
  )
  const isPooled = backend !== String(connection.processId)
  if (different.length > 0) return yield* refusedBy(dropped(different, isPooled))
  if (settings.role !== undefined && open > 0) return yield* refusedBy(unprotected(user, open))
  if (isPooled && (yield* isShared(options, connection, backend))) return yield* refusedBy(sharedSession)
  if (entryType !== null) registerEntryType(entryType)
  return { fingerprint, entryType }
})

export type PlannerMethod = "enable_sort" | "enable_seqscan"

/** Whose rows the statements of an effect see, each by itself outside of a transaction. */
export interface StatementScope {
  /** A tenant's id, or `*` for all tenants. */
  readonly tenant: string
  /** What the planner does not use. */
  readonly without: PlannerMethod | "nothing"
  /** Waits for the tenant's turn to use a connection. */
  readonly inTurn: <A, E, R>(statement: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

export const CurrentStatementScope = Context.Reference<StatementScope | undefined>(
  "app/platform/CurrentStatementScope",
  { defaultValue: () => undefined }
)

/** Interrupts without waiting: a database that does not respond would not respond to the cancellation either. */
export const interruptedWithoutWaiting = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkDetach(restore(effect), { startImmediately: true }), (fiber) =>
      Effect.onInterrupt(restore(Fiber.join(fiber)), () => Effect.sync(() => fiber.interruptUnsafe()))
    )
  )

/** Whether the connections to the database are what the service needs. */
export class DatabaseSessions extends Context.Service<
  DatabaseSessions,
  {
    /** Why connections are refused at present; asks again by a new connection after one was. */
    readonly refusal: Effect.Effect<SessionRefused | undefined>
    /** Notes that a connection was refused. */
    readonly refused: (refusal: SessionRefused) => Effect.Effect<void>
    /** Fails where the transaction under way runs in another session, or state, than its connection was found in. */
    readonly verify: (connection: unknown, fingerprint: unknown) => Effect.Effect<void, SqlError.SqlError>
    /** An expression with the state of the session that it runs in. */
    readonly fingerprint: string
  }
>()("app/platform/DatabaseSessions") {}

class SessionConnection implements SqlConnection.Connection {
  readonly connection: PgConnection.PgConnection
  readonly session: Session
  /** Keeps the session from further use. */
  readonly retire: Effect.Effect<void>

  constructor(connection: PgConnection.PgConnection, session: Session, retire: Effect.Effect<void>) {
    this.connection = connection
    this.session = session
    this.retire = retire
  }

  protected query(sql: string, values: ReadonlyArray<unknown>, prepare?: boolean) {
    return this.connection.query(sql, values, prepare)
  }
  protected queryValues(sql: string, values: ReadonlyArray<unknown>, prepare?: boolean) {
    return this.connection.queryValues(sql, values, prepare)
  }
  protected stream(sql: string, values: ReadonlyArray<unknown>) {
    return this.connection.stream(sql, values)
  }

  private run(sql: string, values: ReadonlyArray<unknown>, transform: Transform, prepare = true) {
    return Effect.map(this.query(sql, values, prepare), ({ rows }) =>
      transform === undefined ? rows : transform(rows)
    )
  }

  execute(sql: string, values: ReadonlyArray<unknown>, transform: Transform) {
    return this.run(sql, values, transform)
  }
  executeUnprepared(sql: string, values: ReadonlyArray<unknown>, transform: Transform) {
    return this.run(sql, values, transform, false)
  }
  executeRaw(sql: string, values: ReadonlyArray<unknown>) {
    return this.query(sql, values)
  }
  executeValues(sql: string, values: ReadonlyArray<unknown>) {
    return this.queryValues(sql, values)
  }
  executeValuesUnprepared(sql: string, values: ReadonlyArray<unknown>) {
    return this.queryValues(sql, values, false)
  }
  executeStream(sql: string, values: ReadonlyArray<unknown>, transform: Transform) {
    const rows = this.stream(sql, values)
    return transform === undefined ? rows : Stream.mapArray(rows, (some) => transform(some) as typeof some)
  }
}

/**
 * A session whose statements each enter a tenant and read. One more parameter does that, which no statement names: of the type
 * `session_entry`, whose constraint sets the tenant. PostgreSQL reads parameters before it plans a statement, so nothing of
 * the statement is evaluated earlier; what is set ends with the statement, which is a transaction of its own.
 */
class EnteringConnection extends SessionConnection {
  private readonly entry: PgTypes.Parameter
  private readonly refuse: Effect.Effect<never, SqlError.SqlError>

  constructor(
    one: SessionConnection,
    entryType: number,
    { tenant, without }: StatementScope,
    refuse: Effect.Effect<never, SqlError.SqlError>
  ) {
    super(one.connection, one.session, one.retire)
    this.refuse = refuse
    this.entry = {
      [PgTypes.ParameterTypeId]: PgTypes.ParameterTypeId,
      oid: entryType,
      value: `${tenant} ${without} on ${one.session.fingerprint}`
    }
  }

  private entered<A>(statement: Effect.Effect<A, SqlError.SqlError>) {
    return Effect.catchIf(statement, isEntryRefused, () => this.refuse)
  }
  protected override query(sql: string, values: ReadonlyArray<unknown>, prepare?: boolean) {
    return this.entered(super.query(sql, [...values, this.entry], prepare))
  }
  protected override queryValues(sql: string, values: ReadonlyArray<unknown>, prepare?: boolean) {
    return this.entered(super.queryValues(sql, [...values, this.entry], prepare))
  }
  protected override stream(sql: string, values: ReadonlyArray<unknown>) {
    const rows = super.stream(sql, [...values, this.entry])
    return Stream.catchIf(rows, isEntryRefused, () => Stream.fromEffect(this.refuse))
  }
}

/** Whether a statement was to run in another session, or state, than its connection was found in. */
const isEntryRefused = ({ reason: { cause } }: SqlError.SqlError): boolean =>
  Predicate.hasProperty(cause, "constraint") && cause.constraint === entryCheck

type Transform = (<A extends object>(rows: ReadonlyArray<A>) => ReadonlyArray<A>) | undefined

export interface ClientOptions extends PgPool.Config {
  readonly settings: SessionSettings
  readonly transformQueryNames?: ((name: string) => string) | undefined
  readonly transformResultNames?: ((name: string) => string) | undefined
}

interface Source {
  readonly acquirer: SqlConnection.Acquirer
  readonly borrower: SqlConnection.Borrower | undefined
  readonly pinned: Effect.Effect<SessionConnection, SqlError.SqlError, Scope.Scope>
}

/** What `PgClient.make` does, with connections that were checked: it has no hook between connecting and the first statement. */
const clientOver = Effect.fnUntraced(function* (options: ClientOptions, { acquirer, borrower, pinned }: Source) {
  const { transformQueryNames, transformResultNames, ...config } = options
  const client = yield* SqlClient.make({
    driver: "pg",
    acquirer,
    borrower,
    transactionAcquirer: pinned,
    prepareTransactionControls: true,
    commit,
    releaseSavepoint: (name) => `RELEASE SAVEPOINT ${name}`,
    compiler: PgClient.makeCompiler(transformQueryNames, false),
    spanAttributes: [
      ["db.system.name", "postgresql"],
      ["db.namespace", config.database ?? config.username ?? "postgres"],
      ["server.address", config.host ?? "localhost"],
      ["server.port", config.port ?? 5432]
    ],
    transformRows:
      transformResultNames === undefined ? undefined : Statement.defaultTransforms(transformResultNames, false).array
  })
  return Object.assign(client, {
    [PgClient.TypeId]: PgClient.TypeId,
    config,
    json: (value: unknown) => Statement.fragment([json(value)]),
    listen: (channel: string) => Effect.flatMap(pinned, ({ connection }) => connection.listen(channel)),
    notify: (channel: string, payload: string) => Effect.asVoid(client`SELECT pg_notify(${channel}, ${payload})`)
  } satisfies Omit<PgClient.PgClient, keyof SqlClient.SqlClient>)
})

const json = Statement.custom<Statement.Custom<"PgJson", unknown>>("PgJson")

/** PostgreSQL answers `ROLLBACK` to the `COMMIT` of a transaction that has failed. */
const commit = (connection: SqlConnection.Connection): Effect.Effect<void, SqlError.SqlError> =>
  Effect.flatMap(connection.executeRaw("COMMIT", []), (result) =>
    (result as PgConnection.Result).command === "ROLLBACK"
      ? Effect.fail(
          new SqlError.SqlError({
            reason: new SqlError.UnknownError({ cause: new Error("COMMIT rolled back"), operation: "commit" })
          })
        )
      : Effect.void
  )

const withoutSettings = ({ settings, ...options }: ClientOptions): PgPool.Config => ({
  ...options,
  startupParameters: { ...options.startupParameters, ...settings }
})

/** A pool each of whose connections is checked before its first statement. */
const makePool = Effect.fnUntraced(function* (options: ClientOptions) {
  const config = withoutSettings(options)
  const pool = yield* PgPool.make(config)
  const known = new WeakMap<PgConnection.PgConnection, SessionConnection>()
  let last: SessionRefused | undefined
  /** A start that is refused says so itself. */
  let hasStarted = false

  const refused = (refusal: SessionRefused) =>
    Effect.suspend(() => {
      const isNew = last?.summary !== refusal.summary
      last = refusal
      return isNew && hasStarted ? Effect.logWarning(refusal.message) : Effect.void
    })
  const noting = <A, R>(checked: Effect.Effect<A, SqlError.SqlError, R>) =>
    Effect.onExit(checked, (exit) => {
      if (Exit.isSuccess(exit)) {
        last = undefined
        hasStarted = true
      }
      const refusal = Option.getOrUndefined(Option.map(Exit.findErrorOption(exit), refusalOf))
      return refusal === undefined ? Effect.void : refused(refusal)
    })

  const checked = (connection: PgConnection.PgConnection) => {
    const found = known.get(connection)
    if (found !== undefined) return Effect.succeed(found)
    const retire = Effect.suspend(() => {
      known.delete(connection)
      return pool.invalidate(connection)
    })
    return noting(check(config, options.settings, connection)).pipe(
      Effect.map((session) => {
        const one = new SessionConnection(connection, session, retire)
        known.set(connection, one)
        return one
      }),
      Effect.onError(() => retire)
    )
  }

  const refuse = (retire: Effect.Effect<void>) =>
    Effect.andThen(
      Effect.andThen(refused(sharedSession), retire),
      Effect.failSync(() => refusedBy(sharedSession))
    )

  const entering = (one: SessionConnection, scope: StatementScope) => {
    const { retire, session } = one
    if (session.entryType !== null) return new EnteringConnection(one, session.entryType, scope, refuse(retire))
    throw new Error("The database has no type session_entry")
  }
  /** Lends a session for one statement, which is cancelled where its caller is interrupted. */
  const borrower: SqlConnection.Borrower = (use) =>
    Effect.flatMap(CurrentStatementScope, (scope) => {
      const statement = pool.use((connection) =>
        Effect.flatMap(checked(connection), (one) => use(scope === undefined ? one : entering(one, scope)))
      )
      return interruptedWithoutWaiting(scope === undefined ? statement : scope.inTurn(statement))
    })

  const client = yield* clientOver(options, {
    acquirer: Effect.flatMap(Effect.flatMap(pool.get, checked), (one) =>
      Effect.map(CurrentStatementScope, (scope) => (scope === undefined ? one : entering(one, scope)))
    ),
    borrower,
    pinned: Effect.flatMap(Effect.flatMap(pool.get, checked), ({ connection, retire, session }) =>
      Effect.map(connection.pin, (pin) => new SessionConnection(pin, session, retire))
    )
  })

  const verify: DatabaseSessions["Service"]["verify"] = (connection, fingerprint) => {
    if (!(connection instanceof SessionConnection)) return Effect.die(new Error("A connection without a known session"))
    return connection.session.fingerprint === fingerprint ? Effect.void : refuse(connection.retire)
  }
  const probe = Effect.scoped(
    Effect.flatMap(PgConnection.make(config), (connection) => noting(check(config, options.settings, connection)))
  )
  const sessions = DatabaseSessions.of({
    refusal: Effect.suspend(() =>
      last === undefined
        ? Effect.succeed(undefined)
        : Effect.andThen(
            Effect.ignore(probe),
            Effect.sync(() => last)
          )
    ),
    refused,
    verify,
    fingerprint: fingerprintOf(options.settings)
  })
  return { client, sessions }
})

const contextOf = (client: PgClient.PgClient) =>
  Context.make(PgClient.PgClient, client).pipe(Context.add(SqlClient.SqlClient, client))

/** A pool; its first connection is made, and so checked, at once. */
export const sessionPoolLayer = (options: ClientOptions) =>
  Layer.effectContext(
    Effect.gen(function* () {
      const { client, sessions } = yield* makePool(options)
      yield* Effect.scoped(client.reserve)
      return Context.add(contextOf(client), DatabaseSessions, sessions)
    })
  ).pipe(Layer.provide(Reactivity.layer))

/** One connection, whose statements see the rows of a tenant, or of all (`*`), outside transactions too. */
export const singleSessionLayer = ({ tenantId, ...options }: ClientOptions & { readonly tenantId: string }) =>
  Layer.effectContext(
    Effect.gen(function* () {
      const config = withoutSettings(options)
      const connection = yield* PgConnection.make(config)
      const session = yield* Effect.tapError(check(config, options.settings, connection), (error) =>
        Effect.flatMap(Effect.serviceOption(DatabaseSessions), (sessions) => {
          const refusal = refusalOf(error)
          return Option.isSome(sessions) && refusal !== undefined ? sessions.value.refused(refusal) : Effect.void
        })
      )
      yield* query(connection, "SELECT set_config('app.tenant_id', $1, false)", [tenantId])
      const one = new SessionConnection(connection, session, Effect.void)
      return contextOf(
        yield* clientOver(options, {
          acquirer: Effect.succeed(one),
          borrower: undefined,
          pinned: Effect.map(connection.pin, (pin) => new SessionConnection(pin, session, Effect.void))
        })
      )
    })
  ).pipe(Layer.provide(Reactivity.layer))
