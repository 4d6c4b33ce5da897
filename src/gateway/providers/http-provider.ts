import { Clock, Effect, Option, Redacted, Schema } from "effect"
import { type Dialect } from "../translation/domain.ts"
import { readErrorIn } from "../translation/errors.ts"
import { type ProviderClient } from "./clients.ts"
import { type ExchangeRequest } from "./exchange.ts"
import {
  type Operation,
  type Provider,
  type ProviderAnswer,
  providerCredentials,
  type ProviderFailure,
  type ProviderModel
} from "./provider.ts"
import { errorInAnswer, isEmptyAnswer, retryAfterSeconds } from "./parse-provider-error.ts"
import { bad, failure } from "./transport-failures.ts"
import { parsedJson } from "../../kernel/parsed-json.ts"

/** The options of a vendor's HTTP client. */
export interface HttpProviderOptions {
  readonly id: string
  readonly baseUrl: string
  readonly apiKey: Redacted.Redacted<string> | undefined
  readonly headers: Readonly<Record<string, string>>
  /** Maximum seconds until the first byte of a response, and between two of them. */
  readonly timeoutSeconds: number
}

/** What differs between vendors' services. */
export interface Vendor {
  readonly dialect: Dialect
  readonly paths: Readonly<Partial<Record<Operation, string>>>
  readonly modelsPath: string
  authorize(apiKey: string): Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string>>
}

/** OpenAI, and the many providers of its dialect; `baseUrl` ends in `/v1`. */
export const openAi: Vendor = {
  dialect: "openai",
  paths: {
    chat: "/chat/completions",
    embed: "/embeddings",
    responses: "/responses",
    "count-responses": "/responses/input_tokens",
    compact: "/responses/compact",
    completions: "/completions"
  },
  modelsPath: "/models",
  headers: {},
  authorize: (apiKey) => ({ authorization: `Bearer ${apiKey}` })
}

/** Anthropic; `baseUrl` does not end in `/v1`. */
export const anthropic: Vendor = {
  dialect: "anthropic",
  paths: { chat: "/v1/messages", "count-tokens": "/v1/messages/count_tokens" },
  modelsPath: "/v1/models?limit=1000",
  headers: { "anthropic-version": "2023-06-01" },
  authorize: (apiKey) => ({ "x-api-key": apiKey })
}

const maxModelsBytes = 4_194_304
/** Shorter header values, such as a version or a region, are not secret and may occur in any text. */
const shortestSecret = 8

const ModelList = Schema.Struct({
  data: Schema.Array(
    Schema.Struct({
      id: Schema.String,
      owned_by: Schema.optionalKey(Schema.NullOr(Schema.String)),
      created: Schema.optionalKey(Schema.NullOr(Schema.Finite)),
      created_at: Schema.optionalKey(Schema.NullOr(Schema.String))
    })
  )
})
const decodeModels = Schema.decodeUnknownOption(Schema.fromJsonString(ModelList))

