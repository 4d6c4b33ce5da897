import { hash } from "node:crypto"
import { type TenantId } from "../../kernel/identifier.ts"
import { type DialectRequest } from "./provider-request.ts"

/** Of a call that may be answered from what was answered before. */
export interface Cacheable extends DialectRequest {
  /** Headers that a provider sees, some of which change the answer. */
  readonly headers: Readonly<Record<string, string>>
  readonly fallbacks?: ReadonlyArray<string>
  /** What the caller wishes; undefined: as the model's configuration says. */
  readonly cache?: boolean | undefined
}

/** Headers that every client sends in words of its own, and no answer depends on. */
const withoutEffect = new Set(["accept", "user-agent"])

/** Tells calls apart: whose they are, what is asked of which configuration, and the question byte for byte. */
export const cacheKey = (
  { bytes, dialect, fallbacks, headers, operation }: Cacheable,
  tenantId: TenantId,
  catalogueVersion: string
): string => {
  const telling = Object.entries(headers)
    .filter(([name]) => !withoutEffect.has(name))
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
  const head = JSON.stringify([tenantId, catalogueVersion, dialect, operation, fallbacks ?? [], telling])
  return hash("sha256", Buffer.concat([Buffer.from(`${head}\n`), bytes]), "base64url")
}
