import { type Cause } from "effect"
import { HttpMethod, HttpServerError } from "effect/http"
import { SqlError } from "effect/sql"
import { BadRequest, MethodNotImplemented, Overloaded, PayloadTooLarge, RouteNotFound } from "../../kernel/problems.ts"

/** A problem as any layer may answer it; the edge adds `traceId` and the headers that go with the status. */
export interface ProblemBody {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail?: string | undefined
  readonly retryAfterSeconds?: number
}

// PostgreSQL says so while it starts, recovers or stops, under codes that the driver keeps as unknown.
const comingOrGoing =
  /the database system is (?:starting up|shutting down|in recovery mode|not yet accepting connections)/

const isAway = (error: SqlError.SqlError): boolean =>
  error.reason._tag === "ConnectionError" || comingOrGoing.test(`${error.message} ${String(error.reason.cause)}`)

// A connection may break after a commit and before its answer.
const databaseAway =
  "The database cannot be reached now. A change that was asked for may have been made; under an Idempotency-Key it is made once, however often it is asked for."

/** What a failure that no handler declared means to the caller; undefined when it is a fault of the service. */
export const problemOf = (cause: Cause.Cause<unknown>): ProblemBody | undefined => {
  for (const reason of cause.reasons) {
    if (reason._tag === "Interrupt") {
      return { ...new Overloaded({ detail: "The request took too long and was stopped." }) }
    }
    const error = reason._tag === "Fail" ? reason.error : reason.defect
    if (SqlError.isSqlError(error) && isAway(error)) return { ...new Overloaded({ detail: databaseAway }) }
    if (SqlError.isSqlError(error) && error.isRetryable) {
      return { ...new Overloaded({ detail: "The database is busy; nothing was changed." }) }
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
