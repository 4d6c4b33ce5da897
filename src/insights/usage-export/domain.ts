/** How the columns of a file are typed; `json` is an object with any members. */
export type ColumnType = "text" | "integer" | "boolean" | "timestamp" | "json"

/** A column of the files: its name never changes its meaning, and others may come behind the last. */
export interface Column {
  readonly name: string
  readonly type: ColumnType
  readonly isRequired: boolean
  readonly description: string
}

const column = (name: string, type: ColumnType, description: string, isRequired = false): Column => ({
  name,
  type,
  isRequired,
  description
})
const required = (name: string, type: ColumnType, description: string) => column(name, type, description, true)

/** In the path of the files: other columns than more behind the last make another version. */
export const schemaVersion = "v1"

export const columns = [
  required("rowId", "text", "Differs for each row, and is the same wherever the row is exported again"),
  required("kind", "text", "`request`, `refund`, or `cached`: an answer of the gateway's cache, which cost nothing"),
  column(
    "id",
    "text",
    "The charge; of a refund, that which it refunds; of a call that failed and has none, its reservation"
  ),
  required("tenantId", "text", "The tenant"),
  required("occurredAt", "timestamp", "When it was booked, and by what its file is placed"),
  required("costNanoUsd", "integer", "Billionths of a dollar; below zero for a refund"),
  required("savedNanoUsd", "integer", "What the provider's cache saved, or the gateway's own"),
  column("agentId", "text", "The agent"),
  column("planId", "text", "The plan"),
  column("applicationId", "integer", "The application"),
  column("apiKeyId", "text", "The API key"),
  column("userId", "text", "The user"),
  column("taskType", "text", "The type of task"),
  column("model", "text", "The model that it counts for"),
  column("modelAsked", "text", "The model or alias that the caller named"),
  column("modelServed", "text", "The model that the answer named"),
  column("provider", "text", "The provider"),
  column("operation", "text", "The operation, such as `chat`"),
  column("dialect", "text", "The wire format of the call"),
  column("inputTokens", "integer", "Tokens read, cached ones included"),
  column("outputTokens", "integer", "Tokens written, reasoning included"),
  column("cachedInputTokens", "integer", "Tokens read from the provider's cache"),
  column("cacheWriteTokens", "integer", "Tokens written to the provider's cache"),
  column("cacheWrite1hTokens", "integer", "Those of them that it keeps for an hour"),
  column("reasoningTokens", "integer", "Tokens of reasoning"),
  required("method", "text", "Where the cost comes from, as in `/api/usage`; `refunded` and `cached` beside it"),
  column("status", "integer", "The HTTP status of the call"),
  column("latencyMs", "integer", "Milliseconds of the call"),
  column("upstreamLatencyMs", "integer", "Those of them that the provider took"),
  column("timeToFirstTokenMs", "integer", "Milliseconds to the first token"),
  required("late", "boolean", "Settled after the reservation had expired or was released"),
  column("reservationId", "text", "The reservation"),
  required("createdBy", "text", "The principal"),
  column("servedTier", "text", "The tier that the answer named, where it is not the usual one"),
  column("priceTerms", "json", "What was charged by besides rates and tokens of text"),
  column("toolUses", "json", "How often a call used each tool that its provider bills"),
  column("metadata", "json", "What the caller gave"),
  column("catalogueVersion", "text", "The version of the prices"),
  column("traceId", "text", "The trace"),
  required("synthetic", "boolean", "Of a synthetic principal, whose usage no report counts unless asked to"),
  column("eventTime", "timestamp", "`time` of the event that reported it"),
  column("error", "json", "Why it failed: `code` and `message`")
] as const satisfies ReadonlyArray<Column>
export type ColumnName = (typeof columns)[number]["name"]

/** A file whose rows are decided. */
export interface UsageFile {
  readonly number: bigint
  /** `2026-11-27T14`, in UTC: all rows are of this hour. */
  readonly hour: string
  readonly digest: string
  readonly rows: number
  readonly costNanoUsd: bigint
  /** How many rows each part of it has, in their order. */
  readonly counts: ReadonlyArray<number>
}

const numberDigits = 12

/** Where a file is below the prefix: by what it holds, so that it has one name however often it is uploaded. */
export const pathOf = ({ digest, hour, number }: UsageFile): string =>
  `${schemaVersion}/dt=${hour.slice(0, 10)}/hour=${hour.slice(11, 13)}/${String(number).padStart(numberDigits, "0")}-${digest}.jsonl.gz`

/** Consecutive parts that together have about so many rows, as the places of the first and the last, counted from 1. */
export const slicesOf = (counts: ReadonlyArray<number>, rows: number): ReadonlyArray<readonly [number, number]> => {
  const slices: Array<readonly [number, number]> = []
  let first = 1
  let held = 0
  for (const [index, count] of counts.entries()) {
    held += count
    if (held < rows && index + 1 < counts.length) continue
    slices.push([first, index + 1])
    first = index + 2
    held = 0
  }
  return slices
}

const firstPauseSeconds = 5
const longestPauseSeconds = 300

/** How long nothing is uploaded after so many failures in a row. */
export const pauseSeconds = (failures: number): number =>
  Math.min(firstPauseSeconds * 2 ** Math.min(failures - 1, 10), longestPauseSeconds)
