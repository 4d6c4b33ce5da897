import { isStorable } from "../../kernel/text.ts"
import { type Strategy } from "../configuration/configuration-domain.ts"
import { ModelNotFound } from "../configuration/domain.ts"
import { type GatewaySnapshot, type ModelTarget, type ServedModel } from "../configuration/gateway-snapshot.ts"
import { gatewayError, type GatewayError, invalidMember } from "../errors/gateway-error.ts"
import { ownApis } from "../formats/domain.ts"
import { type WireFormat } from "../formats/format.ts"
import { type PrepaidQuota } from "./prepaid-quotas.ts"
import { type CallSession, type SessionOrder } from "./sessions.ts"

/** The error for an unknown model name. */
export const modelNotFound = (gateway: GatewaySnapshot, name: string): GatewayError<ModelNotFound> => {
  const [provider = ""] = name.split("/", 1)
  const remedy = gateway.providers.has(provider)
    ? ` The provider ${provider} serves models that are not listed only if its configuration has \`unlisted\`.`
    : ""
  return gatewayError(new ModelNotFound({ detail: `The model \`${name}\` does not exist.${remedy}` }), {
    param: "model"
  })
}

const longestName = 500

export const isModelName = (name: unknown): name is string =>
  typeof name === "string" && name !== "" && name.length <= longestName && isStorable(name)

/** The error for what cannot be the name of a model; `param` is where it stands. */
export const noModelName = (param: string): GatewayError =>
  invalidMember(param, `${param}: Expected the name of a model, in at most ${longestName} characters`)

/** The model with this name, if it can be asked in a format. */
export const resolveModel = (
  gateway: GatewaySnapshot,
  name: unknown,
  format: WireFormat
): ServedModel | GatewayError => {
  if (!isModelName(name)) return noModelName("model")
  const model = gateway.modelNamed(name)
  if (model === undefined) return modelNotFound(gateway, name)
  const own = ownApis[format.modelKind]
  if (model.kind !== format.modelKind && (own === undefined || !model.capabilities.includes(own))) {
    return invalidMember("model", `The model \`${name}\` does not do this.`, "model_not_supported")
  }
  return format.estimates === true || model.targets.length === 0 || model.targets.some(serves(format))
    ? model
    : invalidMember(
        "model",
        `No provider of the model \`${name}\` has this API: neither it nor its target has \`${format.api}\` in \`apis\`.`,
        "model_not_supported"
      )
}

/** Whether a target takes calls of a format as they are, or as far as their API is the same, translated. */
export const speaks =
  ({ api }: Pick<WireFormat, "api">) =>
  ({ apis }: ModelTarget): boolean =>
    apis.has(api)

/** The format of a target's chats: that of its dialect, or another one where its model has no such API. */
const chatOf = ({ apis, provider: { speaks } }: ModelTarget): WireFormat | undefined =>
  [speaks.chat, ...(speaks.otherChats ?? [])].find(({ api }) => apis.has(api))

/** Whether a target can be sent calls of a format: it has the API, or another one that chats are translated to. */
const serves =
  (format: WireFormat) =>
  (target: ModelTarget): boolean =>
    speaks(format)(target) || (format.api === target.provider.speaks.chat.api && chatOf(target) !== undefined)

/** The format in which a target gets a call: the call's own where it is spoken there. */
export const formatAt = (format: WireFormat, target: ModelTarget): WireFormat => {
  const { speaks: vendor } = target.provider
  if (format.dialect === vendor.dialect && format.isSpoken !== false && speaks(format)(target)) return format
  return (format.hasOutput ? undefined : vendor.embeddings) ?? chatOf(target) ?? vendor.chat
}

/** A target that a call may be sent to, and the model that it serves: the requested one, or a fallback. */
export interface Candidate {
  readonly model: ServedModel
  readonly target: ModelTarget
}

/** Which targets a call cannot be sent to. */
interface Exclusions {
  readonly onlyProvider?: string | undefined
  readonly isLeftOut?: ((target: ModelTarget) => boolean) | undefined
}

