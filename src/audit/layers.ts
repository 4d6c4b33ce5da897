import { Layer } from "effect"
import { AttestationKeyCreations } from "./attestation-keys/creation.ts"
import { AttestationHandlers, AttestationKeysHandlers } from "./attestation-keys/handlers.ts"
import { AttestationKeyRevocation } from "./attestation-keys/revocation.ts"
import { AttestationKeyRotations } from "./attestation-keys/rotation.ts"
import { AuditChainer } from "./chain/chainer.ts"
import { AuditRetention } from "./chain/retention.ts"
import { AuditVerification } from "./chain/verification.ts"
import { AuditExport } from "./export/export.ts"
import { AuditFeed } from "./feed/feed.ts"
import { AuditHandlers } from "./handlers.ts"
import { Audit } from "./log/service.ts"
import { AttestationKeys } from "./signing-keys/service.ts"
import { StatementsHandlers } from "./statements/handlers.ts"
import { Statements } from "./statements/service.ts"

/** Writes the entry of every change. */
export const layerLog = Audit.layer

/** What proves the log and exports it, and the keys that sign it. A revoked key invalidates caches of access, by a port. */
export const layer = Layer.mergeAll(
  AuditChainer.layer,
  AuditVerification.layer,
  AuditExport.layer,
  AuditFeed.layer,
  AuditRetention.layer,
  AttestationKeyCreations.layer,
  AttestationKeyRotations.layer,
  AttestationKeyRevocation.layer,
  Statements.layer
).pipe(Layer.provideMerge(AttestationKeys.layer))

export const handlers = Layer.mergeAll(AuditHandlers, AttestationHandlers, AttestationKeysHandlers, StatementsHandlers)
