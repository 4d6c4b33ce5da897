import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/access.ts"
import { DashboardHealth, DashboardMetrics } from "./domain.ts"

const read = requires("dashboard:read", { systemOnly: true })

export class DashboardApi extends HttpApiGroup.make("dashboard")
  .add(
    HttpApiEndpoint.get("metrics", "/metrics", { success: DashboardMetrics })
      .annotateMerge(read)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Get the figures of the installation",
          description:
            "What there is now, and what came in the last seven days (UTC, today among them) against the seven before."
        })
      ),
    HttpApiEndpoint.get("health", "/health", { success: DashboardHealth })
      .annotateMerge(read)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Get the health of the service in detail",
          description: "Always 200; `status` is that of the worst check. Each check says how long it took."
        })
      )
  )
  .middleware(Access)
  .prefix("/api/dashboard")
  .annotateMerge(OpenApi.annotations({ title: "Dashboard", description: "How much there is, and how it fares." })) {}
