import { Context, Effect, Layer } from "effect"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { type Json } from "../../kernel/json/parsed-json.ts"
import { type ServedModel } from "../configuration/gateway-snapshot.ts"
import { GatewayConfiguration } from "../configuration/service.ts"
import { GatewayError, invalidMember } from "../errors/gateway-error.ts"
import { answerScope, type IdScope } from "../json/kept-ids.ts"
import { openedRequest } from "./opened-request.ts"
import { type Holder, type OpenedId, SealedIds } from "./sealed-ids.ts"

/** The part of a call that has ids. */
interface IdentifiedCall {
  readonly model: unknown
  readonly body: Json
  readonly bytes: Uint8Array
  readonly caller: { readonly subject: { readonly tenantId: TenantId } }
  readonly onlyProvider?: string | undefined
  /** The ids that a caller gets in the place of a provider's; undefined until those of the request are opened. */
  readonly idsFor?: ((provider: string) => (id: string) => string) | undefined
}

/** The error for a request whose model is not served by the provider that keeps what it refers to. */
export const keptElsewhere = (param: string, provider: string, model: unknown): GatewayError =>
  invalidMember(
    param,
    `${param}: The provider ${provider} keeps what the request refers to, and does not serve the model ${String(model)} by this API; send all items of the conversation`
  )

/** The ids of what providers keep: a caller gets them sealed, and only those that it can open reach a provider. */
export class RequestIds extends Context.Service<
  RequestIds,
  {
    /** What an id of a holder's means: one that is sealed for it, or one that every caller may use. */
    opener(holder: Holder, model: ServedModel | undefined): (id: string) => OpenedId | undefined
    /** The same call with its provider's ids, or the error of one that the caller may not use. */
    opened<C extends IdentifiedCall>(call: C, scope?: IdScope): Effect.Effect<C, GatewayError>
    /** The ids that a caller gets; those of the request, as it has them. */
    idsFor(holder: Holder, known: ReadonlyMap<string, string>): (provider: string) => (id: string) => string
  }
>()("app/gateway/RequestIds") {
  static readonly layer = Layer.effect(
    RequestIds,
    Effect.gen(function* () {
      const configuration = yield* GatewayConfiguration
      const ids = yield* SealedIds

      const opener = (holder: Holder, model: ServedModel | undefined) => {
        const { providers } = configuration.snapshot()
        const sharing = [...(model?.targets ?? []).map(({ provider }) => provider), ...providers.values()]
        return (id: string): OpenedId | undefined => {
          const provider = sharing.find(({ sharedIds }) => sharedIds?.has(id) === true)?.id
          return provider === undefined ? ids.open(holder, providers.keys(), id) : { provider, id }
        }
      }

      const idsFor = (holder: Holder, known: ReadonlyMap<string, string>) => (provider: string) => {
        const open = configuration.snapshot().providers.get(provider)?.sharedIds
        const sealed = new Map(known)
        return (id: string): string => {
          if (open?.has(id) === true) return id
          let made = sealed.get(id)
          if (made === undefined) sealed.set(id, (made = ids.seal(holder, provider, id)))
          return made
        }
      }

      const opened = <C extends IdentifiedCall>(
        call: C,
        scope: IdScope = answerScope
      ): Effect.Effect<C, GatewayError> => {
        if (call.idsFor !== undefined) return Effect.succeed(call)
        return Effect.flatMapEager(CurrentPrincipal, (principal) => {
          const { caller } = call
          const holder = { tenantId: caller.subject.tenantId, principal }
          const model = configuration.snapshot().modelNamed(String(call.model))
          const request = openedRequest(call, scope, opener(holder, model))
          if (request instanceof GatewayError) return Effect.fail(request)
          const { bytes, known, param, provider } = request
          const isServed = model?.targets.some((target) => target.provider.id === provider) ?? true
          if (provider !== undefined && !isServed) return Effect.fail(keptElsewhere(param, provider, call.model))
          return Effect.succeed({
            ...call,
            body: request.body,
            bytes,
            onlyProvider: provider ?? call.onlyProvider,
            idsFor: idsFor(holder, known)
          })
        })
      }

      return RequestIds.of({ idsFor, opened, opener })
    })
  ).pipe(Layer.provide(SealedIds.layer))
}
