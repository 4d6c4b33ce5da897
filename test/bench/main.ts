import { Effect } from "effect"
import { benchAudit } from "./audit.ts"
import { benchConfiguration } from "./configuration.ts"
import { benchHttp } from "./http.ts"
import { benchStart } from "./start.ts"

await benchHttp()
await benchStart()
await Effect.runPromise(benchAudit)
await Effect.runPromise(benchConfiguration)
