import { Effect } from "effect"
import { benchAgents } from "./agents.ts"
import { benchAuditChain } from "./audit-chain.ts"
import { benchAudit } from "./audit.ts"
import { benchConfiguration } from "./configuration.ts"
import { benchEvenTime } from "./even-time.ts"
import { benchHttp } from "./http.ts"
import { benchSignIn } from "./sign-in.ts"
import { benchStart } from "./start.ts"

await benchHttp()
await benchSignIn()
await benchStart()
await Effect.runPromise(benchAudit)
await Effect.runPromise(benchAuditChain)
await Effect.runPromise(benchConfiguration)
await Effect.runPromise(benchAgents)
await Effect.runPromise(benchEvenTime)
