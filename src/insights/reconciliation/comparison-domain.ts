import { type BillMeter, type BillPlace } from "../../gateway/bills/domain.ts"
import { usdText } from "../../kernel/usd.ts"

/**
 * The comparison of what a provider says it billed on a day with what was charged for its calls. Amounts are nano-dollars.
 */

/** A line of a day, of either side. */
export interface DayLine extends Omit<BillPlace, "day"> {
  readonly source: "provider" | "gateway"
  readonly cost: bigint
  readonly listCost: bigint | null
  readonly quantity: bigint | null
}

/** Names of lines of charges that no class of tokens explains: fees of tools, and costs that the gateway estimated. */
export const feesItem = "fees"
export const estimatedItem = "estimated"

export const explanationKinds = [
  "other-keys",
  "other-clients",
  "batch",
  "tier",
  "discount",
  "late",
  "estimated",
  "price",
  "unknown"
] as const
export type ExplanationKind = (typeof explanationKinds)[number]

/** These say what differs, not that it is in order: what they amount to is a finding. */
const unexplaining: ReadonlySet<ExplanationKind> = new Set(["price", "unknown"])

export interface Explanation {
  readonly kind: ExplanationKind
  /** The part of the difference; below zero where less was billed than charged. */
  readonly amount: bigint
  readonly detail: string
}

/** The tokens and requests of both sides. */
export interface Counted {
  readonly billed: bigint
  readonly charged: bigint
}

export interface KeyBill {
  readonly projectId: string
  readonly keyId: string
  readonly isOwn: boolean
  readonly billed: bigint
  readonly requests: bigint
}

/** A day of a model: what both sides say, and why it differs. */
export interface Compared {
  /** As targets name it, or the provider where no target has it; empty for what is of no model. */
  readonly model: string
  readonly billedModels: ReadonlyArray<string>
  readonly billed: bigint
  readonly charged: bigint
  readonly requests: Counted
  readonly inputTokens: Counted
  readonly outputTokens: Counted
  readonly keys: ReadonlyArray<KeyBill>
  readonly explanations: ReadonlyArray<Explanation>
  /** What no explanation makes good. */
  readonly unexplained: bigint
  readonly isFinding: boolean
}

const usd = 1_000_000_000n
const perMillion = 1_000_000n
/** One per cent of what was billed, and a dollar: a smaller difference is no finding. */
const findingShare = 100n
const leastFinding = usd

/** How much more than the usual service the dearest one costs. */
const dearestTier = 5n

const abs = (value: bigint): bigint => (value < 0n ? -value : value)
const total = (values: Iterable<bigint>): bigint => {
  let sum = 0n
  for (const value of values) sum += value
  return sum
}
const sumOf = <A>(of: ReadonlyArray<A>, amount: (one: A) => bigint): bigint => total(of.map(amount))

/** A model's name without the date of its version, by which dated names and their aliases are one. */
export const undated = (model: string): string =>
  model
    .toLowerCase()
    .replace(/^ft:([^:]+)(?::.*)?$/, "ft-$1")
    .replace(/(?:-\d{4}-\d{2}-\d{2}|-\d{8}|-latest)$/, "")

/** The name that each model of a bill has in charges: its own, else one that differs by the date alone, if there is only one. */
const ownNames = (billed: ReadonlySet<string>, charged: ReadonlySet<string>): ReadonlyMap<string, string> => {
  const named = new Map<string, string>()
  for (const model of billed) {
    if (charged.has(model)) continue
    const alike = [...charged].filter((name) => !billed.has(name) && undated(name) === undated(model))
    if (alike.length === 1 && alike[0] !== undefined) named.set(model, alike[0])
  }
  return named
}

const inputMeters: ReadonlySet<BillMeter> = new Set([
  "input",
  "cached-input",
  "cache-write",
  "cache-write-1h",
  "audio-input",
  "audio-cached-input",
  "image-input",
  "image-cached-input",
  "video-input",
  "video-cached-input"
])
const outputMeters: ReadonlySet<BillMeter> = new Set(["output", "audio-output", "image-output", "video-output"])
const isTokens = (meter: BillMeter): boolean => inputMeters.has(meter) || outputMeters.has(meter)

const quantities = (lines: ReadonlyArray<DayLine>, of: (line: DayLine) => boolean): bigint =>
  sumOf(lines.filter(of), ({ quantity }) => quantity ?? 0n)

