import { Schema } from "effect"

/** What a report is made from: a charge or refund, a group of them, or the part of one that has a unit price. */
export const BilledRow = Schema.Struct({
  id: Schema.optionalKey(Schema.String),
  occurredAt: Schema.optionalKey(Schema.DateTimeUtcFromDate),
  method: Schema.optionalKey(Schema.String),
  day: Schema.optionalKey(Schema.String),
  hour: Schema.optionalKey(Schema.DateTimeUtcFromDate),
  tenantId: Schema.optionalKey(Schema.String),
  tenantName: Schema.optionalKey(Schema.String),
  agentId: Schema.optionalKey(Schema.NullOr(Schema.String)),
  agentName: Schema.optionalKey(Schema.NullOr(Schema.String)),
  planId: Schema.optionalKey(Schema.NullOr(Schema.String)),
  planName: Schema.optionalKey(Schema.NullOr(Schema.String)),
  applicationId: Schema.optionalKey(Schema.NullOr(Schema.Int)),
  applicationName: Schema.optionalKey(Schema.NullOr(Schema.String)),
  apiKeyId: Schema.optionalKey(Schema.NullOr(Schema.String)),
  apiKeyName: Schema.optionalKey(Schema.NullOr(Schema.String)),
  userId: Schema.optionalKey(Schema.NullOr(Schema.String)),
  taskType: Schema.optionalKey(Schema.NullOr(Schema.String)),
  model: Schema.optionalKey(Schema.NullOr(Schema.String)),
  provider: Schema.optionalKey(Schema.NullOr(Schema.String)),
  requests: Schema.optionalKey(Schema.BigInt),
  inputTokens: Schema.optionalKey(Schema.NullOr(Schema.BigInt)),
  outputTokens: Schema.optionalKey(Schema.NullOr(Schema.BigInt)),
  cachedInputTokens: Schema.optionalKey(Schema.NullOr(Schema.BigInt)),
  /** The class of tokens; `spend` and `refund` are dollars without tokens. */
  meter: Schema.optionalKey(Schema.String),
  /** Nano-dollars for a million tokens, or for an hour of a GPU. */
  rate: Schema.optionalKey(Schema.BigInt),
  /** Tokens; 10^-12 hours of `gpu-time`; nano-dollars of what has neither. */
  quantity: Schema.optionalKey(Schema.BigInt),
  cost: Schema.BigInt
})
export type BilledRow = typeof BilledRow.Type

/** A format that a column is in: lines are JSON and CSV. */
export type ColumnFormat = "lines" | "1.4" | "1.2"

export interface Column {
  readonly id: string
  readonly formats: ReadonlyArray<ColumnFormat>
  /** Numbers are written without quotes, with all their digits. */
  readonly isNumber: boolean
  /** undefined: the rows of this report do not have it; null: this row has none. */
  readonly value: (row: BilledRow, issuer: string) => string | null | undefined
}

/** A number of 10^-decimals without trailing zeros. */
export const decimalText = (value: bigint, decimals: number): string => {
  const digits = (value < 0n ? -value : value).toString().padStart(decimals + 1, "0")
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, "")
  return `${value < 0n ? "-" : ""}${digits.slice(0, digits.length - decimals)}${fraction === "" ? "" : `.${fraction}`}`
}

const usdDecimals = 9
const perMillionDecimals = 6
const gpuHourDecimals = 12
const usd = (nanoUsd: bigint): string => decimalText(nanoUsd, usdDecimals)

const meters: Readonly<Record<string, string>> = {
  input: "Input Tokens",
  "cached-input": "Cached Input Tokens",
  "cache-write": "Cache Write Tokens",
  "cache-write-1h": "Cache Write Tokens (1 hour)",
  output: "Output Tokens",
  reasoning: "Reasoning Tokens",
  "audio-input": "Audio Input Tokens",
  "audio-cached-input": "Cached Audio Input Tokens",
  "audio-output": "Audio Output Tokens",
  "image-input": "Image Input Tokens",
  "image-cached-input": "Cached Image Input Tokens",
  "image-output": "Image Output Tokens",
  "video-input": "Video Input Tokens",
  "video-cached-input": "Cached Video Input Tokens",
  "video-output": "Video Output Tokens",
  "gpu-time": "GPU Time",
  spend: "Spend",
  refund: "Spend"
}

