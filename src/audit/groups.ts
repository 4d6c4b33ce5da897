import { AuditApi } from "./api.ts"
import { AttestationApi, AttestationKeysApi } from "./attestation-keys/api.ts"
import { StatementsApi } from "./statements/api.ts"

export const groups = [AuditApi, AttestationApi, AttestationKeysApi, StatementsApi] as const
