import { type CountedUnit, countedUnits, type ImageUnits, type UsageUnits } from "../formats/domain.ts"
import { type Prices, type RateTable, type UnitRates } from "./rate-domain.ts"

/** What the units of one kind cost, by a price in nano-dollars that each has. */
export interface UnitCharge {
  readonly unit: "requests" | "searchUnits" | "characters" | "audioSeconds" | "pages" | "images"
  readonly quantity: number
  readonly rate: bigint
  readonly nanoUsd: bigint
}

interface CountedCharge {
  readonly unit: UnitCharge["unit"]
  readonly price: Exclude<keyof UnitRates, "image">
  /** How many of what is counted have the price. */
  readonly per: number
}

const counted: Readonly<Record<CountedUnit, CountedCharge>> = {
  searchUnits: { unit: "searchUnits", price: "searchUnitUsd", per: 1 },
  characters: { unit: "characters", price: "characterUsd", per: 1 },
  audioMilliseconds: { unit: "audioSeconds", price: "audioSecondUsd", per: 1000 },
  pages: { unit: "pages", price: "pageUsd", per: 1 }
}

/** The prices of units among those of a model; undefined where no unit costs anything. */
export const unitRatesOf = (prices: Prices): UnitRates | undefined => {
  const { audioSecondUsd, characterUsd, image, pageUsd, requestUsd, searchUnitUsd } = prices
  const rates = { audioSecondUsd, characterUsd, pageUsd, requestUsd, searchUnitUsd }
  const known = Object.entries(rates).flatMap(([name, rate]) => (rate === undefined ? [] : [[name, rate] as const]))
  const costs = known.some(([, rate]) => rate > 0n) || image?.some(({ usd }) => usd > 0n) === true
  return costs ? { ...Object.fromEntries(known), ...(image === undefined ? {} : { image }) } : undefined
}

const mayBe = (one: string | undefined, other: string | undefined): boolean =>
  one === undefined || other === undefined || one === other

/** The dearest price that an image may have, of those of its size and quality, or else of all. */
const imageRate = ({ quality, size }: ImageUnits, prices: NonNullable<UnitRates["image"]>): bigint => {
  const meant = prices.filter((price) => mayBe(price.size, size) && mayBe(price.quality, quality))
  return (meant.length > 0 ? meant : prices).reduce((most, { usd }) => (usd > most ? usd : most), 0n)
}

/** What each kind of units of a request costs, rounded up once; what has no price costs nothing. */
export const unitCharges = (
  units: UsageUnits | undefined,
  { unitRates }: Pick<RateTable, "unitRates">
): ReadonlyArray<UnitCharge> => {
  if (unitRates === undefined) return []
  const charges: Array<UnitCharge> = []
  const charge = (unit: UnitCharge["unit"], price: bigint | undefined, number: number, per = 1) => {
    if (price === undefined || price === 0n || number === 0) return
    const divisor = BigInt(per)
    const nanoUsd = (BigInt(number) * price + divisor - 1n) / divisor
    charges.push({ unit, quantity: number / per, rate: price, nanoUsd })
  }
  charge("requests", unitRates.requestUsd, 1)
  if (units === undefined) return charges
  for (const name of countedUnits) {
    const { per, price, unit } = counted[name]
    charge(unit, unitRates[price], units[name] ?? 0, per)
  }
  for (const images of units.images ?? []) charge("images", imageRate(images, unitRates.image ?? []), images.count)
  return charges
}

export const unitCost = (units: UsageUnits | undefined, table: Pick<RateTable, "unitRates">): bigint =>
  table.unitRates === undefined ? 0n : unitCharges(units, table).reduce((sum, { nanoUsd }) => sum + nanoUsd, 0n)

/** Units with those of `most` that have a price and are missing; the same where none is. */
export const completedUnits = (
  units: UsageUnits | undefined,
  most: UsageUnits | undefined,
  { unitRates }: Pick<RateTable, "unitRates">
): UsageUnits | undefined => {
  if (unitRates === undefined || most === undefined) return units
  const missing: { -readonly [Unit in keyof UsageUnits]: UsageUnits[Unit] } = {}
  for (const name of countedUnits) {
    if (units?.[name] === undefined && most[name] !== undefined && unitRates[counted[name].price] !== undefined) {
      missing[name] = most[name]
    }
  }
  if (units?.images === undefined && most.images !== undefined && unitRates.image !== undefined) {
    missing.images = most.images
  }
  return Object.keys(missing).length === 0 ? units : { ...units, ...missing }
}
