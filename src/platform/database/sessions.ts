import { PgClient, PgConnection, PgPool, PgTypes } from "@effect/sql-pg"
import { Context, type Duration, Effect, Exit, Layer, Option, Predicate, Queue, Schedule, Scope, Stream } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, SqlError, Statement, type SqlConnection } from "effect/sql"
import { atCurrentHost, type Hosts, interruptedWithoutWaiting, noAnswer, onUsableHost } from "./hosts.ts"
import { makeReplica, ReadReplica, type Source } from "./read-replica.ts"
import {
  checkSession,
  type Expected,
  fingerprintOf,
  isEntryRefused,
  isReadOnly,
  isStrange,
  refusalOf,
  refusedBy,
  type Session,
  type SessionRefused,
  strayed
} from "./session-state.ts"

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

/** What happens to a connection that cannot be used any longer. */
interface Fate {
  /** Keeps the session from further use. */
  readonly retire: Effect.Effect<void>
  /** Fails a statement that was to run in another session, or state, than its connection was found in. */
  readonly refuse: Effect.Effect<never, SqlError.SqlError>
  /** Looks for another server where one of several has become read-only. */
  readonly leave?: Effect.Effect<void>
}

class SessionConnection implements SqlConnection.Connection {
  readonly connection: PgConnection.PgConnection
  readonly session: Session
  readonly fate: Fate

  constructor(connection: PgConnection.PgConnection, session: Session, fate: Fate) {
    this.connection = connection
    this.session = session
    this.fate = fate
  }

  protected query(sql: string, values: ReadonlyArray<unknown>, prepare?: boolean) {
    return this.leaving(this.connection.query(sql, values, prepare))
  }
  protected queryValues(sql: string, values: ReadonlyArray<unknown>, prepare?: boolean) {
    return this.leaving(this.connection.queryValues(sql, values, prepare))
  }
  protected stream(sql: string, values: ReadonlyArray<unknown>) {
    return this.connection.stream(sql, values)
  }

