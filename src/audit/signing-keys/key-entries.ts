import { Schema } from "effect"
import { AttestationKey } from "./domain.ts"

const encode = Schema.encodeSync(AttestationKey.json)

/** A key as the audit log keeps it, never with its private half. */
export const snapshot = (key: typeof AttestationKey.json.Type) => encode(key)
