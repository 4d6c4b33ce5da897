import { HttpApiGroup, OpenApi } from "effect/http-api"
import { withSynthetic } from "../../insights/usage/domain.ts"
import { Access, requires } from "../../kernel/authority/access.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { DashboardHealth, DashboardMetrics, EffectiveSettings } from "./domain.ts"

const read = requires("dashboard:read", { systemOnly: true })

export class DashboardApi extends HttpApiGroup.make("dashboard")
  .add(
    endpoint.get("metrics", "/metrics", {
      summary: "Get the figures of the installation",
      description:
        "What there is now, and what came in the last seven days (UTC, today among them) against the seven before. Synthetic principals' agents, reservations and spending count only if asked for.",
      access: read,
      query: withSynthetic,
      success: DashboardMetrics
    }),
    endpoint.get("health", "/health", {
      summary: "Get the health of the service in detail",
      description: "Always 200; `status` is that of the worst check. Each check reports its duration.",
      access: read,
      success: DashboardHealth
    }),
    endpoint.get("settings", "/settings", {
      summary: "Get the settings that the service runs with",
      description: "Each with where it was set. Secrets are `***`, and null is a setting without a value.",
      access: read,
      success: EffectiveSettings
    })
  )
  .middleware(Access)
  .prefix("/api/dashboard")
  .annotateMerge(OpenApi.annotations({ title: "Dashboard", description: "Counts and health of the installation." })) {}
