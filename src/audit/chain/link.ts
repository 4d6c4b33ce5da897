import * as crypto from "node:crypto"
import { canonicalJson, canonicalText } from "../../kernel/json/canonical-json.ts"
import { type StoredEntry, storedMembers } from "./chain-repository.ts"

/** Separates links from every other hash of the service. */
const domainTag = "application-manager/audit-link/v1"

/** What the first link takes for the hash before it. */
export const genesisHash = "0".repeat(64)

/** The hash of a link, in hex: over the domain tag, the canonical entry and the hash before. */
export const linkHash = (canonical: string, previousHash: string): string =>
  crypto.hash("sha256", `${domainTag}\n${canonical}\n${previousHash}`, "hex")

const changesIndex = storedMembers.indexOf("changes")
/** Where `sequence`, which has no column, goes among the members. */
const sequenceIndex = storedMembers.indexOf("tenantId")
const opening = storedMembers.map((name, index) => `${index === 0 ? "{" : ","}"${name}":`)

/** The canonical text (RFC 8785) of a stored entry at its place in the chain. */
export const canonicalEntry = (entry: StoredEntry, sequence: number): string => {
  let text = ""
  for (let index = 0; index < opening.length; index++) {
    if (index === sequenceIndex) text += `,"sequence":${sequence}`
    const value = entry[index]
    text += opening[index]
    text += typeof value === "string" && index === changesIndex ? canonicalJson(value) : plain(value)
  }
  return `${text}}`
}

const plain = (value: unknown): string => {
  if (typeof value === "string") return canonicalText(value)
  if (value === null || (typeof value === "number" && Number.isSafeInteger(value))) return String(value)
  throw new TypeError("A stored entry holds text and integers alone")
}
