import { type CallDetails, type CloseItem, type CloseResult } from "../../budgets/ledger/protocol-domain.ts"
import { isJson, type Json, parsedJson } from "../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { costOf, countedTokens } from "../catalog/cost.ts"
import { type RateTable } from "../catalog/rate-domain.ts"
import { type BatchApi } from "../formats/batches/batches.ts"
import {
  billedTools,
  media,
  type MediaClass,
  type MediaTokens,
  noUsage,
  type Served,
  type TokenUsage,
  type ToolUses
} from "../formats/domain.ts"
import { type WireFormat } from "../formats/format.ts"
import { ChargeTerms } from "../metering/charge-terms.ts"
import { tierAt } from "../metering/estimates.ts"
import { priceTermsOf, ratesText } from "../metering/usage-meter.ts"
import { batchCharged, released } from "../telemetry/metrics.ts"
import { type BatchPart, batchTier, type StoredBatch } from "./domain.ts"
import { placesOf } from "./request-places.ts"
import { readRates } from "./stored-rates.ts"

const mediaClasses = media.flatMap((medium): ReadonlyArray<MediaClass> => [
  `${medium}Input`,
  `${medium}CacheRead`,
  `${medium}Output`
])

/** The sum of counts by their names, without those that are zero; undefined where there are none. */
const sumOf = <Name extends string>(
  names: ReadonlyArray<Name>,
  one: { readonly [N in Name]?: number } | undefined,
  other: { readonly [N in Name]?: number } | undefined
): { [N in Name]?: number } | undefined => {
  if (one === undefined && other === undefined) return undefined
  const sums: { [N in Name]?: number } = {}
  for (const name of names) {
    const sum = (one?.[name] ?? 0) + (other?.[name] ?? 0)
    if (sum > 0) sums[name] = sum
  }
  return sums
}

/** Both usages together, as one that was served as the second was. */
const added = (one: TokenUsage, other: TokenUsage): TokenUsage => {
  const toolUses: ToolUses | undefined = sumOf(billedTools, one.toolUses, other.toolUses)
  const tokens: MediaTokens | undefined = sumOf(mediaClasses, one.media, other.media)
  return {
    ...noUsage,
    ...Object.fromEntries(countedTokens.map((name) => [name, one[name] + other[name]])),
    ...(toolUses === undefined ? {} : { toolUses }),
    ...(tokens === undefined ? {} : { media: tokens }),
    ...(other.served === undefined ? {} : { served: other.served })
  }
}

/** What is not stored of requests: every use that an answer reports of a tool is charged. */
const noTerms = { tools: undefined, request: {}, headers: {}, costPath: undefined }

/** What the completed requests of one model cost. */
class ModelCharge {
  completed = 0
  private usage: TokenUsage = noUsage
  private costNanoUsd = 0n
  /** Requests whose answers reported no usage. */
  private unreported = 0
  private readonly part: BatchPart
  private readonly format: WireFormat
  private readonly rates: RateTable | null

  constructor(part: BatchPart, format: WireFormat) {
    this.part = part
    this.format = format
    this.rates = part.rates === null ? null : readRates(part.rates)
  }

  /** Counts a completed request by the usage that its answer reports. */
  take(answer: Json): void {
    this.completed++
    const reported = this.format.usageIn(answer)
    if (reported === undefined) {
      this.unreported++
      return
    }
    const terms = new ChargeTerms({ ...noTerms, format: this.format })
    terms.read(answer)
    const read = terms.complete(reported)
    const usage = { ...read, served: this.servedOf(read.served) }
    this.usage = added(this.usage, usage)
    if (this.rates !== null) this.costNanoUsd += costOf(usage, this.rates)
  }

  /** Counts the closing in the metrics of this replica. */
  measure(amount: bigint): void {
    if (this.completed === 0) released()
    else batchCharged(this.part.amountNanoUsd, amount, this.unreported > 0 ? "estimated" : "provider_usage")
  }

