import { Context, Effect, Layer, Option, type Scope } from "effect"
import { CurrentPrincipal } from "../../../kernel/authority/principal.ts"
import { type TenantId } from "../../../kernel/identifier.ts"
import { parsedJson } from "../../../kernel/json/parsed-json.ts"
import { RouteNotFound } from "../../../kernel/problems/problems.ts"
import { utf8Text } from "../../../kernel/utf8.ts"
import { withoutDeadline } from "../../../platform/http/deadline.ts"
import { Settings } from "../../../platform/settings/settings.ts"
import { type ServedModel } from "../../configuration/gateway-snapshot.ts"
import { GatewayConfiguration } from "../../configuration/service.ts"
import { referencesIn } from "../../conversations/opened-request.ts"
import { keptElsewhere, RequestIds } from "../../conversations/request-ids.ts"
import { type Holder } from "../../conversations/sealed-ids.ts"
import {
  type GatewayError,
  gatewayError,
  type GatewayProblem,
  invalidMember,
  providerError,
  unreadableAnswer
} from "../../errors/gateway-error.ts"
import { type WireFormat } from "../../formats/format.ts"
import { openAiResponses } from "../../formats/openai-responses/format.ts"
import { renaming, responsesScope } from "../../json/kept-ids.ts"
import { type Call } from "../../pipeline/call-request.ts"
import { type StoredRequest } from "../../providers/provider.ts"
import { speaks } from "../../routing/resolve-model.ts"

type Failure = GatewayError<GatewayProblem>
type Incoming = Omit<Call, "format">

/** Whether a target that speaks the Responses API is among the first that a call is sent to. */
const leads = ({ targets }: ServedModel): boolean => {
  const first = Math.min(...targets.map(({ priority }) => priority))
  return targets.some((target) => target.priority === first && speaks(openAiResponses)(target))
}

/** The gateway's own ids, of responses that it stores itself. */
const ownId = /^[a-z]+_[0-9a-f]{32}(?:_\d+)?$/

const referencesOf = ({ input, previous_response_id: previous }: Call["body"]): ReadonlyArray<string> => [
  ...(typeof previous === "string" ? [previous] : []),
  ...(Array.isArray(input) ? input : []).flatMap((item: { readonly type?: unknown; readonly id?: unknown } | null) =>
    item?.type === "item_reference" && typeof item.id === "string" ? [item.id] : []
  )
]

const holderOf = (tenantId: TenantId) => Effect.map(CurrentPrincipal, (principal): Holder => ({ tenantId, principal }))

const make = Effect.gen(function* () {
  const configuration = yield* GatewayConfiguration
  const ids = yield* RequestIds
  const { maxReferences } = (yield* Settings).llm.gateway.storedResponses

  /** The call of a request that a provider serves itself; undefined where it has to be translated. */
  const prepare = Effect.fnUntraced(function* (
    incoming: Incoming,
    format: WireFormat
  ): Effect.fn.Return<Call | undefined, Failure> {
    const { body, caller } = incoming
    const model = configuration.snapshot().modelNamed(String(body.model))
    const open = ids.opener(yield* holderOf(caller.subject.tenantId), model)
    const conversation = referencesOf(body)
    if (conversation.length > maxReferences) return yield* tooManyReferences(maxReferences)
    const held = conversation.map(open).find((one) => one !== undefined)
    if (model === undefined || !model.targets.some(speaks(format))) {
      return held === undefined ? undefined : yield* keptElsewhere("previous_response_id", held.provider, body.model)
    }
    // What the gateway stores itself is sent as items, whatever the provider.
    const isHeld = held !== undefined || referencesIn(body, responsesScope).some((id) => open(id) !== undefined)
    if (!isHeld && (!leads(model) || conversation.some((id) => ownId.test(id)))) return undefined
    const impossible = unsupported(body)
    if (impossible !== undefined) return yield* impossible
    return yield* ids.opened<Call>({ ...incoming, format }, responsesScope)
  })

  /** What a provider answers about a response that it stores; undefined if the id is none of a provider's. */
  const stored = Effect.fn("NativeResponses.stored")(function* (
    tenantId: TenantId,
    responseId: string,
    method: StoredRequest["method"],
    action: string,
    asked: URLSearchParams
  ): Effect.fn.Return<Option.Option<Uint8Array>, Failure, Scope.Scope> {
    const holder = yield* holderOf(tenantId)
    const open = ids.opener(holder, undefined)
    const held = open(responseId)
    if (held === undefined) return Option.none()
    const target = configuration.snapshot().providers.get(held.provider)?.provider
    if (target?.stored === undefined) return Option.none()
    const query = new URLSearchParams()
    for (const [name, value] of method === "GET" ? asked : []) {
      if (!passedQuery.has(name)) continue
      const item = name === "after" ? open(value) : undefined
      if (name === "after" && item?.provider !== held.provider) return yield* notStored(value, "after")
      query.append(name, item?.id ?? value)
    }
    const path = `/${encodeURIComponent(held.id)}${action}${query.size === 0 ? "" : `?${query.toString()}`}`
    const { body } = yield* Effect.mapError(withoutDeadline(target.stored({ method, path })), (failure) =>
      failure.received === 404 ? notStored(responseId) : providerError(failure, held.provider)
    )
    const text = body instanceof Uint8Array ? utf8Text(body) : ""
    const answer = parsedJson(text)
    if (answer === undefined) return yield* unreadableAnswer(held.provider)
    const rename = renaming(responsesScope, ids.idsFor(holder, new Map([[held.id, responseId]]))(held.provider))
    return Option.some(new TextEncoder().encode(rename(text, answer)))
  })

  return { prepare, stored }
})

/** What a query about a stored response may ask of its provider. */
const passedQuery = new Set(["after", "limit", "order", "include", "include[]"])

/** The Responses API of providers that speak it: requests and answers pass unchanged, but for their ids. */
export class NativeResponses extends Context.Service<NativeResponses, Effect.Success<typeof make>>()(
  "app/gateway/NativeResponses"
) {
  static readonly layer = Layer.effect(NativeResponses, make)
}

/** What the gateway serves nowhere: the caller waits for each answer, and has no conversations by id. */
export const unsupported = ({ background, conversation }: Call["body"]): Failure | undefined => {
  if (background === true) {
    return invalidMember("background", "background: The gateway answers while the caller waits; send background: false")
  }
  return (conversation ?? null) === null
    ? undefined
    : invalidMember(
        "conversation",
        "conversation: The gateway stores no conversations by id; send previous_response_id, or all items"
      )
}

const tooManyReferences = (most: number): Failure =>
  invalidMember(
    "input",
    `input: Expected at most ${most} references to stored responses and items (Llm:Gateway:StoredResponses:MaxReferences); send previous_response_id, or the items themselves`
  )

const notStored = (id: string, param = "response_id"): Failure =>
  gatewayError(
    new RouteNotFound({ detail: `No response with the id ${id} is stored: it never was, expired, or was deleted.` }),
    { code: param === "after" ? "item_not_found" : "response_not_found", param }
  )
