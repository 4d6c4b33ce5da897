import { Context, Effect, Layer } from "effect"
import { type Capability, covers } from "../../kernel/authority/capability.ts"
import { CurrentPrincipal, Forbidden } from "../../kernel/authority/principal.ts"
import { isJson, type Json, textIn } from "../../kernel/json/parsed-json.ts"
import { type GatewayCaller } from "../authentication/gateway-authentication.ts"
import { type ConnectedProvider } from "../configuration/gateway-snapshot.ts"
import { GatewayConfiguration } from "../configuration/service.ts"
import { TurnStates } from "../conversations/turn-states.ts"
import { gatewayError, GatewayError, type GatewayProblem, invalidMember } from "../errors/gateway-error.ts"
import { type BatchApi } from "../formats/batches/batches.ts"
import { type GivenBody, type WireFormat } from "../formats/format.ts"
import { betaMembers } from "../formats/request-faults.ts"
import { servedName } from "../formats/served-domain.ts"
import { CallPipeline, type PreparedCall } from "../pipeline/call-pipeline.ts"
import { type Call, type CallKey } from "../pipeline/call-request.ts"
import { type Candidate, formatAt } from "../routing/resolve-model.ts"
import { unsupported } from "../wire/openai-responses/native.ts"
import { batchTier, boundKinds, type BoundKinds, type InputTerms } from "./domain.ts"
import { maxModels, RequestPlaces } from "./request-places.ts"
import { writeRates } from "./stored-rates.ts"

type Failure = GatewayError<GatewayProblem>

/** The caller of a batch, and what all of its requests share. */
export interface BatchCaller {
  readonly api: BatchApi
  readonly caller: GatewayCaller
  readonly headers: Readonly<Record<string, string>>
  readonly idempotency: CallKey | undefined
}

/** A request of a batch: its id, where it goes, and its body. */
export interface BatchRequest extends GivenBody {
  readonly customId: unknown
  readonly url: unknown
}

interface ModelSums {
  readonly first: PreparedCall
  readonly asked: string
  readonly index: number
  requests: number
  amountNanoUsd: bigint
  tokens: number
  kinds: BoundKinds
}

/** A failure, with the place of its request in the batch. */
export const failureAt = (failure: Failure, place: string): Failure =>
  new GatewayError({ ...failure, error: { ...failure.error, message: `${place}: ${failure.error.message}` } })

const noPlace = (message: string, param: string): Failure => invalidMember(param, `${param}: ${message}`)

/** The kinds of caps that a bound was made for; what is not known counts as not bounded by it. */
const kindsOf = ({ constraints }: PreparedCall): BoundKinds => ({
  byMoney: constraints.byMoney,
  byHard: constraints.byHard,
  byHardMoney: constraints.byHardMoney,
  byHardTokens: constraints.byHardTokens ?? constraints.byHard
})

/** Fails for a caller who lacks a capability, where the path takes others too. */
export const requireCapability = (missing: Capability): Effect.Effect<void, GatewayError<Forbidden>> =>
  Effect.flatMapEager(CurrentPrincipal, ({ capabilities }) =>
    capabilities.some((held) => covers(held, missing))
      ? Effect.void
      : Effect.fail(gatewayError(new Forbidden({ missing: [missing], detail: `The caller lacks ${missing}.` })))
  )

/** What a request of a batch must not ask for, since its answer is not sent as it is made, nor at another tier. */
const unfit = (body: Json): Failure | undefined => {
  if (body.stream === true) return noPlace("The requests of a batch are not streamed", "stream")
  if (servedName("tier", body.service_tier) !== undefined)
    return noPlace("A batch has a tier of its own", "service_tier")
  const beta = betaMembers.find((name) => Object.hasOwn(body, name))
  return beta === undefined ? undefined : noPlace("Send betas as a header of the whole batch", beta)
}

/** The requests of one batch, each of which is bounded as a call by itself would be. */
export class BatchInput {
  provider: ConnectedProvider | undefined
  private url: string | undefined
  private readonly ids = new Set<string>()
  private readonly models = new Map<string, ModelSums>()
  private readonly places = new RequestPlaces()
  private readonly of: BatchCaller
  private readonly services: {
    readonly pipeline: CallPipeline["Service"]
    readonly states: Call["states"]
    readonly catalogueVersion: string
  }

  constructor(of: BatchCaller, services: BatchInput["services"]) {
    this.of = of
    this.services = services
  }

  get requests(): number {
    return this.ids.size
  }

