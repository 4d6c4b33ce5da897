import * as crypto from "node:crypto"
import { canonicalJson } from "../kernel/canonical-json.ts"

/** Says what the bytes are, so that no other hash of the service can stand for a link. */
const domainTag = "application-manager/audit-link/v1"

/** What the first link takes for the hash before it. */
export const genesisHash = "0".repeat(64)

/** An entry as the proof reads it: its members but two as the database writes them in order, and its changes. */
export interface StoredEntry {
  /** JSON text of all members but `changes` and `sequence`, sorted, without blanks, times in microseconds. */
  readonly members: string
  /** JSON text of `changes` as stored; null when there are none. */
  readonly changes: string | null
}

/** The canonical text (RFC 8785) of a stored entry at its place in the chain. */
export const canonicalEntry = ({ changes, members }: StoredEntry, sequence: number): string => {
  // Quotes inside values are escaped, so these two can only be the members' own names.
  const count = members.indexOf(',"count":')
  const tenantId = members.indexOf(',"tenantId":', count)
  return `${members.slice(0, count)},"changes":${changes === null ? "null" : canonicalJson(changes)}${members.slice(count, tenantId)},"sequence":${sequence}${members.slice(tenantId)}`
}

/** The hash of a link, in hex: over the domain tag, the canonical entry and the hash before. */
export const linkHash = (canonical: string, previousHash: string): string =>
  crypto.hash("sha256", `${domainTag}\n${canonical}\n${previousHash}`, "hex")
