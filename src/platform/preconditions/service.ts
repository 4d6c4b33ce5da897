import { Cause, Context, DateTime, Effect, type Fiber, Layer, Option, type Schema, type Types } from "effect"
import { type Headers, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { type HttpApiEndpoint } from "effect/http-api"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import {
  CurrentPrecondition,
  entityTagOf,
  Evaluation,
  type GivenPrecondition,
  holds,
  matches,
  mismatchOf,
  names,
  type Precondition,
  preconditionIn,
  Preconditions,
  type VersionMismatch
} from "../../kernel/http/precondition.ts"
import { answersResource, makeResources, membersOf } from "../../kernel/http/resources.ts"
import { type ValidationFailed } from "../../kernel/problems/problems.ts"
import { shortDigest } from "../crypto/node-crypto.ts"
import { Database, LocksRows, NotesVersion } from "../database/database.ts"
import { headersOf } from "../http/request.ts"
import { CurrentRepeatable, keyRetention } from "../idempotency/domain.ts"
import { IdempotencyRepository } from "../idempotency/repository.ts"

type Response = HttpServerResponse.HttpServerResponse
type Handler = Effect.Effect<Response, Types.unhandled, HttpRouter.Provided>
type Answer = Effect.Effect<Response, Types.unhandled | ValidationFailed | VersionMismatch, HttpRouter.Provided>

/** How a resource is read by its id, and its entity tag made. */
interface Resource {
  readonly parameters: ReadonlyArray<string>
  readonly read: Handler
  /** Of an answer that shows the resource, alone or with more members. */
  readonly tagOf: (response: Response, isAlone: boolean) => string | undefined
}

/**
 * Evaluates the preconditions of all endpoints (RFC 9110 §13). The tag of a resource is that of its GET: the version that the
 * handler sends, or a digest of the body. A write with a precondition runs in a transaction that reads the resource as its GET
 * does, under a lock of its row, and changes it only if the tag is as required; so of two writers with one tag, on any
 * replicas, the second finds another tag.
 */
export const PreconditionsLayer = Layer.effect(
  Preconditions,
  Effect.gen(function* () {
    const database = yield* Database
    const keys = yield* IdempotencyRepository
    const resources = makeResources<Resource>()

    /** The current tag of a resource, read as a GET of the caller would. */
    const readTag = Effect.fnUntraced(function* ({ parameters, read, tagOf }: Resource) {
      const given = yield* HttpRouter.RouteContext
      const values = Object.values(given.params)
      const params = Object.fromEntries(parameters.map((name, index) => [name, values[index]]))
      const response = yield* read.pipe(
        Effect.provideService(HttpRouter.RouteContext, { ...given, params }),
        Effect.provideService(HttpServerRequest.ParsedSearchParams, {})
      )
      return tagOf(response, true)
    })

    /** The same; undefined where the caller reads none. */
    const currentTag = (resource: Resource): Effect.Effect<string | undefined, never, HttpRouter.Provided> =>
      Effect.catchCause(readTag(resource), (cause) =>
        Cause.hasFails(cause) ? Effect.undefined : Effect.failCause(cause as Cause.Cause<never>)
      )

    /** A repeated request is answered as the first was. */
    const isRepeated = Effect.gen(function* () {
      const repeatable = yield* CurrentRepeatable
      if (repeatable === undefined) return false
      const { name } = yield* CurrentPrincipal
      const since = DateTime.subtract(yield* DateTime.now, keyRetention)
      return Option.isSome(yield* keys.find({ ...repeatable, principal: name }, since))
    })

    /** Refuses a request for this tag. That of a repeat may be the one that the first request gave the resource meanwhile. */
    const refuseUnlessRepeated = (current: string | undefined, handler: Handler): Answer =>
      Effect.flatMap(isRepeated, (isRepeat): Answer => (isRepeat ? handler : Effect.fail(mismatchOf(current))))

    const aroundHandler = (precondition: Precondition, resource: Resource, handler: Handler): Answer =>
      database.aroundHandler(
        Effect.gen(function* () {
          const locks = { isLocked: false }
          yield* Effect.provideService(currentTag(resource), LocksRows, locks)
          // A statement that waited for a lock has seen other tables as they were before.
          const current = yield* currentTag(resource)
          if (current === undefined) {
            const response = yield* handler
            return holds(precondition, undefined) ? response : yield* mismatchOf(undefined)
          }
          if (!locks.isLocked) return yield* Effect.die(new Error("The GET of the resource locks no row"))
          if (!holds(precondition, current)) return yield* refuseUnlessRepeated(current, handler)
          return yield* Effect.provideService(handler, CurrentPrecondition, {
            ...precondition,
            isForService: false,
            isEvaluated: true,
            currentTag: Effect.succeed(current)
          })
        })
      )

    /** Reads without a lock; the statement of the change refuses a row that has changed since, and the change starts over. */
    const asSeen = Effect.fnUntraced(function* (precondition: Precondition, resource: Resource, handler: Handler) {
      if (yield* isRepeated) return yield* handler
      for (;;) {
        const noted = { version: undefined as string | undefined }
        const current = yield* Effect.provideService(readTag(resource), NotesVersion, noted)
        if (!holds(precondition, current)) return yield* refuseUnlessRepeated(current, handler)
        if (noted.version === undefined) return yield* Effect.die(new Error("The GET notes no version of a row"))
        const given: GivenPrecondition = {
          ...precondition,
          isForService: false,
          isEvaluated: true,
          currentTag: Effect.succeed(current),
          seen: noted.version,
          isOutdated: false
        }
        const answer = yield* Effect.exit(Effect.provideService(handler, CurrentPrecondition, given))
        if (given.isOutdated !== true) return yield* answer
      }
    })

    const ahead = Effect.fnUntraced(function* (precondition: Precondition, resource: Resource, handler: Handler) {
      const current = yield* readTag(resource)
      return yield* holds(precondition, current) ? handler : refuseUnlessRepeated(current, handler)
    })

    const evaluations = { "around-handler": aroundHandler, "as-seen": asSeen, ahead }

    const writing = (handler: Handler, endpoint: HttpApiEndpoint.Top): Answer => {
      const evaluation = Context.get(endpoint.annotations, Evaluation)
      const evaluated = (precondition: Precondition): Answer => {
        const resource = resources.actedOn(endpoint)
        if (evaluation === "by-service") {
          return Effect.contextWith((request: Context.Context<HttpRouter.Provided>) =>
            Effect.provideService(handler, CurrentPrecondition, {
              ...precondition,
              isForService: true,
              isEvaluated: false,
              // In the transaction of the service, and with what is known of the request.
              currentTag:
                resource === undefined
                  ? Effect.undefined
                  : Effect.updateContext(currentTag(resource), (own: Context.Context<never>) =>
                      Context.merge(request, own)
                    )
            })
          )
        }
        if (resource !== undefined) return evaluations[evaluation](precondition, resource, handler)
        // What is not read by its id has no tag, so that only * matches it.
        const { ifMatch, ifNoneMatch } = precondition
        const isRefused =
          (ifMatch !== undefined && ifMatch !== "*") || (ifNoneMatch === "*" && resources.actsOnUnread(endpoint))
        return isRefused ? Effect.fail(mismatchOf(undefined)) : handler
      }
      let shown: ReturnType<typeof resources.shownBy> | null = null
      return Effect.withFiber((fiber) => {
        const headers = conditionalHeadersOf(fiber)
        const answer: Answer =
          headers === undefined
            ? handler
            : Effect.flatMap(preconditionIn(headers), (precondition) =>
                precondition === undefined ? handler : evaluated(precondition)
              )
        if (shown === null) shown = resources.shownBy(endpoint)
        return shown === undefined ? answer : Effect.map(answer, withTag(shown.value, shown.isAlone))
      })
    }

    const reading = (handler: Handler, endpoint: HttpApiEndpoint.Top): Answer => {
      const resource = {
        parameters: [...endpoint.path.matchAll(/:(\w+)/g)].map(([, name = ""]) => name),
        read: handler,
        tagOf: tagReaderOf(endpoint)
      }
      resources.add(endpoint, resource)
      if (!answersResource(endpoint)) return handler
      const tagged = Effect.map(handler, withTag(resource, true))
      return Effect.withFiber((fiber): Answer => {
        const headers = conditionalHeadersOf(fiber)
        if (headers === undefined) return tagged
        return Effect.flatMap(preconditionIn(headers), (precondition) =>
          Effect.flatMap(tagged, (response): Answer => {
            const { ifMatch, ifNoneMatch } = precondition ?? {}
            const { etag } = response.headers
            if (etag === undefined) return Effect.succeed(response)
            if (ifMatch !== undefined && !matches(ifMatch, etag)) return Effect.fail(mismatchOf(etag))
            const isKnown = ifNoneMatch !== undefined && names(ifNoneMatch, etag)
            return Effect.succeed(isKnown ? HttpServerResponse.empty({ status: 304, headers: { etag } }) : response)
          })
        )
      })
    }

    return Preconditions.of((httpEffect, { endpoint }) =>
      endpoint.method === "GET" ? reading(httpEffect, endpoint) : writing(httpEffect, endpoint)
    )
  })
).pipe(Layer.provide(IdempotencyRepository.layer))

/** The headers of a request with a precondition; undefined of most. */
const conditionalHeadersOf = (fiber: Fiber.Fiber<unknown, unknown>): Headers.Headers | undefined => {
  const headers = headersOf(Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest))
  return headers["if-match"] === undefined && headers["if-none-match"] === undefined ? undefined : headers
}

