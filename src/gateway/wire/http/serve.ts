import { Cause, Clock, Context, Effect, Option, Result, type Scope } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { CurrentPrincipal } from "../../../kernel/authority/principal.ts"
import { type TenantId } from "../../../kernel/identifier.ts"
import { InternalError, MethodNotAllowed, Overloaded } from "../../../kernel/problems/problems.ts"
import { withoutDeadline } from "../../../platform/http/deadline.ts"
import { isClientAbort, problemOf } from "../../../platform/http/failures.ts"
import {
  CurrentRequest,
  headersOf,
  type RequestInfo,
  textOfHeader,
  tookTooLong
} from "../../../platform/http/request.ts"
import { Settings } from "../../../platform/settings/settings.ts"
import { type DeclaredCall, GatewayAuthentication } from "../../authentication/gateway-authentication.ts"
import { TurnStates } from "../../conversations/turn-states.ts"
import {
  GatewayError,
  gatewayError,
  type GatewayProblem,
  invalidMember,
  overloaded
} from "../../errors/gateway-error.ts"
import { type ErrorWriter } from "../../formats/error-writer.ts"
import { type GivenBody, type WireFormat } from "../../formats/format.ts"
import { CallPipeline } from "../../pipeline/call-pipeline.ts"
import { type Call, parseRequest, withoutBetaMembers } from "../../pipeline/call-request.ts"
import { parseForm } from "../../pipeline/form-request.ts"
import { MessageCounts } from "../../pipeline/message-counts.ts"
import { type CallAnswer } from "../../pipeline/response-relay.ts"
import { UploadFiles } from "../../pipeline/upload-files.ts"
import { CallSessions } from "../../routing/sessions.ts"

type Request = HttpServerRequest.HttpServerRequest

/**
 * The caller's headers that a provider gets, of which the pipeline leaves out betas that it cannot bound. No other says
 * what a model is to do; some select whose account, project or workspace of the gateway's key is billed and limited.
 */
const passedHeaders = ["accept", "user-agent", "anthropic-version", "anthropic-beta", "openai-beta"]

export const forwardedRequestHeaders = (
  headers: Readonly<Record<string, string>>
): Readonly<Record<string, string>> => {
  const forwarded: Record<string, string> = {}
  for (const name of passedHeaders) {
    const value = headers[name]
    if (value !== undefined) forwarded[name] = value
  }
  return forwarded
}

/** A method that a path of a vendor's API does not have; `allow` names those that it has. */
export const methodNotServed = (method: string, allow: string): GatewayError<MethodNotAllowed> =>
  gatewayError(new MethodNotAllowed({ detail: `The gateway does not serve ${method} at this path.` }), {
    headers: { allow }
  })

type Work<R> = (
  request: Request,
  requestId: string
) => Effect.Effect<HttpServerResponse.HttpServerResponse, GatewayError<GatewayProblem>, R>

/**
 * Serves a path of a vendor's API; every failure is written in its dialect. HEAD goes with GET: the router would prefer
 * the route of all methods below `/v1`.
 */
export const vendorRoute = <R>(
  method: "*" | "GET" | "POST" | "DELETE",
  path: `/${string}`,
  writerOf: (request: Request) => ErrorWriter,
  work: Work<R>
) => {
  const handler = serve(writerOf, work)
  // The work of a route may be stopped; writing the answer to that may not.
  const options = { uninterruptible: true }
  return HttpRouter.addAll(
    (method === "GET" ? (["GET", "HEAD"] as const) : [method]).map((one) =>
      HttpRouter.route(one, path, handler, options)
    )
  )
}

export const serve = <R>(writerOf: (request: Request) => ErrorWriter, work: Work<R>) =>
  Effect.withFiber((fiber) => {
    const info = Context.get(fiber.context, CurrentRequest)
    const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
    const requestId = info?.requestId ?? ""
    return Effect.catchCause(Effect.interruptible(work(request, requestId)), (cause) =>
      isClientAbort(cause)
        ? Effect.failCause(cause)
        : Effect.zipWith(errorIn(cause, info), Clock.currentTimeMillis, ({ error, headers, problem, quota }, now) => {
            // A vendor's error has no place for what the caller lacks, which its challenge names.
            if (info !== undefined && problem._tag === "Forbidden") info.forbidden = problem
            const written = writerOf(request).answer(error, error.status === 429 ? quota : undefined, requestId, now)
            return HttpServerResponse.text(JSON.stringify(written.body), {
              status: written.status,
              contentType: "application/json",
              headers: { ...headers, ...written.headers, "request-id": requestId }
            })
          })
    )
  })

/** The error that a failed call is answered with; a request that was stopped at its time limit has none of its own. */
const errorIn = (
  cause: Cause.Cause<GatewayError<GatewayProblem>>,
  info: RequestInfo | undefined
): Effect.Effect<GatewayError<GatewayProblem>> => {
  const defect = Cause.findDefect(cause)
  if (Result.isSuccess(defect)) return unexpected(defect.success, info)
  const failure = Cause.findErrorOption(cause)
  return Effect.succeed(Option.getOrElse(failure, () => overloaded(info?.late ?? tookTooLong, 2)))
}

