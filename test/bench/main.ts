import { Effect } from "effect"
import { benchAudit } from "./audit.ts"
import { benchHttp } from "./http.ts"
import { benchStart } from "./start.ts"

await benchHttp()
await benchStart()
await Effect.runPromise(benchAudit)
