import { Context, Effect, Layer, type Scope } from "effect"
import { CurrentPrincipal, type Principal } from "../../kernel/authority/principal.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { isJson, type Json, parsedJson } from "../../kernel/json/parsed-json.ts"
import { RouteNotFound } from "../../kernel/problems/problems.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { withoutDeadline } from "../../platform/http/deadline.ts"
import { type ConnectedProvider } from "../configuration/gateway-snapshot.ts"
import { GatewayConfiguration } from "../configuration/service.ts"
import { RequestIds } from "../conversations/request-ids.ts"
import {
  gatewayError,
  type GatewayError,
  type GatewayProblem,
  providerError,
  unreadableAnswer
} from "../errors/gateway-error.ts"
import { type KeptRequest, type ProviderAnswer } from "../providers/provider.ts"

type Failure = GatewayError<GatewayProblem>

/** Who keeps a thing, and its own id of it. */
export interface KeptThing {
  readonly provider: ConnectedProvider
  readonly id: string
}

/** The principal by whose name a thing was made, as far as ids depend on it: an agent has ids of its own. */
const makerNamed = (name: string): Pick<Principal, "kind" | "name"> => ({
  kind: name.startsWith("agent:") ? "agent" : "system",
  name
})

/** An agent reaches its own things alone; other principals share those of their tenant. */
export const reachable = Effect.map(CurrentPrincipal, ({ kind, name }) => (kind === "agent" ? name : null))

export const notKept = (what: string, id: string, param: string): Failure =>
  gatewayError(new RouteNotFound({ detail: `There is no ${what} with the id ${id}: it never was, or was deleted.` }), {
    code: `${what}_not_found`,
    param
  })

/** What a provider answers with. */
const send = (
  { id, provider }: ConnectedProvider,
  request: KeptRequest
): Effect.Effect<ProviderAnswer, Failure, Scope.Scope> =>
  provider.kept === undefined
    ? Effect.fail(unreadableAnswer(id))
    : Effect.mapError(withoutDeadline(provider.kept(request)), (failure) => providerError(failure, id))

/** Files and batches that providers keep for callers, under ids that are sealed for them. */
export class KeptThings extends Context.Service<KeptThings>()("app/gateway/KeptThings", {
  make: Effect.gen(function* () {
    const configuration = yield* GatewayConfiguration
    const ids = yield* RequestIds

    const open = Effect.fnUntraced(function* (
      tenantId: TenantId,
      given: string,
      what: "file" | "batch",
      param: string
    ): Effect.fn.Return<KeptThing, Failure> {
      const opened = ids.opener({ tenantId, principal: yield* CurrentPrincipal }, undefined)(given)
      const provider = opened && configuration.snapshot().providers.get(opened.provider)
      // What every caller may use is its operator's all the same.
      if (opened === undefined || opened.id === given || provider?.provider.kept === undefined) {
        return yield* notKept(what, given, param)
      }
      return { provider, id: opened.id }
    })

    return {
      /** The thing that an id of the caller's names. */
      open,
      /** The providers' own ids of those that the caller may name; others are left out. */
      opened: Effect.fnUntraced(function* (tenantId: TenantId, given: ReadonlyArray<string>) {
        const opener = ids.opener({ tenantId, principal: yield* CurrentPrincipal }, undefined)
        return given.flatMap((id) => opener(id)?.id ?? [])
      }),
      /** The ids that callers get of what a principal of the tenant made. */
      sealer: (tenantId: TenantId, createdBy: string, provider: string): ((id: string) => string) =>
        ids.idsFor({ tenantId, principal: makerNamed(createdBy) }, new Map())(provider),
      send,
      /** The object that a provider answers with. */
      ask: Effect.fnUntraced(function* (provider: ConnectedProvider, request: KeptRequest) {
        const answer = jsonIn(yield* Effect.scoped(send(provider, request)))
        return answer ?? (yield* unreadableAnswer(provider.id))
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}

/** The object in a provider's answer; undefined if there is none. */
export const jsonIn = ({ body }: ProviderAnswer): Json | undefined => {
  const value = body instanceof Uint8Array ? parsedJson(utf8Text(body)) : undefined
  return isJson(value) ? value : undefined
}
