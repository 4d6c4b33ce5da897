import { type Json } from "../../kernel/json/parsed-json.ts"
import { lookupTable } from "../../kernel/lookup-table.ts"
import { type Served } from "./domain.ts"

/** What an answer says of how it was served, unread. */
export interface ServedNames {
  readonly tier: unknown
  readonly speed: unknown
  readonly geo: unknown
}

/** Names of the usual service, at the model's own prices. */
const usual: Readonly<Record<keyof Served, ReadonlySet<string>>> = {
  tier: new Set(["default", "standard", "standard_only", "on_demand", "unspecified"]),
  speed: new Set(["standard", "default", "normal"]),
  geo: new Set(["global", "default", "not_available", "unspecified"])
}

/** OpenAI's `fast` is its `priority`; Vertex AI names the traffic. */
const sameTier = lookupTable<string>({
  fast: "priority",
  on_demand_priority: "priority",
  on_demand_flex: "flex",
  provisioned_throughput: "provisioned"
})

const plainName = /^[a-z0-9][a-z0-9_.-]{0,62}$/

/** A name as prices have it; undefined for the usual service, and for what names none. */
export const servedName = (dimension: keyof Served, given: unknown): string | undefined => {
  if (typeof given !== "string" || given === "" || usual[dimension].has(given)) return undefined
  const name = given.toLowerCase().replace(/^(?:service_tier_|traffic_type_)/, "")
  if (name === "" || name === "auto" || usual[dimension].has(name)) return undefined
  // A malformed name matches no price.
  if (!plainName.test(name)) return "other"
  return dimension === "tier" ? (sameTier[name] ?? name) : name
}

/** The members in which requests ask for a service, with its dimension. */
export const serviceMembers = lookupTable<keyof Served>({
  service_tier: "tier",
  serviceTier: "tier",
  speed: "speed",
  inference_geo: "geo"
})

/** What a request asks for of its service; undefined if nothing. */
export const askedIn = ({
  inference_geo: geo,
  serviceTier: other,
  service_tier: tier = other,
  speed
}: Json): ServedNames | undefined =>
  (tier ?? null) === null && (speed ?? null) === null && (geo ?? null) === null ? undefined : { tier, speed, geo }

/** Vendors that serve a request without a tier at their own choice, and the name of the usual one there. */
const usualTier = lookupTable<string>({ openai: "default", anthropic: "standard_only" })

/** Vendors whose answers name no other service than the one that was asked for, and the usual one. */
const servesAsAsked = new Set<string | undefined>(["openai", "anthropic", "google"])

/** The member that asks for the usual tier of a vendor, where a request leaves it to the vendor. */
export const pinnedTier = ({ service_tier: asked }: Json, vendor: string | undefined): Json => {
  const usual = vendor === undefined ? undefined : usualTier[vendor]
  return usual === undefined || !isUnasked(asked) ? {} : { service_tier: usual }
}

const isUnasked = (asked: unknown): boolean =>
  (asked ?? "") === "" || asked === "auto" || (typeof asked === "object" && Object.keys(asked ?? {}).length === 0)

/** Where the data of a call may be processed is a setting of its account, unless the request says it. */
const ofAccount: ReadonlySet<keyof Served> = new Set(["geo"])

/**
 * The names of a dimension that an answer may have, undefined for the usual service; undefined as a whole where it may have
 * any. `isPinned`: whether the request is sent so that it is served as usual.
 */
export const possibleNames = (
  dimension: keyof Served,
  asked: ServedNames | undefined,
  vendor: string | undefined,
  isPinned: boolean
): ReadonlyArray<string | undefined> | undefined => {
  if (!servesAsAsked.has(vendor)) return undefined
  const given = asked?.[dimension]
  if (!isUnasked(given)) return [undefined, servedName(dimension, given)]
  if (ofAccount.has(dimension)) return undefined
  const isChosen = dimension === "tier" && vendor !== undefined && usualTier[vendor] !== undefined
  return isChosen && !isPinned ? undefined : [undefined]
}

/** The first name among these values; `auto` is none. */
const named = (one: unknown, other: unknown, another: unknown): unknown => {
  if (typeof one === "string" && one !== "" && one !== "auto") return one
  if (typeof other === "string" && other !== "" && other !== "auto") return other
  return typeof another === "string" && another !== "" && another !== "auto" ? another : undefined
}

const noMembers: Json = {}
const objectIn = (value: unknown): Json | undefined =>
  typeof value === "object" && value !== null ? (value as Json) : undefined

/** The names in an answer or an event of OpenAI's or Anthropic's formats, wherever they stand. */
export const namesIn = (value: unknown): ServedNames | undefined => {
  const outer = objectIn(value)
  if (outer === undefined) return undefined
  const inner = objectIn(outer.response) ?? objectIn(outer.message) ?? noMembers
  const usage = objectIn(inner.usage) ?? objectIn(outer.usage) ?? noMembers
  const tier = named(inner.service_tier, outer.service_tier, usage.service_tier)
  const speed = named(inner.speed, outer.speed, usage.speed)
  const geo = named(inner.inference_geo, outer.inference_geo, usage.inference_geo)
  return tier === undefined && speed === undefined && geo === undefined ? undefined : { tier, speed, geo }
}