  /** The closing of its reservation: nothing is charged where nothing was completed. */
  item(
    { createdBy, dialect, id, provider, tenantId }: StoredBatch,
    catalogueVersion: string,
    traceId: string | null
  ): CloseItem {
    const { chargeId, reservationId, requests } = this.part
    const shared = {
      id: reservationId,
      tenantId,
      principal: createdBy,
      origin: "gateway",
      canActForOthers: true
    } as const
    const isCharged = this.completed > 0
    const amount = isCharged ? this.costNanoUsd + this.unreportedShare(this.part.amountNanoUsd) : 0n
    const tokens = isCharged
      ? this.usage.inputTokens + this.usage.outputTokens + Number(this.unreportedShare(BigInt(this.part.tokens)))
      : undefined
    const { rates } = this
    const call: CallDetails = {
      operation: "batch",
      dialect,
      modelAsked: this.part.asked,
      modelServed: this.part.target,
      provider,
      usage: this.usage,
      method: isCharged ? (this.unreported > 0 ? "estimated" : "provider_usage") : "released",
      rates: rates === null ? null : ratesText(rates, { ...this.usage, inputTokens: 0 }),
      priceTerms: priceTermsOf(rates, this.usage, noTable),
      catalogueVersion,
      status: 200,
      attempts: [],
      metadata: { batch: id, requests: String(requests), completed: String(this.completed) },
      traceId: traceId ?? undefined
    }
    return { ...shared, kind: isCharged ? "settle" : "release", amount, tokens, chargeId, call }
  }

  /** The share of what is held that requests without a usage have: as much as the others on average, at most. */
  private unreportedShare(held: bigint): bigint {
    const [count, all] = [BigInt(this.unreported), BigInt(this.part.requests)]
    return (held * count + all - 1n) / all
  }

  private servedOf(served: Served | undefined): Served {
    const { tier: _, ...others } = served ?? {}
    const tier = tierAt(this.rates, batchTier)
    return tier === undefined ? others : { ...others, tier }
  }
}

const noTable = () => undefined

/** Reads the results of a batch that has ended, and sums up what they cost. */
export class BatchCharges {
  private readonly models: ReadonlyArray<ModelCharge>
  private readonly placeOf: (customId: string) => number | undefined
  private readonly seen = new Set<string>()
  private readonly batch: StoredBatch
  private readonly api: BatchApi

  constructor(batch: StoredBatch, api: BatchApi) {
    this.batch = batch
    this.api = api
    const format = api.formats.get(batch.terms.url)
    this.models = format === undefined ? [] : batch.terms.parts.map((part) => new ModelCharge(part, format))
    this.placeOf = batch.places === null ? () => 0 : placesOf(batch.places)
  }

  /** A line of the results; false where it cannot be read. A request is charged once, however often it has a result. */
  take(line: Uint8Array): boolean {
    const value = parsedJson(utf8Text(line))
    const result = isJson(value) ? this.api.resultIn(value) : undefined
    if (result === undefined) return false
    const { answer, customId } = result
    if (answer === undefined || this.seen.has(customId)) return true
    this.seen.add(customId)
    this.models[this.placeOf(customId) ?? 0]?.take(answer)
    return true
  }

  get completed(): number {
    return this.models.reduce((sum, { completed }) => sum + completed, 0)
  }

  /** Counts its closings in the metrics, where they are this replica's. */
  measure(items: ReadonlyArray<CloseItem>, results: ReadonlyArray<CloseResult>): void {
    for (const [index, { verdict }] of results.entries()) {
      if (verdict === "done") this.models[index]?.measure(items[index]?.amount ?? 0n)
    }
  }

  /** The closings of all its reservations, which belong in one transaction. */
  get items(): ReadonlyArray<CloseItem> {
    const { catalogueVersion, traceId } = this.batch.terms
    return this.models.map((model) => model.item(this.batch, catalogueVersion, traceId))
  }
}
