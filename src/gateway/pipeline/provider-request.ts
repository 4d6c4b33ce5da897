import { Effect, Result } from "effect"
import { type Json } from "../../kernel/json/parsed-json.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { type ModelTarget } from "../configuration/gateway-snapshot.ts"
import { type GatewayError, invalidMembers } from "../errors/gateway-error.ts"
import { openedIn } from "../formats/common-form/turn-state.ts"
import { formatAt } from "../routing/resolve-model.ts"
import { type SentLimits, type WireFormat } from "../formats/format.ts"
import { type CountableRequest } from "../metering/provider-counts.ts"
import { type FormatRequest } from "./call-request.ts"

/** A request as a target gets it. */
export interface WrittenRequest {
  readonly body: string | Uint8Array
  /** The members that it lost in its translation. */
  readonly omitted: ReadonlyArray<string>
}

const untranslated: Result.Result<never, ReadonlyArray<Fault>> = Result.fail([
  { path: ["model"], message: "No provider of the model speaks this API, and its requests are not translated" }
])

/** Translates a request through the common form. */
const translated = (
  request: FormatRequest,
  to: WireFormat,
  target: ModelTarget,
  limits: SentLimits
): Effect.Effect<{ readonly body: Json; readonly omitted: ReadonlyArray<string> }, GatewayError> => {
  const { requestToCommon: read } = request.format.translation ?? {}
  const { omittedIn, requestFromCommon: write } = to.translation ?? {}
  return Effect.mapError(
    Effect.fromResult(
      read === undefined || write === undefined
        ? untranslated
        : Result.flatMap(read(request), (chat) =>
            Result.map(
              write(
                openedIn(chat, (sealed) => request.states.open(target.provider.id, sealed)),
                target,
                limits
              ),
              (body) => ({ body, omitted: omittedIn?.(chat) ?? [] })
            )
          )
    ),
    invalidMembers
  )
}

/** The request for a target. */
export const providerRequest = (
  request: FormatRequest,
  target: ModelTarget,
  limits: SentLimits
): Effect.Effect<WrittenRequest, GatewayError> => {
  const { format } = request
  const to = formatAt(format, target)
  return to === format
    ? Effect.succeed({ body: format.edit(request, target, limits), omitted: [] })
    : Effect.map(translated(request, to, target, limits), ({ body, omitted }) => ({
        body: JSON.stringify(body),
        omitted
      }))
}

const noLimits: SentLimits = { limit: undefined, outputTokens: 1, toolLimit: undefined }

/** A request, with a note of whether what it gives back to its provider was looked for. */
const noting = (request: FormatRequest) => {
  const noted = { hasStates: false }
  const open: FormatRequest["states"]["open"] = (provider, sealed) => {
    noted.hasStates = true
    return request.states.open(provider, sealed)
  }
  return { noted, request: { ...request, states: { ...request.states, open } } }
}

const parsedBytes = (json: string | Uint8Array): Json =>
  JSON.parse(typeof json === "string" ? json : utf8Text(json)) as Json

/** A request as a target would get it, for its provider to count; undefined if no provider counts such requests. */
export const countableRequest = (
  request: FormatRequest & Pick<CountableRequest, "headers">,
  target: ModelTarget
): Effect.Effect<CountableRequest, GatewayError> | undefined => {
  const { format, headers } = request
  const to = formatAt(format, target)
  if (to.counting === undefined) return undefined
  return Effect.suspend(() => {
    const { noted, request: given } = noting(request)
    const body =
      to === format
        ? Effect.sync(() => parsedBytes(format.edit(request, target, noLimits)))
        : Effect.map(translated(given, to, target, noLimits), ({ body }) => body)
    return Effect.map(body, (counted) => ({
      format: to,
      body: counted,
      headers,
      onlyProvider: noted.hasStates ? target.provider.id : undefined
    }))
  })
}
