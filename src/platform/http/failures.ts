import { PgProtocol } from "@effect/sql-pg"
import { type Cause } from "effect"
import { HttpMethod, HttpServerError } from "effect/http"
import { SqlError } from "effect/sql"
import {
  BadRequest,
  InternalError,
  MethodNotImplemented,
  Overloaded,
  PayloadTooLarge,
  RouteNotFound
} from "../../kernel/problems/problems.ts"
import { tookTooLong } from "./request.ts"

/** A problem of any layer; the edge adds `traceId` and the headers of its status. */
export interface ProblemBody {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail?: string | undefined
  readonly retryAfterSeconds?: number
}

// PostgreSQL reports this while it starts, recovers or stops, under codes that the driver treats as unknown.
const startingOrStopping =
  /the database system is (?:starting up|shutting down|in recovery mode|not yet accepting connections)/

const isUnavailable = (error: SqlError.SqlError): boolean =>
  error.reason._tag === "ConnectionError" || startingOrStopping.test(`${error.message} ${String(error.reason.cause)}`)

/** The client ends a connection on which a longer message arrives than it reads. */
const isTooLong = ({ reason }: SqlError.SqlError): boolean =>
  reason.cause instanceof PgProtocol.ParseError && reason.cause.message.includes("maxMessageSize")

// A connection may break after a commit and before its answer.
const databaseUnavailable =
  "The database is unavailable. The requested change may have been made; with an Idempotency-Key a repeated request makes it only once."

const storedTooLong = "A stored value is larger than the service reads of the database at once."
const statementLate = "A statement took longer than Database:StatementTimeoutSeconds; no change was made."

/** The problem for a failure that no handler declares; undefined for a defect of the service. */
export const problemOf = (cause: Cause.Cause<unknown>, late = tookTooLong): ProblemBody | undefined => {
  for (const reason of cause.reasons) {
    if (reason._tag === "Interrupt") {
      return { ...new Overloaded({ detail: late }) }
    }
    const error = reason._tag === "Fail" ? reason.error : reason.defect
    if (SqlError.isSqlError(error) && isTooLong(error)) return { ...new InternalError({ detail: storedTooLong }) }
    if (SqlError.isSqlError(error) && isUnavailable(error))
      return { ...new Overloaded({ detail: databaseUnavailable }) }
    if (SqlError.isSqlError(error) && error.reason._tag === "StatementTimeoutError") {
      return { ...new Overloaded({ detail: statementLate }) }
    }
    if (SqlError.isSqlError(error) && error.isRetryable) {
      return { ...new Overloaded({ detail: "The database is busy; no change was made." }) }
    }
    if (!HttpServerError.isHttpServerError(error)) continue
    if (error.reason._tag === "RouteNotFound") {
      const known = HttpMethod.isHttpMethod(error.reason.request.method)
      return { ...(known ? new RouteNotFound({}) : new MethodNotImplemented({})) }
    }
    if (error.reason._tag === "RequestParseError") {
      return { ...(error.reason.reason === "BodyTooLarge" ? new PayloadTooLarge({}) : new BadRequest({})) }
    }
  }
  return undefined
}

/** Whether a request ended because its caller left. */
export const isClientAbort = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.some((reason) => reason._tag === "Interrupt" && reason.annotations.has(HttpServerError.ClientAbort.key))

export const isRouteNotFound = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.some(
    (reason) =>
      reason._tag === "Fail" &&
      HttpServerError.isHttpServerError(reason.error) &&
      reason.error.reason._tag === "RouteNotFound"
  )