/** What a row is priced by. */
interface PricedUnit {
  readonly consumedUnit: string
  readonly pricingUnit: string
  /** Of the quantity, as it was consumed and as it is priced. */
  readonly consumedDecimals: number
  readonly pricedDecimals: number
}

const ofTokens: PricedUnit = {
  consumedUnit: "Tokens",
  pricingUnit: "1000000 Tokens",
  consumedDecimals: 0,
  pricedDecimals: perMillionDecimals
}
const ofTime: PricedUnit = {
  consumedUnit: "GPU-Hours",
  pricingUnit: "GPU-Hours",
  consumedDecimals: gpuHourDecimals,
  pricedDecimals: gpuHourDecimals
}
const ofDollars: PricedUnit = {
  consumedUnit: "US Dollars",
  pricingUnit: "US Dollars",
  consumedDecimals: usdDecimals,
  pricedDecimals: usdDecimals
}

const isPriced = ({ meter }: BilledRow): boolean => meter !== "spend" && meter !== "refund"
const unitOf = (row: BilledRow): PricedUnit =>
  !isPriced(row) ? ofDollars : row.meter === "gpu-time" ? ofTime : ofTokens
const quantityOf = ({ quantity }: BilledRow): bigint => quantity ?? 0n
const rateOf = ({ rate }: BilledRow): bigint => rate ?? 0n
const skuOf = (row: BilledRow): string =>
  isPriced(row) ? `${row.provider ?? "unknown"}/${row.model ?? "unknown"}` : "spend"
const priceOf = (row: BilledRow): string => (isPriced(row) ? usd(rateOf(row)) : "1")
const listCost = (row: BilledRow): string =>
  isPriced(row)
    ? decimalText(quantityOf(row) * rateOf(row), usdDecimals + unitOf(row).pricedDecimals)
    : usd(quantityOf(row))
const billedCost = ({ cost }: BilledRow): string => usd(cost)
const providerOf = ({ provider }: BilledRow, issuer: string): string => provider ?? issuer

const seconds = (epochMillis: number): string => `${new Date(epochMillis).toISOString().slice(0, 19)}Z`
const hourOf = ({ hour }: BilledRow): number => hour?.epochMilliseconds ?? 0
const monthOf = (row: BilledRow, ahead: number): string => {
  const at = new Date(hourOf(row))
  return seconds(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + ahead))
}
const hourMillis = 3_600_000

const describe = (row: BilledRow): string => {
  const what = row.meter === "refund" ? "Refund" : (meters[row.meter ?? ""] ?? "Spend")
  const named = row.model == null ? what : `${what} of ${row.model}`
  return isPriced(row) && row.rate === 0n ? `${named}, free` : named
}

const focus: ReadonlyArray<ColumnFormat> = ["1.4", "1.2"]
const text = (id: string, formats: ReadonlyArray<ColumnFormat>, value: Column["value"]): Column => ({
  id,
  formats,
  isNumber: false,
  value
})
const number = (id: string, formats: ReadonlyArray<ColumnFormat>, value: Column["value"]): Column => ({
  id,
  formats,
  isNumber: true,
  value
})
const line: ReadonlyArray<ColumnFormat> = ["lines"]
const count = (value: bigint | null | undefined) => (value == null ? value : value.toString())

