import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { prefersHtml } from "../http/negotiation.ts"
import { serviceName, serviceVersion } from "../runtime/version.ts"
import { Settings } from "../settings/settings.ts"

const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#1d4ed8"/>\
<path d="M4 12 8 3l4 9M5.5 9h5" fill="none" stroke="#fff" stroke-width="1.8"/></svg>`

/** `GET /`: the console for browsers, and where everything is as JSON for others; and the icon that browsers ask for. */
export const FrontPageLayer = Layer.unwrap(
  Effect.map(Settings, ({ api, telemetry }) => {
    const links = [
      { rel: "service-desc", href: "/openapi.json", title: "OpenAPI document", isServed: api.swagger.enabled },
      { rel: "service-doc", href: "/swagger", title: "API reference", isServed: api.swagger.enabled },
      { rel: "problems", href: "/problems", title: "Errors and what they mean", isServed: true },
      { rel: "console", href: "/console", title: "Management console", isServed: true },
      { rel: "status", href: "/health/ready", title: "Whether the service is ready", isServed: true },
      { rel: "metrics", href: "/metrics", title: "Metrics for Prometheus", isServed: telemetry.prometheus.enabled }
    ]
      .filter(({ isServed }) => isServed)
      .map(({ href, rel, title }) => ({ rel, href, title }))
    const service = { service: serviceName, version: serviceVersion, links }
    const json = HttpServerResponse.jsonUnsafe(service, { headers: { vary: "Accept" } })
    const toConsole = HttpServerResponse.redirect("/console", { status: 302, headers: { vary: "Accept" } })
    return Layer.mergeAll(
      HttpRouter.add("GET", "/", (request) => Effect.succeed(prefersHtml(request) ? toConsole : json)),
      HttpRouter.add(
        "GET",
        "/favicon.ico",
        Effect.succeed(
          HttpServerResponse.text(icon, {
            contentType: "image/svg+xml",
            headers: { "cache-control": "public, max-age=86400" }
          })
        )
      )
    )
  })
)