/** A defect, as an error that the caller's SDK can read. */
const unexpected = (defect: unknown, info: RequestInfo | undefined): Effect.Effect<GatewayError<GatewayProblem>> => {
  const known = problemOf(Cause.die(defect))
  if (known !== undefined) {
    const detail = known.detail ?? known.title
    return Effect.succeed(
      known.status === 503
        ? overloaded(detail, known.retryAfterSeconds ?? 1)
        : gatewayError(new Overloaded({ detail }), { status: known.status })
    )
  }
  return Effect.logError("A call of the gateway failed", defect).pipe(
    Effect.annotateLogs({ requestId: info?.requestId, traceId: info?.traceId }),
    // Errors of vendors have no trace id; each answer has the id of its request as a header.
    Effect.as(
      gatewayError(new InternalError({ detail: "The service failed; its log has the reason under the request id." }))
    )
  )
}

export const responseOf = ({ body, headers, status }: Omit<CallAnswer, "report">, requestId: string) => {
  const response =
    body instanceof Uint8Array
      ? HttpServerResponse.uint8Array(body, { status, contentType: "application/json" })
      : HttpServerResponse.stream(body, { status, contentType: "text/event-stream" })
  // As an option they would be copied twice.
  Object.assign(response.headers, headers, { "request-id": requestId })
  return response
}

/** Where a request came, and what its path says of it where its body does not. */
export interface AskedRoute {
  readonly path: string
  readonly model?: string | undefined
  readonly streams?: boolean | undefined
  /** The body, where the request itself has none. */
  readonly given?: GivenBody
}

const noSwitch = invalidMember("x-cache", "x-cache: Expected true or false")

/** What the headers of a request declare of its attribution. */
export const declaredIn = (headers: Readonly<Record<string, string | undefined>>): DeclaredCall => {
  const { "x-task-type": taskType } = headers
  return {
    agentId: headers["x-agent-id"],
    planId: headers["x-plan-id"],
    reservationId: headers["x-reservation-id"],
    taskType: taskType === undefined ? undefined : textOfHeader(taskType)
  }
}

/** Reads calls from requests: who is charged, the body, and what the headers ask for. */
export const makeCallReader = Effect.gen(function* () {
  const authentication = yield* GatewayAuthentication
  const sessions = yield* CallSessions
  const states = yield* TurnStates
  const files = yield* UploadFiles
  const { maxBodyBytes, maxUploadBytes } = (yield* Settings).llm.gateway

  const bodyOf = (
    { form }: WireFormat,
    request: Request,
    tenantId: TenantId
  ): Effect.Effect<GivenBody, GatewayError<GatewayProblem>, Scope.Scope> =>
    form === undefined
      ? parseRequest(request, maxBodyBytes)
      : parseForm(request, form, maxUploadBytes, files.begin(tenantId))

  return (
    format: WireFormat,
    route: AskedRoute,
    request: Request,
    requestId: string,
    errors: ErrorWriter
  ): Effect.Effect<Call, GatewayError<GatewayProblem>, Scope.Scope> =>
    Effect.withFiber((fiber) => {
      const headers = headersOf(request)
      const principal = Context.get(fiber.context, CurrentPrincipal)
      const { "idempotency-key": key, "x-cache": cache } = headers
      if (cache !== undefined && cache !== "true" && cache !== "false") return Effect.fail(noSwitch)
      return Effect.flatMapEager(authentication.attribute(declaredIn(headers)), (caller) => {
        // A body takes as long as its sender.
        const { tenantId } = caller.subject
        const given = route.given === undefined ? bodyOf(format, request, tenantId) : Effect.succeed(route.given)
        return Effect.flatMap(withoutDeadline(given), ({ body, bytes, form }) => {
          const session = sessions.of(tenantId, principal, headers, body, format)
          if (session instanceof GatewayError) return Effect.fail(session)
          const call = withoutBetaMembers<Call>({
            format,
            model: route.model ?? body.model ?? format.usualModel,
            streams: route.streams ?? (format.answersBytes === true || body.stream === true),
            body,
            bytes,
            ...(form === undefined ? {} : { form }),
            caller,
            states: states.of(tenantId),
            session,
            headers: forwardedRequestHeaders(headers),
            cache: cache === undefined ? undefined : cache === "true",
            idempotency: key === undefined ? undefined : { route: `POST ${route.path}`, key },
            writeError: (error) => errors.event(error, requestId)
          })
          return call instanceof GatewayError ? Effect.fail(call) : Effect.succeed(call)
        })
      })
    })
})

/** Creates the route of a path that makes calls: authenticate, attribute, parse, call, respond. */
export const makeCallRoutes = Effect.gen(function* () {
  const { authenticated } = yield* GatewayAuthentication
  const readCall = yield* makeCallReader
  const pipeline = yield* CallPipeline
  const counts = yield* MessageCounts
  return (format: WireFormat, { capability, path }: NonNullable<WireFormat["route"]>, errors: ErrorWriter) => {
    const limitedBy = format.isCount ? "rate" : "caps"

    const make = (call: Call): Effect.Effect<Omit<CallAnswer, "report">, GatewayError, Scope.Scope> =>
      format.isCount
        ? Effect.map(counts.count(call), ({ bytes, headers }) => ({ status: 200, headers, body: bytes }))
        : pipeline.call(call)

    const answer = (request: Request, requestId: string) =>
      authenticated(
        request,
        { capabilities: [capability], limitedBy },
        Effect.flatMap(readCall(format, { path }, request, requestId, errors), (call) =>
          Effect.map(make(call), (made) => responseOf(made, requestId))
        )
      )

    return vendorRoute("POST", path, () => errors, answer)
  }
})
