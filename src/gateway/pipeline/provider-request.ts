import { Effect, Result } from "effect"
import { type Json } from "../../kernel/json/parsed-json.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { type ModelTarget } from "../configuration/gateway-snapshot.ts"
import { type GatewayError, invalidMembers } from "../errors/gateway-error.ts"
import { openedIn } from "../formats/common-form/turn-state.ts"
import { type SentLimits, type WireFormat } from "../formats/format.ts"
import { sentForm, type SentForm } from "../formats/forms/form.ts"
import { namedAs, Omissions } from "../formats/omissions.ts"
import { type CountableRequest } from "../metering/provider-counts.ts"
import { formatAt } from "../routing/resolve-model.ts"
import { type FormatRequest } from "./call-request.ts"

const untranslated: Result.Result<Json, ReadonlyArray<Fault>> = Result.fail([
  { path: ["model"], message: "No provider of the model speaks this API, and its requests are not translated" }
])

/** Translates a request through the common form. */
const translated = (
  request: FormatRequest,
  to: WireFormat,
  target: ModelTarget,
  limits: SentLimits,
  omissions = new Omissions()
): Effect.Effect<Json, GatewayError> => {
  const { ownNames = {}, requestToCommon: read } = request.format.translation ?? {}
  const { requestFromCommon: write } = to.translation ?? {}
  return Effect.mapError(
    Effect.fromResult(
      read === undefined || write === undefined
        ? untranslated
        : Result.flatMap(read(request, omissions), (chat) =>
            write(
              openedIn(chat, (sealed) => request.states.open(target.provider.id, sealed)),
              target,
              limits,
              omissions
            )
          )
    ),
    (faults) => invalidMembers(faults.map(({ message, path }) => ({ message, path: namedAs(ownNames, path) })))
  )
}

/** The body for a target, and what a translation leaves out of it. */
export const providerRequest = (
  request: FormatRequest,
  target: ModelTarget,
  limits: SentLimits,
  omissions = new Omissions()
): Effect.Effect<string | Uint8Array, GatewayError> => {
  const { format, session } = request
  const to = formatAt(format, target)
  const sent = session === undefined ? limits : { ...limits, cacheKey: session.cacheKey }
  return to === format
    ? Effect.succeed(format.edit(request, target, sent))
    : Effect.map(translated(request, to, target, sent, omissions), (body) => JSON.stringify(body))
}

/** The form for a target, where requests are forms. */
export const providerForm = ({ body, form, format }: FormatRequest, target: ModelTarget): SentForm | undefined =>
  form === undefined || format.form === undefined ? undefined : sentForm(form, format.form.changes(body, target))

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
  answering: ModelTarget
): Effect.Effect<CountableRequest, GatewayError> | undefined => {
  // Marks cost no tokens, and move from turn to turn.
  const target: ModelTarget = { ...answering, promptCache: "off" }
  const { format, headers } = request
  const to = formatAt(format, target)
  if (to.counting === undefined) return undefined
  return Effect.suspend(() => {
    const { noted, request: given } = noting(request)
    const body =
      to === format
        ? Effect.sync(() => parsedBytes(format.edit(request, target, noLimits)))
        : translated(given, to, target, noLimits)
    return Effect.map(body, (counted) => ({
      format: to,
      body: counted,
      headers,
      onlyProvider: noted.hasStates ? target.provider.id : undefined
    }))
  })
}