/** A class of tokens of a tier: how many, and what they cost before discounts. */
interface Class {
  quantity: bigint
  cost: bigint
}
type Classes = ReadonlyMap<string, Map<BillMeter, Class>>

const classesOf = (lines: ReadonlyArray<DayLine>): Classes => {
  const tiers = new Map<string, Map<BillMeter, Class>>()
  for (const { cost, listCost, meter, quantity, tier } of lines) {
    if (!isTokens(meter)) continue
    const classes = tiers.get(tier) ?? new Map<BillMeter, Class>()
    tiers.set(tier, classes)
    const known = classes.get(meter) ?? { quantity: 0n, cost: 0n }
    classes.set(meter, { quantity: known.quantity + (quantity ?? 0n), cost: known.cost + (listCost ?? cost) })
  }
  return tiers
}

const none: Class = { quantity: 0n, cost: 0n }
const classAt = (classes: Classes, tier: string, meter: BillMeter): Class => classes.get(tier)?.get(meter) ?? none
const everyTier = (classes: Classes, meter: BillMeter): Class => {
  let [quantity, cost] = [0n, 0n]
  for (const each of classes.values()) {
    const one = each.get(meter) ?? none
    quantity += one.quantity
    cost += one.cost
  }
  return { quantity, cost }
}
/** What so many tokens cost at the average of a class; undefined for a class without any. */
const priced = (tokens: bigint, { cost, quantity }: Class): bigint | undefined =>
  quantity === 0n ? undefined : (tokens * cost) / quantity

const rateText = (one: Class): string => usdText(priced(perMillion, one) ?? 0n)

/** The share of lines without a key that the tokens of other keys have. */
const othersShare = (lines: ReadonlyArray<DayLine>, isOther: (line: DayLine) => boolean): bigint => {
  const keyless = lines.filter(({ cost, keyId }) => keyId === "" && cost !== 0n)
  return sumOf(keyless, ({ cost, meter, model, tier }) => {
    const alike = lines.filter(
      (line) => line.item === "" && line.meter === meter && line.model === model && line.tier === tier
    )
    const all = quantities(alike, () => true)
    return all === 0n ? 0n : (cost * quantities(alike, isOther)) / all
  })
}

/** Which keys are the gateway's own; all where undefined. */
export type OwnKeys = ReadonlySet<string> | undefined

export interface DayOptions {
  readonly ownKeys: OwnKeys
  /** Whether the figures of the day change no more. */
  readonly isSettled: boolean
  /** Whether batches were charged on that day or close to it: a batch is charged when it ends, and billed while it runs. */
  readonly hasBatches?: boolean
}

const keysOf = (lines: ReadonlyArray<DayLine>, isOther: (line: DayLine) => boolean): ReadonlyArray<KeyBill> => {
  const keys = new Map<string, KeyBill>()
  for (const line of lines) {
    const { cost, keyId, meter, projectId, quantity } = line
    const name = JSON.stringify([projectId, keyId])
    const known = keys.get(name) ?? { projectId, keyId, isOwn: !isOther(line), billed: 0n, requests: 0n }
    const requests = known.requests + (meter === "requests" ? (quantity ?? 0n) : 0n)
    keys.set(name, { ...known, billed: known.billed + cost, requests })
  }
  return [...keys.values()].toSorted((one, other) =>
    one.billed === other.billed ? 0 : one.billed > other.billed ? -1 : 1
  )
}

/** Takes tokens out of a class of batches, with what they cost; that, or undefined where their cost is not known. */
const takeBatches = (classes: Classes, meter: BillMeter, tokens: bigint): bigint | undefined => {
  const known = classAt(classes, "batch", meter)
  const cost = known.cost === 0n ? undefined : priced(tokens, known)
  classes.get("batch")?.set(meter, { quantity: known.quantity - tokens, cost: known.cost - (cost ?? 0n) })
  return cost
}

