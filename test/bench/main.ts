import { Effect } from "effect"
import { benchAuditChain } from "./audit-chain.ts"
import { benchAudit } from "./audit.ts"
import { benchConfiguration } from "./configuration.ts"
import { benchEvenTime } from "./even-time.ts"
import { benchHttp } from "./http.ts"
import { benchIdentity } from "./identity.ts"
import { benchSignIn } from "./sign-in.ts"
import { benchStart } from "./start.ts"

await benchHttp()
await benchSignIn()
await benchStart()
await Effect.runPromise(benchAudit)
await Effect.runPromise(benchAuditChain)
await Effect.runPromise(benchConfiguration)
await Effect.runPromise(benchIdentity)
await Effect.runPromise(benchEvenTime)
