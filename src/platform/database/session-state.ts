import { PgConnection, PgTypes } from "@effect/sql-pg"
import { Data, Effect, Option, Predicate, Result, Schema } from "effect"
import { SqlError } from "effect/sql"

/** What a session must be like, its `role` too: sent at its start, or set for its user, and compared with what arrived. */
export type SessionSettings = Readonly<Record<string, string>>

/** What is expected of the sessions behind a setting. */
export interface Expected {
  /** The setting that names the database. */
  readonly setting: "Database:Url" | "Database:PoolUrl" | "Database:ReadUrl"
  readonly settings: SessionSettings
  /** Whether a pooler may change the session from one transaction to the next; then it is its user who has the settings. */
  readonly isPooled: boolean
  /** Whether a server that accepts no writes is refused. */
  readonly isWritten: boolean
}

/** A session without the state that tenancy and safety rest on, or one that may lose it. */
export class SessionRefused extends Data.TaggedError("SessionRefused")<{
  readonly setting: Expected["setting"]
  /** What is wrong, without names of the installation. */
  readonly summary: string
  readonly fault: string
  readonly remedy: string
}> {
  override get message() {
    return `A connection to the database (${this.setting}) was refused: ${this.fault}. ${this.remedy}`
  }
}

const direct = "let Database:Url name PostgreSQL itself"
const transactions = "let Database:PoolUrl name the pooler and Database:Url PostgreSQL itself"

const settingOfUser = (userInDatabase: string, { expected, name }: Difference): string =>
  `ALTER ROLE ${userInDatabase} SET ${name} = ${name === "search_path" || name === "role" ? expected : `'${expected}'`};`

/** Sessions that the pooler has already keep what was set when they began. */
const setForUser = (userInDatabase: string, differences: ReadonlyArray<Difference>): string =>
  `let an administrator run ${differences.map((one) => settingOfUser(userInDatabase, one)).join(" ")} and let the pooler connect again (PgBouncer: RECONNECT)`

/** A pooler that ignores startup parameters drops them without an error. */
const dropped = (
  { isPooled, setting }: Expected,
  userInDatabase: string,
  differences: ReadonlyArray<Difference>,
  isBehindPooler: boolean
) =>
  new SessionRefused({
    setting,
    summary: `${differences.map(({ name }) => name).join(", ")} of its sessions are not as the service sets them`,
    fault: differences
      .map(({ actual, expected, name }) => `its ${name} is ${actual ?? "not set"} instead of ${expected}`)
      .join(", "),
    remedy: isPooled
      ? `To mend it, ${setForUser(userInDatabase, differences)}. Where they are set, another client of the pooler's user has changed them: give the service a user of its own.`
      : isBehindPooler
        ? `A connection pooler changes or drops what the service sets at the start of a session (PgBouncer: ignore_startup_parameters). To mend it, ${direct}, ${transactions}, or let the pooler use pool_mode = session and ${setForUser(userInDatabase, differences)}.`
        : `Something between the service and PostgreSQL changes or drops what the service sets at the start of a session (a connection pooler: ignore_startup_parameters). To mend it, ${direct}.`
  })

const sharedSession = ({ setting }: Expected) =>
  new SessionRefused({
    setting,
    summary: "its sessions are shared with others",
    fault: "its statements run in sessions that are shared with others",
    remedy: `A connection pooler pools transactions or statements, which loses locks, notifications and the state of sessions (PgBouncer: pool_mode). To mend it, ${direct}, ${transactions}, or let the pooler use pool_mode = session.`
  })

const changedSession = ({ setting }: Expected) =>
  new SessionRefused({
    setting,
    summary: "the state of its sessions has changed",
    fault: "a statement was to run in a session of another state than the service has verified",
    remedy:
      "Another client of the pooler's user has changed its role or settings, or they are no longer set. To mend it, give the service a user of its own, and let the pooler connect again (PgBouncer: RECONNECT)."
  })

