import { HttpApiGroup, OpenApi } from "effect/http-api"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Health, NotReady, Readiness } from "./domain.ts"

export class HealthApi extends HttpApiGroup.make("health")
  .add(
    endpoint.get("get", "/health", {
      summary: "Get whether the process serves",
      description: "200 as long as the process answers; asks no database. No credential.",
      success: Health
    }),
    endpoint.get("ready", "/health/ready", {
      summary: "Get whether the service is ready for requests",
      description: "Database reached, migrations applied, not draining. No credential.",
      success: Readiness,
      error: NotReady
    })
  )
  .annotateMerge(OpenApi.annotations({ title: "Health", description: "For load balancers and people." })) {}
