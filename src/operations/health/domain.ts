import { Schema } from "effect"
import { Instant } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"

/** That the process serves. */
export const Health = Schema.Struct({
  status: Schema.Literals(["Healthy", "Degraded"]),
  timestamp: Instant,
  service: Schema.String.annotate({ examples: ["application-manager"] }),
  version: Schema.String.annotate({ examples: ["1.0.0"] })
}).annotate({ identifier: "Health" })
export type Health = typeof Health.Type

/** One question that readiness asks. */
export const ReadinessCheck = Schema.Struct({
  name: Schema.Literals(["database", "migrations", "draining", "clock", "redis", "read-replica"]),
  ready: Schema.Boolean,
  detail: Schema.String.annotate({ examples: ["reachable"] })
}).annotate({ identifier: "ReadinessCheck" })
export type ReadinessCheck = typeof ReadinessCheck.Type

export const Readiness = Schema.Struct({
  status: Schema.Literal("Ready"),
  timestamp: Instant,
  checks: Schema.Array(ReadinessCheck)
}).annotate({ identifier: "Readiness" })
export type Readiness = typeof Readiness.Type

export class NotReady extends Problem<NotReady>()(
  "NotReady",
  {
    slug: "not-ready",
    status: 503,
    meaning: "The service should get no new requests now; `checks` says why."
  },
  { checks: Schema.Array(ReadinessCheck) }
) {}