  private leaving<A>(statement: Effect.Effect<A, SqlError.SqlError>) {
    const { leave } = this.fate
    if (leave === undefined) return statement
    const message = "The server has become read-only"
    return Effect.catchIf(statement, isReadOnlyServer, ({ reason: { cause } }) =>
      Effect.andThen(
        leave,
        new SqlError.SqlError({ reason: new SqlError.ConnectionError({ cause, message, operation: "query" }) })
      )
    )
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
 * `session_entry` or `pooled_entry`, whose constraint sets the tenant. PostgreSQL reads parameters before it plans a statement,
 * so nothing of the statement is evaluated earlier; what is set ends with the statement, which is a transaction of its own.
 * Without a scope, where only the state is compared, the statement sees no tenant's rows and may write.
 */
class EnteringConnection extends SessionConnection {
  private readonly entry: PgTypes.Parameter
  private readonly isRefused: (error: SqlError.SqlError) => boolean

  constructor(
    { connection, fate, session }: SessionConnection,
    entryType: number,
    { tenant, without }: Pick<StatementScope, "tenant" | "without"> = outsideOfTenants
  ) {
    super(connection, session, fate)
    this.isRefused = session.isPooled ? isStrange : isEntryRefused
    const access = tenant === "" ? "any" : "on"
    this.entry = {
      [PgTypes.ParameterTypeId]: PgTypes.ParameterTypeId,
      oid: entryType,
      value: `${tenant} ${without} ${access} ${session.fingerprint}`
    }
  }

  /** Whether a statement has the parameter. */
  protected enters(_sql: string): boolean {
    return true
  }
  private entered<A>(statement: Effect.Effect<A, SqlError.SqlError>) {
    return Effect.catchIf(statement, this.isRefused, () => this.fate.refuse)
  }
  protected override query(sql: string, values: ReadonlyArray<unknown>, prepare?: boolean) {
    return this.enters(sql)
      ? this.entered(super.query(sql, [...values, this.entry], prepare))
      : super.query(sql, values, prepare)
  }
  protected override queryValues(sql: string, values: ReadonlyArray<unknown>, prepare?: boolean) {
    return this.enters(sql)
      ? this.entered(super.queryValues(sql, [...values, this.entry], prepare))
      : super.queryValues(sql, values, prepare)
  }
  protected override stream(sql: string, values: ReadonlyArray<unknown>) {
    if (!this.enters(sql)) return super.stream(sql, values)
    const rows = super.stream(sql, [...values, this.entry])
    return Stream.catchIf(rows, this.isRefused, () => Stream.fromEffect(this.fate.refuse))
  }
}

const outsideOfTenants = { tenant: "", without: "nothing" } as const

/**
 * A connection for transactions through a pooler, each of which may run in another session: the first statement behind `BEGIN`
 * compares the state of its session, and so does each statement outside of one.
 */
class PooledConnection extends EnteringConnection {
  private place: "outside" | "begun" | "compared" = "outside"

  protected override enters(sql: string): boolean {
    if (sql.startsWith("BEGIN") || sql === "COMMIT" || sql === "ROLLBACK") {
      this.place = sql.startsWith("BEGIN") ? "begun" : "outside"
      return false
    }
    if (this.place === "compared") return false
    if (this.place === "begun") this.place = "compared"
    return true
  }
}

/** Whether a server accepts no writes, as one that has become a standby. */
const isReadOnlyServer = ({ reason: { cause } }: SqlError.SqlError): boolean =>
  Predicate.hasProperty(cause, "code") && cause.code === "25006"

type Transform = (<A extends object>(rows: ReadonlyArray<A>) => ReadonlyArray<A>) | undefined

export interface ClientOptions extends PgPool.Config {
  readonly expected: Expected
  readonly hosts?: Hosts | undefined
  /** Where messages are listened to, which takes a session of one's own; none where the pool has those. */
  readonly listening?: ClientOptions | undefined
  /** A replica that answers some reads. */
  readonly replica?: ClientOptions | undefined
  readonly transformQueryNames?: ((name: string) => string) | undefined
  readonly transformResultNames?: ((name: string) => string) | undefined
}

interface ClientSource extends Omit<Source, "borrower"> {
  readonly borrower: SqlConnection.Borrower | undefined
  readonly listening: Effect.Effect<PgConnection.PgConnection, SqlError.SqlError, Scope.Scope>
}

/** What `PgClient.make` does, with connections that were checked: it has no hook between connecting and the first statement. */
const clientOver = Effect.fnUntraced(function* (
  options: ClientOptions,
  { acquirer, borrower, listening, pinned }: ClientSource
) {
  const {
    expected: _expected,
    hosts: _hosts,
    listening: direct,
    replica: _replica,
    transformQueryNames,
    transformResultNames,
    ...config
  } = options
  const listened = (direct ?? options).hosts
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
    listen: (channel: string) =>
      Effect.tap(
        Effect.flatMap(listening, (connection) => connection.listen(channel)),
        // A server that is no longer used sends no messages that matter.
        (messages) =>
          listened === undefined
            ? Effect.void
            : Effect.forkScoped(
                Effect.andThen(listened.moved, Queue.fail(messages as Queue.Queue<unknown, SqlError.SqlError>, moved))
              )
      ),
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

/** What to connect with. A pooler knows nothing of the parameters of a session, or of the statements prepared in one. */
const configOf = ({
  expected,
  hosts,
  listening: _listening,
  replica: _replica,
  ...options
}: ClientOptions): PgPool.Config =>
  atCurrentHost(
    expected.isPooled
      ? { ...options, prepare: false }
      : { ...options, startupParameters: { ...options.startupParameters, ...expected.settings } },
    hosts
  )

/** A connection outside of a pool, which was checked. */
const openSession = (options: ClientOptions) => {
  const config = configOf(options)
  return onUsableHost(
    options.hosts,
    Effect.gen(function* () {
      const connection = yield* PgConnection.make(config)
      return { connection, session: yield* checkSession(config, options.expected, connection) }
    })
  )
}

/** Leases in a scope of its own until it has succeeded, so that a next attempt finds what a failed one had taken. */
const releasedWhereFailed = <A>(leased: Effect.Effect<A, SqlError.SqlError, Scope.Scope>) =>
  Effect.gen(function* () {
    const own = yield* Scope.fork(yield* Effect.scope)
    return yield* Effect.onError(Scope.provide(leased, own), (cause) => Scope.close(own, Exit.failCause(cause)))
  })

const moved = new SqlError.SqlError({
  reason: new SqlError.ConnectionError({ cause: new Error("Another server is in use"), operation: "connect" })
})

/** Checks regularly whether a server accepts writes: one that has become a standby still answers reads, but sends no notifications. */
const reviewing = (review: Effect.Effect<void, SqlError.SqlError>, every: Duration.Input) =>
  Effect.forkScoped(Effect.repeat(Effect.ignore(review), Schedule.spaced(every)))

/** A pool each of whose connections is checked before its first statement. */
const makeSource = Effect.fnUntraced(function* (options: ClientOptions) {
  const { expected, hosts, listening } = options
  const config = configOf(options)
  if (hosts !== undefined && expected.isWritten) yield* hosts.choose
  const pool = yield* PgPool.make(config)
  const known = new WeakMap<PgConnection.PgConnection, SessionConnection>()
  const hostOf = new WeakMap<SessionConnection, unknown>()
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

  const fateOf = (connection: PgConnection.PgConnection): Fate => {
    const retire = Effect.suspend(() => {
      known.delete(connection)
      return pool.invalidate(connection)
    })
    const host = hosts?.current()
    return {
      retire,
      refuse: Effect.suspend(() => {
        const refusal = strayed(expected)
        return refused(refusal).pipe(Effect.andThen(retire), Effect.andThen(Effect.fail(refusedBy(refusal))))
      }),
      ...(hosts === undefined || host === undefined
        ? {}
        : { leave: Effect.andThen(retire, Effect.ignore(hosts.leave(host))) })
    }
  }

  const checked = (connection: PgConnection.PgConnection) => {
    const found = known.get(connection)
    const host = hosts?.current()
    if (found !== undefined) {
      return hosts === undefined || hostOf.get(found) === host
        ? Effect.succeed(found)
        : Effect.andThen(found.fate.retire, Effect.fail(moved))
    }
    const fate = fateOf(connection)
    const check = noting(checkSession(config, expected, connection))
    const answered =
      hosts === undefined
        ? check
        : Effect.timeoutOrElse(interruptedWithoutWaiting(check), {
            // A server may hang between the connection and its first statement; what is not retired is lent again.
            duration: "5 seconds",
            orElse: () => Effect.fail(hosts.current() === host ? noAnswer : moved)
          })
    return answered.pipe(
      Effect.map((session) => {
        const one = new SessionConnection(connection, session, fate)
        known.set(connection, one)
        if (hosts !== undefined) hostOf.set(one, host)
        return one
      }),
      Effect.onError(() => fate.retire)
    )
  }

  const entering = (one: SessionConnection, scope: StatementScope | undefined) => {
    const { entryType } = one.session
    if (scope === undefined && !expected.isPooled) return one
    if (entryType !== null) return new EnteringConnection(one, entryType, scope)
    throw new Error("The database has no type session_entry")
  }
  const pin = ({ connection, fate, session }: SessionConnection) =>
    Effect.map(connection.pin, (pinned) => {
      const one = new SessionConnection(pinned, session, fate)
      return expected.isPooled && session.entryType !== null ? new PooledConnection(one, session.entryType) : one
    })

  const connecting = <A, E, R>(attempt: Effect.Effect<A, E | SqlError.SqlError, R>) =>
    hosts === undefined
      ? attempt
      : onUsableHost(
          hosts,
          Effect.retry(attempt as Effect.Effect<A, SqlError.SqlError, R>, { while: (error) => error === moved })
        )
  const leased = Effect.flatMap(pool.get, checked)
  const lease = hosts === undefined ? leased : connecting(releasedWhereFailed(leased))

  /** Lends a session for one statement, which is cancelled where its caller is interrupted. */
  const borrower: SqlConnection.Borrower = (use) =>
    Effect.flatMap(CurrentStatementScope, (scope) => {
      const statement = connecting(
        pool.use((connection) => Effect.flatMap(checked(connection), (one) => use(entering(one, scope))))
      )
      return interruptedWithoutWaiting(scope === undefined ? statement : scope.inTurn(statement))
    })

  if (hosts !== undefined && expected.isWritten) {
    // Through the pool, so that its connections to a server that hangs are given up; a pool may also be full.
    const asked = pool.use((connection) =>
      Effect.andThen(checked(connection), connection.queryValues(`SELECT ${isReadOnly}`, [], false))
    )
    const leaving = Effect.suspend(() => hosts.leave(hosts.current()))
    const review = Effect.flatMap(
      Effect.timeoutOption(interruptedWithoutWaiting(asked), "2 seconds"),
      Option.match({
        onNone: () => hosts.review,
        onSome: ([row]) => (row?.[0] === true ? leaving : Effect.void)
      })
    )
    yield* reviewing(review, "1 second")
  }
  if (listening?.hosts !== undefined) yield* reviewing(listening.hosts.review, "2 seconds")

  const pinned = Effect.flatMap(lease, pin)
  const source = {
    acquirer: Effect.flatMap(lease, (one) => Effect.map(CurrentStatementScope, (scope) => entering(one, scope))),
    borrower,
    pinned,
    listening: Effect.map(listening === undefined ? pinned : openSession(listening), ({ connection }) => connection)
  }

  const verify: DatabaseSessions["Service"]["verify"] = (connection, fingerprint) => {
    if (!(connection instanceof SessionConnection)) return Effect.die(new Error("A connection without a known session"))
    return connection.session.fingerprint === fingerprint ? Effect.void : connection.fate.refuse
  }
  const probe = Effect.scoped(noting(openSession(options)))
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
    fingerprint: fingerprintOf(expected)
  })
  return { source, sessions }
})

const contextOf = (client: PgClient.PgClient) =>
  Context.make(PgClient.PgClient, client).pipe(Context.add(SqlClient.SqlClient, client))

/** A pool; its first connection is made, and so checked, at once. */
export const sessionPoolLayer = (options: ClientOptions) =>
  Layer.effectContext(
    Effect.gen(function* () {
      const { sessions, source } = yield* makeSource(options)
      yield* Effect.scoped(source.pinned)
      const { replica } = options
      const routed =
        replica === undefined
          ? { source, service: ReadReplica.unused }
          : yield* makeReplica(
              source,
              (yield* makeSource(replica)).source,
              (yield* makeSource({ ...replica, maxConnections: 1 })).source,
              replica.hosts
            )
      const client = yield* clientOver(options, { ...source, ...routed.source })
      return contextOf(client).pipe(Context.add(DatabaseSessions, sessions), Context.add(ReadReplica, routed.service))
    })
  ).pipe(Layer.provide(Reactivity.layer))

/** One connection, whose statements see the rows of a tenant, or of all (`*`), outside transactions too. */
export const singleSessionLayer = ({ tenantId, ...options }: ClientOptions & { readonly tenantId: string }) =>
  Layer.effectContext(
    Effect.gen(function* () {
      const own = yield* Scope.fork(yield* Effect.scope)
      const { connection, session } = yield* Effect.tapError(Scope.provide(openSession(options), own), (error) =>
        Effect.flatMap(Effect.serviceOption(DatabaseSessions), (sessions) => {
          const refusal = refusalOf(error)
          return Option.isSome(sessions) && refusal !== undefined ? sessions.value.refused(refusal) : Effect.void
        })
      )
      // A lock on a server that is no longer used protects nothing.
      const { hosts } = options
      if (hosts !== undefined) yield* Effect.forkScoped(Effect.andThen(hosts.moved, Scope.close(own, Exit.void)))
      yield* connection.queryValues("SELECT set_config('app.tenant_id', $1, false)", [tenantId], false)
      const refuse = Effect.failSync(() => refusedBy(strayed(options.expected)))
      const fate: Fate = { retire: Effect.void, refuse }
      const one = new SessionConnection(connection, session, fate)
      return contextOf(
        yield* clientOver(options, {
          acquirer: Effect.succeed(one),
          borrower: undefined,
          pinned: Effect.map(connection.pin, (pin) => new SessionConnection(pin, session, fate)),
          listening: connection.pin
        })
      )
    })
  ).pipe(Layer.provide(Reactivity.layer))
