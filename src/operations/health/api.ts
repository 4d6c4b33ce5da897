import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Health, NotReady, Readiness } from "./domain.ts"

export class HealthApi extends HttpApiGroup.make("health")
  .add(
    HttpApiEndpoint.get("get", "/health", { success: Health }).annotateMerge(
      OpenApi.annotations({
        summary: "Whether the process serves",
        description: "200 as long as the process answers; asks no database. No credential."
      })
    ),
    HttpApiEndpoint.get("ready", "/health/ready", { success: Readiness, error: NotReady }).annotateMerge(
      OpenApi.annotations({
        summary: "Whether the service is ready for requests",
        description: "The database is reached, migrations are applied, the process is not draining. No credential."
      })
    )
  )
  .annotateMerge(OpenApi.annotations({ title: "Health", description: "For load balancers and people." })) {}