  /** The body of a request as its provider gets it; fails for one that is invalid, or has no bound where a cap asks for one. */
  readonly add = Effect.fnUntraced(function* (
    this: BatchInput,
    { body, bytes, customId, url }: BatchRequest
  ): Effect.fn.Return<string | Uint8Array, Failure> {
    const { api, caller, headers } = this.of
    const format = this.formatOf(url)
    if (format instanceof GatewayError) return yield* format
    if (typeof customId !== "string" || !api.customId.test(customId)) {
      return yield* noPlace(`Expected a text of the form ${api.customId.source}`, "custom_id")
    }
    if (this.ids.has(customId)) return yield* noPlace("Another request has this id", "custom_id")
    if (this.ids.size >= api.maxRequests) {
      return yield* noPlace(`A batch has at most ${api.maxRequests} requests`, "requests")
    }
    yield* requireCapability(format.route?.capability ?? "llm:complete")
    const impossible = unfit(body) ?? unsupported(body)
    if (impossible !== undefined) return yield* impossible
    const call: Call = {
      format,
      model: body.model ?? format.usualModel,
      streams: false,
      body,
      bytes,
      caller,
      states: this.services.states,
      headers,
      writeError: () => ""
    }
    const prepared = yield* this.services.pipeline.prepare(call, batchTier, (candidates) =>
      this.chosen(candidates, format)
    )
    this.count(customId, textIn(call.model), prepared)
    return prepared.body
  })

  /** What the requests so far may cost. */
  get terms(): InputTerms {
    return {
      url: this.url ?? "",
      catalogueVersion: this.services.catalogueVersion,
      models: Array.from(this.models.values(), ({ amountNanoUsd, asked, first, kinds, requests, tokens }) => ({
        model: first.model.id,
        asked,
        target: first.target.model,
        requests,
        amountNanoUsd,
        tokens,
        rates: first.target.rates === null ? null : writeRates(first.target.rates),
        kinds
      }))
    }
  }

  /** The headers that the whole batch is sent with, and the betas that are left out because caps ask for a bound. */
  get sent(): { readonly headers: Readonly<Record<string, string>>; readonly omitted: ReadonlyArray<string> } {
    const one = [...this.models.values()].find(({ kinds }) => kinds.byHard)
    return one === undefined || one.first.betas.unbounded.length === 0
      ? { headers: this.of.headers, omitted: [] }
      : { headers: one.first.betas.bounded, omitted: one.first.betas.unbounded }
  }

  /** Which model each request is for; null where there is one alone. */
  get modelPlaces(): Uint8Array | null {
    return this.models.size > 1 ? this.places.bytes : null
  }

  private formatOf(url: unknown): WireFormat | Failure {
    const { formats } = this.of.api
    const format = typeof url === "string" ? formats.get(url) : undefined
    if (typeof url !== "string" || format === undefined) {
      return noPlace(`Expected one of ${[...formats.keys()].join(", ")}`, "url")
    }
    if (this.url !== undefined && this.url !== url) return noPlace(`The requests before it are for ${this.url}`, "url")
    this.url = url
    return format
  }

  private readonly chosen = (candidates: ReadonlyArray<Candidate>, format: WireFormat): Candidate | GatewayError => {
    const [first] = candidates
    const known = first && this.models.get(first.model.id)?.first
    if (known !== undefined) return known
    const able = candidates.filter(
      ({ target }) => target.provider.provider.kept !== undefined && formatAt(format, target) === format
    )
    const found = able.find(
      ({ target: { provider } }) => this.provider === undefined || provider.id === this.provider.id
    )
    const names = candidates.map(({ target }) => target.provider.id).join(", ")
    if (found === undefined) {
      return invalidMember(
        "model",
        able.length === 0
          ? `model: No provider of it (${names}) takes batches of these requests`
          : `model: The provider ${this.provider?.id} has the models of the requests before it, and not this one; send it in another batch`,
        "model_not_supported"
      )
    }
    if (this.models.size >= maxModels) return invalidMember("model", `model: A batch has at most ${maxModels} models`)
    this.provider = found.target.provider
    return found
  }

  private count(customId: string, asked: string, prepared: PreparedCall): void {
    const { estimate, model } = prepared
    this.ids.add(customId)
    let sums = this.models.get(model.id)
    if (sums === undefined) {
      const index = this.models.size
      sums = { first: prepared, asked, index, requests: 0, amountNanoUsd: 0n, tokens: 0, kinds: kindsOf(prepared) }
      this.models.set(model.id, sums)
    }
    const kinds = kindsOf(prepared)
    const both = Object.fromEntries(boundKinds.map((kind) => [kind, sums.kinds[kind] && kinds[kind]]))
    sums.kinds = { ...sums.kinds, ...both }
    sums.requests++
    sums.amountNanoUsd += estimate.amountNanoUsd
    sums.tokens += estimate.tokens
    this.places.add(customId, sums.index)
  }
}

/** Begins to read the requests of batches. */
export class BatchInputs extends Context.Service<BatchInputs>()("app/gateway/BatchInputs", {
  make: Effect.gen(function* () {
    const configuration = yield* GatewayConfiguration
    const pipeline = yield* CallPipeline
    const states = yield* TurnStates
    return {
      begin: (of: BatchCaller): BatchInput =>
        new BatchInput(of, {
          pipeline,
          states: states.of(of.caller.subject.tenantId),
          catalogueVersion: configuration.snapshot().catalogueVersion
        })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}

/** The members of a line of a file of requests; the body of a request keeps its bytes. */
export const requestIn = ({ body: line }: GivenBody): Json | Failure =>
  isJson(line.body) ? line.body : noPlace("Expected an object", "body")
