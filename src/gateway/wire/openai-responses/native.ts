import { Context, Effect, Layer, Option, type Scope } from "effect"
import { RouteNotFound } from "../../../kernel/problems/problems.ts"
import { CurrentPrincipal } from "../../../kernel/authority/principal.ts"
import { parsedJson } from "../../../kernel/json/parsed-json.ts"
import { type TenantId } from "../../../kernel/identifier.ts"
import { GatewayConfiguration } from "../../configuration/service.ts"
import { type GatewaySnapshot, type ServedModel } from "../../configuration/gateway-snapshot.ts"
import { SealedIds, type Holder, type OpenedId } from "../../conversations/sealed-ids.ts"
import {
  GatewayError,
  gatewayError,
  type GatewayProblem,
  invalidMember,
  providerError,
  unreadableAnswer
} from "../../errors/gateway-error.ts"
import { type Call } from "../../pipeline/call-request.ts"
import { type StoredRequest } from "../../providers/provider.ts"
import { speaks } from "../../routing/resolve-model.ts"
import { renamedItems, renamedResponse } from "../../translation/openai-responses/native-events.ts"
import { nativeRequest } from "./native-request.ts"
import { utf8Text } from "../../../kernel/utf8.ts"
import { Settings } from "../../../platform/settings/settings.ts"

type Failure = GatewayError<GatewayProblem>
type Incoming = Omit<Call, "dialect" | "operation">

/** Providers that speak the Responses API, and may store responses. */
const storing = ({ providers }: GatewaySnapshot): ReadonlyArray<string> =>
  [...providers.values()].flatMap(({ apis, id }) => (apis.has("responses") ? [id] : []))

/** Whether a target that speaks the Responses API is among the first that a call is sent to. */
const leads = ({ targets }: ServedModel): boolean => {
  const first = Math.min(...targets.map(({ priority }) => priority))
  return targets.some(({ priority, provider }) => priority === first && provider.apis.has("responses"))
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
  const ids = yield* SealedIds
  const { maxReferences } = (yield* Settings).llm.gateway.storedResponses

  const opener = (holder: Holder) => {
    let providers: ReadonlyArray<string> | undefined
    return (id: string): OpenedId | undefined => ids.open(holder, (providers ??= storing(configuration.snapshot())), id)
  }

  /** The gateway's ids for those of a provider; each is sealed once. */
  const idsOf = (holder: Holder, known: ReadonlyMap<string, string>) => (provider: string) => {
    const sealed = new Map(known)
    return (id: string): string => {
      let made = sealed.get(id)
      if (made === undefined) sealed.set(id, (made = ids.seal(holder, provider, id)))
      return made
    }
  }

  /** The call of a request that a provider serves itself; undefined where it has to be translated. */
  const prepare = Effect.fnUntraced(function* (
    incoming: Incoming,
    operation: "responses" | "count-responses" | "compact"
  ): Effect.fn.Return<Call | undefined, Failure> {
    const { body, caller } = incoming
    const model = configuration.snapshot().modelNamed(String(body.model))
    const holder = yield* holderOf(caller.subject.tenantId)
    const open = opener(holder)
    const references = referencesOf(body)
    if (references.length > maxReferences) return yield* tooManyReferences(maxReferences)
    const held = references.map(open).find((one) => one !== undefined)
    if (model === undefined || !speaks(model, operation)) {
      if (held === undefined) return undefined
      return yield* heldElsewhere(held.provider, body.model)
    }
    // What the gateway stores itself is sent as items, whatever the provider.
    if (held === undefined && (!leads(model) || references.some((id) => ownId.test(id)))) return undefined
    const impossible = unsupported(body)
    if (impossible !== undefined) return yield* impossible
    const request = nativeRequest(incoming, open)
    if (request instanceof GatewayError) return yield* request
    const { bytes, known, provider } = request
    if (provider !== undefined && !model.targets.some((target) => target.provider.id === provider)) {
      return yield* heldElsewhere(provider, body.model)
    }
    return {
      ...incoming,
      bytes,
      dialect: "openai",
      operation,
      onlyProvider: provider,
      idsFor: idsOf(holder, known)
    }
  })

  /** What a provider answers about a response that it stores; undefined if the id is none of a provider's. */
  const stored = Effect.fn("NativeResponses.stored")(function* (
    tenantId: TenantId,
    responseId: string,
    method: StoredRequest["method"],
    suffix: string
  ): Effect.fn.Return<Option.Option<Uint8Array>, Failure, Scope.Scope> {
    const holder = yield* holderOf(tenantId)
    const open = opener(holder)
    const held = open(responseId)
    if (held === undefined) return Option.none()
    const target = configuration.snapshot().providers.get(held.provider)?.provider
    if (target?.stored === undefined) return Option.none()
    const path = `/${encodeURIComponent(held.id)}${suffix}`
    const { body } = yield* Effect.mapError(target.stored({ method, path }), (failure) =>
      failure.received === 404 ? notStored(responseId) : providerError(failure, held.provider)
    )
    const text = body instanceof Uint8Array ? utf8Text(body) : ""
    const answer = parsedJson(text)
    if (answer === undefined) return yield* unreadableAnswer(held.provider)
    const rename = idsOf(holder, new Map([[held.id, responseId]]))(held.provider)
    const named = suffix.startsWith("/input_items")
      ? renamedItems(text, answer, rename)
      : renamedResponse(text, answer, rename)
    return Option.some(new TextEncoder().encode(named))
  })

  /** The provider's id of an item in a query, such as `after`. */
  const itemId = (tenantId: TenantId, id: string) =>
    Effect.map(holderOf(tenantId), (holder) => opener(holder)(id)?.id ?? id)

  return { itemId, prepare, stored }
})

/** The Responses API of providers that speak it: requests and answers pass unchanged, but for their ids. */
export class NativeResponses extends Context.Service<NativeResponses, Effect.Success<typeof make>>()(
  "app/gateway/NativeResponses"
) {
  static readonly layer = Layer.effect(NativeResponses, make).pipe(Layer.provide(SealedIds.layer))
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

const heldElsewhere = (provider: string, model: unknown): Failure =>
  invalidMember(
    "previous_response_id",
    `previous_response_id: The provider ${provider} stores this conversation, and does not serve the model ${String(model)} by the Responses API; send all items of the conversation`
  )

const notStored = (id: string): Failure =>
  gatewayError(
    new RouteNotFound({ detail: `No response with the id ${id} is stored: it never was, expired, or was deleted.` }),
    {
      code: "response_not_found",
      param: "response_id"
    }
  )