const compareModel = (
  model: string,
  billedLines: ReadonlyArray<DayLine>,
  chargedLines: ReadonlyArray<DayLine>,
  { hasBatches = false, isSettled, ownKeys }: DayOptions
): Compared => {
  const isOther = ({ keyId }: DayLine): boolean => ownKeys !== undefined && keyId !== "" && !ownKeys.has(keyId)
  const billed = sumOf(billedLines, ({ cost }) => cost)
  const charged = sumOf(chargedLines, ({ cost }) => cost)
  const own = billedLines.filter((line) => !isOther(line))
  const explanations: Array<Explanation> = []
  let left = billed - charged
  const explain = (kind: ExplanationKind, amount: bigint, detail: string): void => {
    if (amount === 0n) return
    left -= amount
    explanations.push({ kind, amount, detail })
  }

  const others = billedLines.filter(isOther)
  const share = othersShare(billedLines, isOther)
  const otherKeys = new Set(others.map(({ keyId }) => keyId))
  explain(
    "other-keys",
    sumOf(others, ({ cost }) => cost) + share,
    `Keys that are not the gateway's own were billed: ${[...otherKeys].slice(0, 5).join(", ")}${otherKeys.size > 5 ? " and others" : ""}.`
  )

  explain(
    "discount",
    sumOf(own, ({ cost, listCost }) => (listCost === null ? 0n : cost - listCost)),
    "The provider billed less than its list prices."
  )

  const [theirs, ours] = [classesOf(own), classesOf(chargedLines)]
  const meters = new Set<BillMeter>()
  for (const classes of [...theirs.values(), ...ours.values()]) for (const meter of classes.keys()) meters.add(meter)
  if (hasBatches) {
    let value = 0n
    for (const meter of meters) {
      const more = everyTier(theirs, meter).quantity - everyTier(ours, meter).quantity
      const moved = classAt(theirs, "batch", meter).quantity - classAt(ours, "batch", meter).quantity
      if (more > 0n && moved > 0n) {
        const tokens = moved < more ? moved : more
        value += takeBatches(theirs, meter, tokens) ?? priced(tokens, everyTier(theirs, meter)) ?? 0n
      } else if (more < 0n && moved < 0n) {
        const tokens = moved > more ? -moved : -more
        value -= takeBatches(ours, meter, tokens) ?? 0n
      }
    }
    explain("batch", value, "A batch is charged when it ends, and billed on the days on which it runs.")
  }

  /** Tiers whose tokens are reported, and whose cost is within that of the usual service. */
  const blended: Array<readonly [kind: ExplanationKind, atUsual: bigint, detail: string]> = []
  for (const tier of new Set([...theirs.keys(), ...ours.keys()])) {
    if (tier === "") continue
    let [amount, tokens, value] = [0n, 0n, 0n]
    const isBlended = total(Array.from(theirs.get(tier)?.values() ?? [], ({ cost }) => cost)) === 0n
    for (const meter of meters) {
      const moved = classAt(theirs, tier, meter).quantity - classAt(ours, tier, meter).quantity
      const usual = classAt(ours, "", meter).quantity > 0n ? classAt(ours, "", meter) : classAt(theirs, "", meter)
      const atTier = priced(moved, moved > 0n ? classAt(theirs, tier, meter) : classAt(ours, tier, meter))
      const atUsual = priced(moved, usual)
      if (moved === 0n || atTier === undefined || atUsual === undefined) continue
      amount += atTier - atUsual
      value += atUsual
      tokens += moved
    }
    const kind = tier === "batch" ? "batch" : "tier"
    const which = tier === "batch" ? "in batches" : `at the tier ${tier}`
    const detail =
      tokens > 0n
        ? `The provider served ${tokens} more tokens ${which} than were charged as such.`
        : `${-tokens} more tokens were charged as served ${which} than the provider served.`
    if (tokens > 0n && isBlended) blended.push([kind, value, detail])
    else explain(kind, amount, detail)
  }

  const requests = {
    billed: quantities(own, ({ meter }) => meter === "requests"),
    charged: quantities(chargedLines, ({ meter }) => meter === "requests")
  }
  const hasUsage = own.some(({ item, meter }) => item === "" && isTokens(meter))
  const estimated = sumOf(
    chargedLines.filter(({ item }) => item === estimatedItem),
    ({ cost }) => cost
  )
  const soFar = "The day's figures are not final yet."
  let volume = 0n
  if (hasUsage) {
    for (const meter of meters) {
      const [billedClass, chargedClass] = [everyTier(theirs, meter), everyTier(ours, meter)]
      const more = billedClass.quantity - chargedClass.quantity
      const usual = classAt(ours, "", meter).quantity > 0n ? classAt(ours, "", meter) : chargedClass
      volume += priced(more, usual) ?? priced(more, billedClass) ?? 0n
    }
    const said = `The provider counts ${requests.billed} requests, and the gateway ${requests.charged}.`
    // What was estimated stands for tokens that the gateway could not count.
    const unseen = volume > 0n ? (volume < estimated ? volume : estimated) : 0n
    // Some reports have no count of requests.
    const hasOthers = requests.billed > requests.charged || requests.billed === 0n
    if (isSettled && hasOthers && volume - unseen > 0n) {
      explain("other-clients", volume - unseen, `Others use the keys, too. ${said}`)
    } else if (!isSettled) explain("late", volume - unseen, `${soFar} ${said}`)
    else if (volume - unseen !== 0n) explain("unknown", volume - unseen, `The tokens differ. ${said}`)
    if (estimated > 0n) {
      explain(
        "estimated",
        unseen - estimated,
        "Charges of calls that ended without a count, which the gateway estimated."
      )
    }
  } else if (isSettled && estimated > 0n && left < 0n) {
    const most = -left < estimated ? left : -estimated
    explain("estimated", most, "Charges of calls that ended without a count, which the gateway estimated.")
  }

  for (const [kind, value, detail] of isSettled ? blended : []) {
    const most = left < 0n ? -value : dearestTier * value
    explain(kind, abs(left) < abs(most) ? left : most, detail)
  }
  if (!isSettled) explain("late", left, soFar)
  else if (hasUsage && left !== 0n) {
    const differing = [...meters].flatMap((meter) => {
      const [billedClass, chargedClass] = [classAt(theirs, "", meter), classAt(ours, "", meter)]
      const [one, other] = [rateText(billedClass), rateText(chargedClass)]
      return billedClass.quantity > 0n && chargedClass.quantity > 0n && one !== other
        ? [`${meter} is billed at ${one} and charged at ${other}`]
        : []
    })
    if (differing.length > 0) explain("price", left, `In US dollars per million tokens, ${differing.join("; ")}.`)
  }
  explain("unknown", left, "Nothing that both sides report explains it.")

  const unexplained = sumOf(
    explanations.filter(({ kind }) => unexplaining.has(kind)),
    ({ amount }) => amount
  )
  const limit = abs(billed) / findingShare > leastFinding ? abs(billed) / findingShare : leastFinding
  return {
    model,
    billedModels: [...new Set(billedLines.map((line) => line.model))].filter((name) => name !== "").toSorted(),
    billed,
    charged,
    requests: { billed: quantities(billedLines, ({ meter }) => meter === "requests"), charged: requests.charged },
    inputTokens: {
      billed: quantities(billedLines, ({ item, meter }) => item === "" && inputMeters.has(meter)),
      charged: quantities(chargedLines, ({ meter }) => inputMeters.has(meter))
    },
    outputTokens: {
      billed: quantities(billedLines, ({ item, meter }) => item === "" && outputMeters.has(meter)),
      charged: quantities(chargedLines, ({ meter }) => outputMeters.has(meter))
    },
    keys: keysOf(billedLines, isOther),
    explanations,
    unexplained,
    isFinding: isSettled && abs(unexplained) > limit
  }
}

/** Compares a day of a provider, model by model, in the order of their names. */
export const compareDay = (lines: ReadonlyArray<DayLine>, options: DayOptions): ReadonlyArray<Compared> => {
  const billed = lines.filter(({ source }) => source === "provider")
  const charged = lines.filter(({ source }) => source === "gateway")
  const names = ownNames(new Set(billed.map(({ model }) => model)), new Set(charged.map(({ model }) => model)))
  const nameOf = ({ model }: DayLine): string => names.get(model) ?? model
  // Providers bill tools beside the models that used them, or as a part of them.
  const billedApart = billed.some(({ cost, meter, model }) => model === "" && meter === "other" && cost !== 0n)
  const withFees = new Set(billed.filter(({ cost, meter }) => meter === "other" && cost !== 0n).map(nameOf))
  const placeOf = (line: DayLine): string =>
    line.item === feesItem && billedApart && !withFees.has(line.model) ? "" : line.model
  const models = new Set([...billed.map(nameOf), ...charged.map(placeOf)])
  return [...models].toSorted().map((model) =>
    compareModel(
      model,
      billed.filter((line) => nameOf(line) === model),
      charged.filter((line) => placeOf(line) === model),
      options
    )
  )
}