/** Every column of a billing report, those of FOCUS in the order of their ids and its own behind them. */
export const columns: ReadonlyArray<Column> = [
  text("id", line, ({ id }) => id),
  text("occurredAt", line, ({ occurredAt }) =>
    occurredAt === undefined ? undefined : new Date(occurredAt.epochMilliseconds).toISOString()
  ),
  text("kind", line, ({ method }) => (method === undefined ? undefined : method === "refunded" ? "refund" : "charge")),
  text("day", line, ({ day }) => day),
  text("hour", line, ({ hour }) => (hour === undefined ? undefined : new Date(hour.epochMilliseconds).toISOString())),
  text("tenantId", line, ({ tenantId }) => tenantId),
  text("agentId", line, ({ agentId }) => agentId),
  text("planId", line, ({ planId }) => planId),
  number("applicationId", line, ({ applicationId }) => (applicationId == null ? applicationId : `${applicationId}`)),
  text("apiKeyId", line, ({ apiKeyId }) => apiKeyId),
  text("userId", line, ({ userId }) => userId),
  text("taskType", line, ({ taskType }) => taskType),
  text("model", line, ({ model }) => model),
  text("provider", line, ({ provider }) => provider),
  number("requests", line, ({ requests }) => count(requests)),
  number("inputTokens", line, ({ inputTokens }) => count(inputTokens)),
  number("outputTokens", line, ({ outputTokens }) => count(outputTokens)),
  number("cachedInputTokens", line, ({ cachedInputTokens }) => count(cachedInputTokens)),
  number("costUsd", line, billedCost),
  text("tenantName", line, ({ tenantName }) => tenantName),
  text("agentName", line, ({ agentName }) => agentName),
  text("planName", line, ({ planName }) => planName),
  text("applicationName", line, ({ applicationName }) => applicationName),
  text("apiKeyName", line, ({ apiKeyName }) => apiKeyName),

  number("BilledCost", focus, billedCost),
  text("BillingAccountId", focus, ({ tenantId }) => tenantId),
  text("BillingAccountName", focus, ({ tenantName }) => tenantName),
  text("BillingCurrency", focus, () => "USD"),
  text("BillingPeriodEnd", focus, (row) => monthOf(row, 1)),
  text("BillingPeriodStart", focus, (row) => monthOf(row, 0)),
  text("ChargeCategory", focus, () => "Usage"),
  text("ChargeClass", focus, () => null),
  text("ChargeDescription", focus, describe),
  text("ChargeFrequency", focus, () => "Usage-Based"),
  text("ChargePeriodEnd", focus, (row) => seconds(hourOf(row) + hourMillis)),
  text("ChargePeriodStart", focus, (row) => seconds(hourOf(row))),
  number("ConsumedQuantity", focus, (row) => decimalText(quantityOf(row), unitOf(row).consumedDecimals)),
  text("ConsumedUnit", focus, (row) => unitOf(row).consumedUnit),
  number("ContractedCost", focus, billedCost),
  number("EffectiveCost", focus, billedCost),
  text("HostProviderName", ["1.4"], providerOf),
  text("InvoiceIssuerName", focus, (_, issuer) => issuer),
  number("ListCost", focus, listCost),
  number("ListUnitPrice", focus, priceOf),
  number("PricingQuantity", focus, (row) => decimalText(quantityOf(row), unitOf(row).pricedDecimals)),
  text("PricingUnit", focus, (row) => unitOf(row).pricingUnit),
  text("ProviderName", ["1.2"], providerOf),
  text("PublisherName", ["1.2"], providerOf),
  text("ServiceCategory", focus, () => "AI and Machine Learning"),
  text("ServiceName", focus, () => "Language Models"),
  text("ServiceProviderName", ["1.4"], providerOf),
  text("ServiceSubcategory", focus, () => "Generative AI"),
  text("SkuId", focus, skuOf),
  text("SkuMeter", focus, ({ meter }) => meters[meter ?? ""] ?? "Spend"),
  text("SkuPriceDetails", focus, (row) => JSON.stringify({ x_Meter: isPriced(row) ? row.meter : "spend" })),
  text("SkuPriceId", focus, (row) => (isPriced(row) ? `${skuOf(row)}/${row.meter}/${priceOf(row)}` : "spend/1")),
  text("x_AgentId", focus, ({ agentId }) => agentId ?? null),
  text("x_Model", focus, ({ model }) => model ?? null),
  text("x_TaskType", focus, ({ taskType }) => taskType ?? null)
]

export const columnsOf = (format: ColumnFormat): ReadonlyArray<Column> =>
  columns.filter(({ formats }) => formats.includes(format))

export const focusColumnIds: ReadonlyArray<string> = columns
  .filter(({ formats }) => !formats.includes("lines"))
  .map(({ id }) => id)