const splitTransaction = ({ setting }: Expected) =>
  new SessionRefused({
    setting,
    summary: "its transactions are not kept together",
    fault: "the statements of a transaction do not run in one session",
    remedy:
      "A connection pooler pools statements (PgBouncer: pool_mode). To mend it, let it use pool_mode = transaction."
  })

const unprotected = ({ setting }: Expected, role: string, tables: number) =>
  new SessionRefused({
    setting,
    summary: "its role bypasses row-level security",
    fault: `its role ${role} bypasses row-level security on ${tables} tables`,
    remedy: `To mend it, let an administrator run ALTER ROLE ${role} NOSUPERUSER NOBYPASSRLS, and make another role the owner of its tables.`
  })

const unmigrated = ({ setting }: Expected) =>
  new SessionRefused({
    setting,
    summary: "its database lacks migrations",
    fault: "its database lacks the migrations of this release",
    remedy: `To mend it, let ${setting} name the database that Database:Url names, and run npm run migrate.`
  })

const readOnlySummary = "its servers are read-only"

/** No host of a list accepts writes. */
export const readOnly = (setting: Expected["setting"], hosts: number) =>
  new SessionRefused({
    setting,
    summary: readOnlySummary,
    fault: hosts > 1 ? `all of its ${hosts} hosts are standbys, or read-only` : "its server is a standby, or read-only",
    remedy: `To mend it, promote one (SELECT pg_promote()), or name the primary in ${setting}.`
  })

/** As an unreachable database: a request that meets it is answered 503, and the pool tries again. */
export const refusedBy = (cause: SessionRefused) =>
  new SqlError.SqlError({
    reason: new SqlError.ConnectionError({ cause, message: cause.message, operation: "connect" })
  })

/** The refusal in an error of the database; undefined where it has another reason. */
export const refusalOf = (error: unknown): SessionRefused | undefined =>
  SqlError.isSqlError(error) && error.reason.cause instanceof SessionRefused ? error.reason.cause : undefined

/** Whether a server was refused that accepts no writes. */
export const isReadOnlyRefused = (error: unknown): boolean => refusalOf(error)?.summary === readOnlySummary

/** What a statement is refused by that was to run in another session, or state, than its connection was found in. */
export const strayed = (expected: Expected) => (expected.isPooled ? changedSession(expected) : sharedSession(expected))

const Difference = Schema.Struct({ name: Schema.String, expected: Schema.String, actual: Schema.NullOr(Schema.String) })
type Difference = typeof Difference.Type

const Found = Schema.Tuple([
  Schema.String,
  Schema.String,
  Schema.String,
  Schema.String,
  Schema.Int,
  Schema.Boolean,
  Schema.NullOr(Schema.Int),
  Schema.fromJsonString(Schema.Array(Difference))
])

/** No user but a superuser may set it, and it turns triggers and foreign keys off. */
const neverChanged = { session_replication_role: "origin" }

/**
 * The state of a session in one text, for a comparison at each transaction; `session_entry` and, of any session,
 * `pooled_entry` compare the same.
 */
