import { canonicalEntry } from "./canonical-entry.ts"
import { type StoredEntry } from "./chain-repository.ts"
import { type LinkedRow } from "./proof-repository.ts"

/** A link with its entry. */
export type WholeRow = LinkedRow & { readonly entry: StoredEntry }

export const isWhole = (row: LinkedRow): row is WholeRow => row.entry !== undefined

/** A line of an exported log: the canonical entry, and the two hashes that prove it. */
export const jsonLine = ({ entry, hash, previousHash, sequence }: WholeRow): string =>
  `${canonicalEntry(entry, sequence).slice(0, -1)},"previousHash":"${previousHash}","hash":"${hash}"}\n`

const columns = [
  "sequence",
  "id",
  "occurredAt",
  "actionType",
  "entityType",
  "entityId",
  "userId",
  "actorType",
  "tenantId",
  "applicationId",
  "outcome",
  "reason",
  "count",
  "ipAddress",
  "userAgent",
  "traceId",
  "changes",
  "previousHash",
  "hash"
] as const

export const csvHeader = `${columns.join(",")}\r\n`

/** The same line as CSV (RFC 4180); a cell that a spreadsheet would take for a formula begins with an apostrophe. */
export const csvLine = (row: WholeRow): string => {
  const members = JSON.parse(jsonLine(row)) as Record<string, unknown>
  return `${columns.map((name) => cell(members[name])).join(",")}\r\n`
}

const cell = (value: unknown): string => {
  if (value === null || value === undefined) return ""
  if (typeof value === "number") return String(value)
  const text = typeof value === "string" ? value : JSON.stringify(value)
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
