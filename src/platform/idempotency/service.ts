import { Context, DateTime, Effect, Layer, type Types } from "effect"
import { Mac } from "effect/crypto"
import { Headers, HttpServerRequest, HttpServerResponse } from "effect/http"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { Sealing } from "../crypto/sealing.ts"
import { Database } from "../database/database.ts"
import { headersOf } from "../http/request.ts"
import { repeatJob } from "../runtime/background-jobs.ts"
import { Idempotency } from "./api.ts"
import {
  CurrentRepeatable,
  IdempotencyInProgress,
  IdempotencyKeyInvalid,
  IdempotencyKeyReused,
  isIdempotencyKey,
  keyRetention,
  HandlesIdempotency,
  type StoredResponse,
  OneTimeSecrets
} from "./domain.ts"
import { IdempotencyRepository } from "./repository.ts"

type KeyProblem = IdempotencyInProgress | IdempotencyKeyInvalid | IdempotencyKeyReused

/**
 * Runs a POST under its Idempotency-Key: the key's row is written in the transaction of the change, so that either both
 * are stored or neither, whatever happens between them.
 */
export const IdempotencyLayer = Layer.effect(
  Idempotency,
  Effect.gen(function* () {
    const database = yield* Database
    const repository = yield* IdempotencyRepository
    const { fingerprint } = yield* Sealing

    yield* DateTime.now.pipe(
      Effect.flatMap((now) => repository.purge(DateTime.subtract(now, keyRetention))),
      (purge) => repeatJob("remove old idempotency keys", "1 hour", purge)
    )

    return Idempotency.of((httpEffect, { endpoint }) => {
      if (endpoint.method !== "POST") return httpEffect
      const secrets = Context.get(endpoint.annotations, OneTimeSecrets)
      const handlesIdempotency = Context.get(endpoint.annotations, HandlesIdempotency)
      const route = `POST ${endpoint.path}`
      const once = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest, key: string) {
        if (!isIdempotencyKey(key)) return yield* new IdempotencyKeyInvalid({})
        const principal = yield* CurrentPrincipal
        const now = yield* DateTime.now
        const body = new Uint8Array(yield* Effect.orDie(request.arrayBuffer))
        // Bodies have passwords, which a reader of the database could guess against a plain digest.
        const requestSha256 = yield* fingerprint(Buffer.concat([Buffer.from(`${request.url}\n`), body]))
        if (handlesIdempotency) {
          let isReplayed = false
          const markReplayed = () => void (isReplayed = true)
          const requestHex = Buffer.from(requestSha256).toString("hex")
          const response = yield* Effect.provideService(httpEffect, CurrentRepeatable, {
            route,
            key,
            requestSha256: requestHex,
            markReplayed
          })
          return isReplayed ? HttpServerResponse.setHeader(response, "idempotency-replayed", "true") : response
        }
        const slot = { principal: principal.name, route, key }
        return yield* database.aroundHandler(
          Effect.gen(function* () {
            if (!(yield* repository.claim(slot))) return yield* new IdempotencyInProgress({})
            const earlier = yield* repository.find(slot, DateTime.subtract(now, keyRetention))
            if (earlier._tag === "Some") {
              return Mac.timingSafeEqual(earlier.value.requestSha256, requestSha256)
                ? replay(earlier.value)
                : yield* new IdempotencyKeyReused({})
            }
            const response = yield* httpEffect
            const answer = toStored(response, requestSha256, secrets)
            if (answer !== undefined) yield* repository.store(slot, answer, now)
            return response
          })
        )
      })
      const withoutKey: Effect.Effect<
        Effect.Success<typeof httpEffect>,
        Types.unhandled | KeyProblem,
        Effect.Services<typeof httpEffect>
      > = httpEffect
      return Effect.withFiber((fiber): typeof withoutKey => {
        const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
        const key = headersOf(request)["idempotency-key"]
        return key === undefined ? withoutKey : once(request, key)
      })
    })
  })
).pipe(Layer.provide(IdempotencyRepository.layer))

const toStored = (
  response: HttpServerResponse.HttpServerResponse,
  requestSha256: Uint8Array,
  secrets: ReadonlyArray<string>
): StoredResponse | undefined => {
  const body = response.body
  const text = body._tag === "Uint8Array" ? (body.text ?? "") : body._tag === "Empty" ? "" : undefined
  // A refusal frees the key, also where it comes as an answer and not as a failure.
  if (text === undefined || response.status >= 300) return undefined
  const headers: Record<string, string> = {}
  for (const name of ["content-type", "location", "etag"]) {
    const value = Headers.get(response.headers, name)
    if (value._tag === "Some") headers[name] = value.value
  }
  return { requestSha256, status: response.status, headers, body: secrets.length === 0 ? text : masked(text, secrets) }
}

/** The answer without what is shown once: a replay proves that the thing was made, not what its secret is. */
const masked = (text: string, secrets: ReadonlyArray<string>): string =>
  JSON.stringify(JSON.parse(text), (name, value: unknown) => (secrets.includes(name) ? "***" : value))

const replay = (answer: StoredResponse) => {
  const headers = { ...answer.headers, "idempotency-replayed": "true" }
  return answer.body === ""
    ? HttpServerResponse.empty({ status: answer.status, headers })
    : HttpServerResponse.text(answer.body, {
        status: answer.status,
        contentType: answer.headers["content-type"] ?? "application/json",
        headers
      })
}