export const fingerprintOf = ({ isPooled, settings }: Expected): string => {
  const names = Object.keys({ ...settings, ...neverChanged }).filter((name) => name !== "role")
  const values = names.map((name) => `current_setting('${name.replaceAll("'", "''")}', true)`)
  return `concat_ws(' ', ${isPooled ? "" : "pg_backend_pid(), "}current_user, ${values.join()})`
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
export interface Session {
  readonly fingerprint: string
  readonly isPooled: boolean
  /** The type of the parameter by which a statement enters a tenant; none before the database has it. */
  readonly entryType: number | null
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** Its values are sent as those of `text`. */
const registerEntryType = (oid: number): void =>
  PgTypes.register<string>(oid, {
    encode: (value) => Result.succeed(encoder.encode(value)),
    decode: (bytes) => Result.succeed(decoder.decode(bytes)),
    write: (sink, value) => Result.succeed(sink.utf8(value))
  })

/** Whether a statement was to run in another session, or state, than its connection was found in. */
export const isEntryRefused = ({ reason: { cause } }: SqlError.SqlError): boolean =>
  Predicate.hasProperty(cause, "constraint") &&
  (cause.constraint === "session_entry_check" || cause.constraint === "pooled_entry_check")

/** Names that are not found in another search path, and tables whose policies are off: these come before parameters are read. */
const strangeCodes = new Set(["42P01", "42883", "42704"])

/** Whether a statement through a pooler failed as it does in a session of another state. */
export const isStrange = (error: SqlError.SqlError): boolean => {
  const { cause } = error.reason
  if (isEntryRefused(error)) return true
  if (Predicate.hasProperty(cause, "routine") && cause.routine === "check_enable_rls") return true
  return Predicate.hasProperty(cause, "code") && strangeCodes.has(String(cause.code))
}

/** An expression for whether a server accepts no writes, now or of a session by default. */
export const isReadOnly = "(pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean)"

/** An expression for the timeline that a server writes, which grows with each fail-over; null of a standby. */
export const timeline =
  "CASE WHEN NOT pg_is_in_recovery() THEN ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer END"

const find = Effect.fnUntraced(function* (expected: Expected, connection: PgConnection.PgConnection) {
  const type = expected.isPooled ? "pooled_entry" : "session_entry"
  const [row] = yield* query(
    connection,
    `SELECT pg_backend_pid()::text, ${fingerprintOf(expected)}, quote_ident(session_user) || ' IN DATABASE ' || quote_ident(current_database()), current_user::text,
      (SELECT count(*)::integer FROM pg_class WHERE relrowsecurity AND NOT row_security_active(oid)),
      ${isReadOnly}, to_regtype('public.${type}')::oid::integer, (${differences})`,
    [JSON.stringify({ ...expected.settings, ...neverChanged })]
  )
  return yield* Effect.orDie(Schema.decodeUnknownEffect(Found)(row))
})

/** Fails where a pooler does not keep the statements of a transaction together, or refuses to begin one. */
const findInTransaction = Effect.fnUntraced(function* (expected: Expected, connection: PgConnection.PgConnection) {
  const refuse = Effect.failSync(() => refusedBy(splitTransaction(expected)))
  // PgBouncer ends a connection that begins a transaction where it pools statements, and one that waits for a lost server.
  yield* query(connection, "SELECT 1")
  yield* Effect.catchIf(
    query(connection, "BEGIN"),
    ({ reason }) => reason._tag === "ConnectionError",
    () => refuse
  )
  yield* query(connection, "SELECT set_config('app.session', 'begun', true)")
  const found = yield* find(expected, connection)
  const [row] = yield* query(connection, "SELECT current_setting('app.session', true), pg_backend_pid()::text")
  if (row?.[0] !== "begun" || row[1] !== found[0]) return yield* refuse
  yield* query(connection, "COMMIT")
  return found
})

/** Fails unless a new connection is as is expected, and its own. */
export const checkSession = Effect.fnUntraced(function* (
  options: PgConnection.Config,
  expected: Expected,
  connection: PgConnection.PgConnection
): Effect.fn.Return<Session, SqlError.SqlError> {
  const [backend, fingerprint, login, user, open, isUnwritable, entryType, different] = yield* expected.isPooled
    ? findInTransaction(expected, connection)
    : find(expected, connection)
  const isBehindPooler = backend !== String(connection.processId)
  if (different.length > 0) return yield* refusedBy(dropped(expected, login, different, isBehindPooler))
  if (expected.settings.role !== undefined && open > 0) return yield* refusedBy(unprotected(expected, user, open))
  if (expected.isWritten && isUnwritable) return yield* refusedBy(readOnly(expected.setting, 1))
  if (expected.isPooled) {
    if (entryType === null) return yield* refusedBy(unmigrated(expected))
  } else if (isBehindPooler && (yield* isShared(options, connection, backend))) {
    return yield* refusedBy(sharedSession(expected))
  }
  if (entryType !== null) registerEntryType(entryType)
  return { fingerprint, entryType, isPooled: expected.isPooled }
})