/** The targets of a model and its fallbacks, in the order in which they are tried. */
export const candidatesOf = (
  gateway: GatewaySnapshot,
  models: ReadonlyArray<ServedModel>,
  format: WireFormat,
  facts: RoutingFacts,
  { isLeftOut, onlyProvider }: Exclusions = {}
): ReadonlyArray<Candidate> =>
  models.flatMap((model) => {
    const able = model.targets.filter(
      (target) =>
        serves(format)(target) &&
        (onlyProvider === undefined || target.provider.id === onlyProvider) &&
        isLeftOut?.(target) !== true
    )
    const order = gateway.routing.isSticky ? facts.orderOf?.(model.id) : undefined
    return routeOrder(able, gateway.routing.strategy, facts, order).map((target) => ({ model, target }))
  })

/** What the order may depend on besides the configuration. */
export interface RoutingFacts {
  /** The recent latency of a target; undefined before its first response. */
  latency(target: ModelTarget): number | undefined
  /** What the caller's tenant has left of quotas at the target's provider. */
  quota(target: ModelTarget): PrepaidQuota
  /** A number from 0 to below 1. */
  random(): number
  /** The order of a session's targets for a model, by its id; undefined where the call is of no session. */
  readonly orderOf?: CallSession["orderOf"]
}

/** The sum of the input and output rates, which is enough to compare prices. */
const dearness = ({ rates }: ModelTarget): bigint | undefined =>
  rates === null ? undefined : rates.basic.input + rates.basic.output

/**
 * A target without a measured latency comes first, so that it gets measured. A target without a known price comes last,
 * because its price may be anything.
 */
const byLatency = (facts: RoutingFacts) => (one: ModelTarget, other: ModelTarget) =>
  (facts.latency(one) ?? 0) - (facts.latency(other) ?? 0)

const byPrice = (one: ModelTarget, other: ModelTarget): number => {
  const [a, b] = [dearness(one), dearness(other)]
  if (a === undefined || b === undefined) return a === b ? 0 : a === undefined ? 1 : -1
  return a < b ? -1 : a > b ? 1 : 0
}

/** Draws targets by their weight, without replacement; targets without a weight come last. */
const drawn = (targets: ReadonlyArray<ModelTarget>, random: () => number): ReadonlyArray<ModelTarget> => {
  const left = [...targets]
  const order: Array<ModelTarget> = []
  while (left.length > 0) {
    const total = left.reduce((sum, { weight }) => sum + weight, 0)
    let mark = random() * total
    const found = left.findIndex(({ weight }) => (mark -= weight) < 0)
    order.push(...left.splice(Math.max(0, found), 1))
  }
  return order
}

const ordered = (
  targets: ReadonlyArray<ModelTarget>,
  strategy: Strategy,
  facts: RoutingFacts,
  ofSession: SessionOrder | undefined
): ReadonlyArray<ModelTarget> => {
  switch (strategy) {
    case "weighted":
      return ofSession === undefined ? drawn(targets, facts.random) : ofSession(targets)
    case "least-latency":
      return ofSession === undefined ? targets.toSorted(byLatency(facts)) : ofSession(targets)
    case "cheapest":
      return (ofSession?.(targets) ?? targets).toSorted(byPrice)
    case "priority":
      return targets
    case "subscription-first": {
      const all = ofSession?.(targets) ?? targets
      return [
        ...all.filter((target) => facts.quota(target) === "prepaid"),
        ...all.filter((target) => facts.quota(target) === "metered")
      ]
    }
  }
}

/**
 * The order in which targets are tried: by priority, and within a priority by the strategy, or by the session of the call
 * where the strategy leaves it to chance. Providers whose subscription is exhausted and denies overage are left out by
 * `subscription-first`.
 */
export const routeOrder = (
  targets: ReadonlyArray<ModelTarget>,
  strategy: Strategy,
  facts: RoutingFacts,
  ofSession?: SessionOrder
): ReadonlyArray<ModelTarget> => {
  if (targets.length < 2 && strategy !== "subscription-first") return targets
  const groups = Map.groupBy(targets, ({ priority }) => priority)
  const priorities = [...groups.keys()].toSorted((a, b) => a - b)
  return priorities.flatMap((priority) => ordered(groups.get(priority) ?? [], strategy, facts, ofSession))
}
