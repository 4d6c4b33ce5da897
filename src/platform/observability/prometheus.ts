import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { prometheus, prometheusContentType } from "./metrics.ts"
import { Settings } from "../settings/settings.ts"

/** `GET /metrics` in Prometheus' text format, where `Telemetry:Prometheus:Enabled`. */
export const PrometheusLayer = Layer.unwrap(
  Effect.map(Settings, ({ telemetry }) =>
    telemetry.prometheus.enabled
      ? HttpRouter.add(
          "GET",
          "/metrics",
          Effect.map(prometheus, (text) => HttpServerResponse.text(text, { contentType: prometheusContentType }))
        )
      : Layer.empty
  )
)