/** A vendor's service, called over HTTP. Redirects are not followed. */
export const makeHttpProvider = (
  client: ProviderClient,
  vendor: Vendor,
  { apiKey, baseUrl, headers, id, timeoutSeconds }: HttpProviderOptions
): Provider => {
  const url = URL.parse(baseUrl)
  const origin = url?.origin ?? ""
  const base = url?.pathname.replace(/\/+$/, "") ?? ""
  const fixed = { ...headers, ...(apiKey === undefined ? {} : vendor.authorize(Redacted.value(apiKey))) }
  const secrets = [...(apiKey === undefined ? [] : [Redacted.value(apiKey)]), ...Object.values(headers)].filter(
    ({ length }) => length >= shortestSecret
  )
  /** Some providers repeat credentials of the request in their errors. */
  const withoutSecrets = (text: string) => secrets.reduce((rest, secret) => rest.replaceAll(secret, "***"), text)

  const answered = (request: Omit<ExchangeRequest, "origin" | "timeoutSeconds">) =>
    Effect.flatMap(client.send({ ...request, origin, timeoutSeconds }), (answer) => {
      const isSuccess = answer.status >= 200 && answer.status < 300
      if (isSuccess && isEmptyAnswer(answer)) return Effect.fail(nothing)
      const refused = isSuccess ? errorInAnswer(answer) : answer
      return refused === undefined
        ? Effect.succeed(answer)
        : Effect.flatMap(Clock.currentTimeMillis, (now) =>
            Effect.fail(parseProviderError(vendor.dialect, refused, withoutSecrets, now))
          )
    })

  const send: Provider["send"] = ({ body, deadline, headers: passed, operation }) => {
    const path = vendor.paths[operation]
    if (path === undefined) {
      return Effect.fail(failure("status", bad(400, `The provider ${id} has no such operation.`, "unsupported"), false))
    }
    return answered({
      method: "POST",
      path: base + path,
      headers: { ...vendor.headers, ...passed, ...fixed, "content-type": "application/json" },
      body,
      deadline
    })
  }

  const listModels = Effect.gen(function* () {
    const { body } = yield* answered({
      method: "GET",
      path: base + vendor.modelsPath,
      headers: { ...vendor.headers, ...fixed },
      maxBytes: maxModelsBytes
    })
    const listed = body instanceof Uint8Array ? decodeModels(Buffer.from(body).toString("utf8")) : Option.none()
    if (Option.isNone(listed)) {
      return yield* failure(
        "status",
        bad(502, "The provider's list of models cannot be read.", "provider-error"),
        false
      )
    }
    return listed.value.data.map((model): ProviderModel => ({
      id: model.id,
      ownedBy: model.owned_by ?? null,
      createdAt: dateOf(model.created ?? model.created_at ?? null)
    }))
  }).pipe(Effect.scoped)

  const { responses } = vendor.paths
  const stored: Provider["stored"] =
    responses === undefined
      ? undefined
      : ({ method, path }) =>
          answered({ method, path: base + responses + path, headers: { ...vendor.headers, ...fixed } })

  return { id, dialect: vendor.dialect, send, ...(stored === undefined ? {} : { stored }), listModels }
}

/** The cost is unknown, as after a broken connection. */
const nothing = failure("broken-off", bad(502, "The provider answered nothing.", "provider-unavailable"), true)

/** Parses an unsuccessful response. */
const parseProviderError = (
  dialect: Dialect,
  { body, headers, status: received }: ProviderAnswer,
  withoutSecrets: (text: string) => string,
  now: number
): ProviderFailure => {
  // A redirect would lead to an unchecked address; a credential error concerns the gateway's key, not the caller's.
  if (received < 400) {
    return failure("status", bad(502, "The provider answered with a redirect.", "provider-error"), false, {
      headers,
      received
    })
  }
  if (received === 401 || received === 403) {
    const refused = bad(502, "The provider refuses the gateway's key.", providerCredentials)
    return failure("status", refused, false, { headers, received })
  }
  const text = body instanceof Uint8Array ? Buffer.from(body).toString("utf8") : ""
  const said = parsedJson(withoutSecrets(text))
  const error = readErrorIn(dialect, received, said)
  // A caller that receives 402 or a quota error would look for a cap of its own.
  if (received === 402 || (received === 429 && unpaidCodes.has(error.code))) {
    const unpaid = bad(502, "The provider refuses the gateway's account: it is not paid for.", providerCredentials)
    return failure("status", unpaid, false, { headers, received })
  }
  return failure("status", error, false, {
    headers,
    received,
    retryAfterSeconds: retryAfterSeconds(headers, now)
  })
}

/** Codes of an empty or closed account; OpenAI sends 429 both for these and for rate limits. */
const unpaidCodes = new Set<string | null>(["insufficient_quota", "billing_not_active"])

const dateOf = (value: number | string | null): Date | null => {
  if (value === null) return null
  const date = new Date(typeof value === "number" ? value * 1000 : value)
  return Number.isNaN(date.getTime()) ? null : date
}
