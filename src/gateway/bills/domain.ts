import { Data, Schema } from "effect"
import { type ExactJson, ExactNumber } from "../../kernel/json/canonical-json.ts"
import { text } from "../../kernel/text.ts"

/** What a line of a bill is for: a class of tokens, requests (which have no cost of their own), or anything else. */
export const BillMeter = Schema.Literals([
  "input",
  "cached-input",
  "cache-write",
  "cache-write-1h",
  "output",
  "audio-input",
  "audio-cached-input",
  "audio-output",
  "image-input",
  "image-cached-input",
  "image-output",
  "video-input",
  "video-cached-input",
  "video-output",
  "other",
  "requests"
])
export type BillMeter = typeof BillMeter.Type
const meterNames: ReadonlySet<string> = new Set(BillMeter.literals)
export const isBillMeter = (name: string): name is BillMeter => meterNames.has(name)

/** What a line of a bill is about. Texts are empty where the provider names none. */
export interface BillPlace {
  /** In UTC, as `2026-11-27`. */
  readonly day: string
  /** OpenAI's project, Anthropic's workspace. */
  readonly projectId: string
  readonly keyId: string
  /** As the provider names it. */
  readonly model: string
  /** `batch`, `flex`, `priority` and the like, as answers name it; empty for the usual service. */
  readonly tier: string
  readonly meter: BillMeter
  /** The provider's own name of the line; empty in reports of usage. */
  readonly item: string
}

/** A line of what a provider says that it billed, or that was used. */
export interface BilledLine extends BillPlace {
  /** Nano-dollars. */
  readonly cost: bigint
  /** The cost before discounts, where the provider names it. */
  readonly listCost: bigint | null
  /** Tokens, requests or uses; null where the line has a cost alone. */
  readonly quantity: bigint | null
}

export const BillFailureReason = Schema.Literals([
  "no-key",
  "unauthorized",
  "forbidden",
  "not-found",
  "rate-limited",
  "unreachable",
  "unexpected-answer"
])
export type BillFailureReason = typeof BillFailureReason.Type

/** Why a provider's bill cannot be read; the detail is the gateway's own text. */
export class BillFailure extends Data.TaggedError("BillFailure")<{
  readonly reason: BillFailureReason
  readonly detail: string
  /** How long the provider asks to wait. */
  readonly retryAfterSeconds?: number | undefined
}> {
  override get message() {
    return this.detail
  }
}

/** The failure of an answer that is none of the documented form, or that no bill can be. */
export const unexpected = (what: string): BillFailure =>
  new BillFailure({ reason: "unexpected-answer", detail: `The provider's report cannot be used: ${what}.` })

export const dayMillis = 86_400_000

/** The day in UTC of a moment in epoch milliseconds. */
export const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10)

/** Names of providers: of models, keys, projects and lines of bills. */
export const BillText = text(1, 500)
export const BillCount = Schema.Int.pipe(
  Schema.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }))
)

/** Amounts are added in units of 10^-30 dollars and rounded once, since providers report fractions of a nano-dollar. */
const fineness = 30
const nanoFineness = 9
const finePerNano = 10n ** BigInt(fineness - nanoFineness)
/** No line of a day is of so many dollars. */
const mostUsdDigits = 6
const mostFine = 10n ** BigInt(fineness + mostUsdDigits)

const decimal = /^(-?)(\d{1,40})(?:\.(\d{1,60}))?(?:[eE]([+-]?\d{1,3}))?$/

/**
 * An amount in units of 10^-30 dollars, from its decimal digits: a JSON number with all of its digits, or text. `power` is that of
 * ten by which the unit differs from a dollar: -2 for cents. Why it is none, otherwise.
 */
export const readAmount = (given: unknown, power = 0): bigint | string => {
  const written =
    typeof given === "string"
      ? given
      : given instanceof ExactNumber
        ? given.text
        : typeof given === "number"
          ? String(given)
          : ""
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = decimal.exec(written) ?? []
  if (whole === "") return "an amount is no decimal number"
  const digits = BigInt(whole + fraction)
  if (digits === 0n) return 0n
  if (sign !== "") return "an amount is below zero"
  const shift = fineness + power + Number(exponent) - fraction.length
  const tooLarge = "an amount is above a million dollars"
  if (shift > fineness + mostUsdDigits) return tooLarge
  const fine = shift >= 0 ? digits * 10n ** BigInt(shift) : digits / 10n ** BigInt(-shift)
  return fine > mostFine ? tooLarge : fine
}

interface Sum {
  readonly place: BillPlace
  fine: bigint
  listFine: bigint | undefined
  quantity: bigint | undefined
}

const mostLines = 100_000
/** A bill of a thousand million dollars is none. */
const mostBillFine = mostFine * 1000n
const mostQuantity = BigInt(Number.MAX_SAFE_INTEGER)

/** What is added to a line: amounts in units of 10^-30 dollars, and a quantity. */
export interface Addend {
  readonly fine?: bigint
  readonly listFine?: bigint
  readonly quantity?: number
}

/** Collects the lines of a bill: those about the same are one. */
export class BillSheet {
  private readonly sums = new Map<string, Sum>()
  private total = 0n
  private readonly opens: number
  private readonly closes: number

  /** Of the days from `opens` to before `closes`, in epoch milliseconds. */
  constructor(opens: number, closes: number) {
    this.opens = opens
    this.closes = closes
  }

  /** The day that begins at a moment; undefined if none of the bill's does. */
  dayAt(millis: number): string | undefined {
    return millis >= this.opens && millis < this.closes && millis % dayMillis === 0 ? dayOf(millis) : undefined
  }

  /** Adds to a line; why it cannot be, otherwise. */
  add(place: BillPlace, { fine = 0n, listFine, quantity }: Addend): string | undefined {
    const { day, item, keyId, meter, model, projectId, tier } = place
    const key = JSON.stringify([day, projectId, keyId, model, tier, meter, item])
    const sum = this.sums.get(key) ?? { place, fine: 0n, listFine: undefined, quantity: undefined }
    sum.fine += fine
    if (listFine !== undefined) sum.listFine = (sum.listFine ?? 0n) + listFine
    if (quantity !== undefined) sum.quantity = (sum.quantity ?? 0n) + BigInt(quantity)
    this.sums.set(key, sum)
    this.total += fine + (listFine ?? 0n)
    if (this.sums.size > mostLines) return "it has too many lines"
    if (this.total > mostBillFine) return "it is of a thousand million dollars"
    return (sum.quantity ?? 0n) > mostQuantity ? "a count is too large" : undefined
  }

  get lines(): ReadonlyArray<BilledLine> {
    return Array.from(this.sums.values(), ({ fine, listFine, place, quantity }) => {
      return {
        ...place,
        cost: rounded(fine),
        listCost: listFine === undefined ? null : rounded(listFine),
        quantity: quantity ?? null
      }
    }).filter(({ cost, listCost, quantity }) => cost !== 0n || (listCost ?? 0n) !== 0n || (quantity ?? 0n) !== 0n)
  }
}

/** To the next nano-dollar, half of one up. */
const rounded = (fine: bigint): bigint => (fine + finePerNano / 2n) / finePerNano

/** A page of a report: what is behind it, and its entries. */
export interface ReportPage {
  readonly hasMore: boolean
  readonly next: string | null
}

/** A report of a vendor: where it is, and how its pages are added to a bill; the reason why one cannot be, otherwise. */
export interface Report {
  /** Below the base URL, with its query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly addPage: (body: ExactJson, sheet: BillSheet) => ReportPage | string
}
