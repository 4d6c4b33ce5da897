import * as crypto from "node:crypto"

/** Separates links from every other hash of the service. */
const domainTag = "application-manager/audit-link/v1"

/** What the first link takes for the hash before it. */
export const genesisHash = "0".repeat(64)

/** The hash of a link, in hex: over the domain tag, the canonical entry and the hash before. */
export const linkHash = (canonical: string, previousHash: string): string =>
  crypto.hash("sha256", `${domainTag}\n${canonical}\n${previousHash}`, "hex")