const withTag =
  ({ tagOf }: Resource, isAlone: boolean) =>
  (response: Response): Response => {
    const tag = tagOf(response, isAlone)
    return tag === undefined || response.headers.etag === tag
      ? response
      : HttpServerResponse.setHeader(response, "etag", tag)
  }

/** Members that use changes and no request edits. */
const isUse = (name: string): boolean => /^last[A-Z]\w*At$/.test(name)

/** Reads the tag of a resource from an answer that shows it: the one it has, or a digest of the members that its GET shows. */
const tagReaderOf = ({ success }: HttpApiEndpoint.Top) => {
  const [shown] = [...success] as ReadonlyArray<Schema.Top>
  const members = shown === undefined ? [] : membersOf(shown).map(({ name }) => String(name))
  const isUsed = members.some(isUse)
  return ({ body, headers, status }: Response, isAlone: boolean): string | undefined => {
    if (headers.etag !== undefined) return headers.etag
    if (status >= 300 || body._tag !== "Uint8Array") return undefined
    const text = body.text ?? body.body
    if ((isAlone && !isUsed) || typeof text !== "string") return entityTagOf(shortDigest(text), undefined)
    const sent = JSON.parse(text) as Readonly<Record<string, unknown>>
    const digestOf = (names: ReadonlyArray<string>) =>
      shortDigest(
        JSON.stringify(Object.fromEntries(names.flatMap((name) => (name in sent ? [[name, sent[name]]] : []))))
      )
    if (!isUsed) return entityTagOf(digestOf(members), undefined)
    const edited = members.filter((name) => !isUse(name))
    return entityTagOf(digestOf(edited), digestOf(members.filter(isUse)).slice(0, 8))
  }
}
