import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { htmlPage } from "../http/html-page.ts"
import { prefersHtml } from "../http/negotiation.ts"
import { serviceName, serviceVersion } from "../runtime/version.ts"
import { Settings } from "../settings/settings.ts"

const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#1d4ed8"/>\
<path d="M4 12 8 3l4 9M5.5 9h5" fill="none" stroke="#fff" stroke-width="1.8"/></svg>`

/** `GET /`: where everything is, as a page or as JSON; and the icon that browsers ask for. */
export const FrontPageLayer = Layer.unwrap(
  Effect.map(Settings, ({ api, telemetry }) => {
    const links = [
      { rel: "service-desc", href: "/openapi.json", title: "OpenAPI document", isServed: api.swagger.enabled },
      { rel: "service-doc", href: "/swagger", title: "API reference", isServed: api.swagger.enabled },
      { rel: "problems", href: "/problems", title: "Errors and what they mean", isServed: true },
      { rel: "claim", href: "/claim", title: "Create the first account, with the claim link", isServed: true },
      { rel: "status", href: "/health/ready", title: "Whether the service is ready", isServed: true },
      { rel: "metrics", href: "/metrics", title: "Metrics for Prometheus", isServed: telemetry.prometheus.enabled }
    ]
      .filter(({ isServed }) => isServed)
      .map(({ href, rel, title }) => ({ rel, href, title }))
    const service = { service: serviceName, version: serviceVersion, links }
    const json = HttpServerResponse.jsonUnsafe(service, { headers: { vary: "Accept" } })
    const items = links.map(({ href, title }) => `<li><a href="${href}">${title}</a> <code>${href}</code></li>`)
    const html = htmlPage("Application Manager", page(items.join("\n")))
    return Layer.mergeAll(
      HttpRouter.add("GET", "/", (request) => Effect.succeed(prefersHtml(request) ? html : json)),
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

const page = (items: string) => `<h1>Application Manager</h1>
<p>Identity, configuration, audit, budgets and a gateway to language models. Version ${serviceVersion}.</p>
<ul>
${items}
</ul>`
