import { csvLine as lineOf } from "../../kernel/csv.ts"
import { canonicalJson } from "../../kernel/json/canonical-json.ts"
import { type StoredEntry, storedMembers } from "../chain/chain-repository.ts"
import { canonicalEntry } from "../chain/link.ts"
import { type LinkedRow } from "../chain/proof-repository.ts"

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

export const csvHeader = lineOf(columns)

const cells = columns.map((name): ((row: WholeRow) => unknown) => {
  if (name === "sequence" || name === "previousHash" || name === "hash") return (row) => row[name]
  const index = storedMembers.indexOf(name)
  return name === "changes"
    ? ({ entry }) => (typeof entry[index] === "string" ? canonicalJson(entry[index]) : null)
    : ({ entry }) => entry[index]
})

/** The same line as CSV. */
export const csvLine = (row: WholeRow): string => lineOf(cells.map((cellOf) => cellOf(row)))
