import { Context, Metric } from "effect"
import { series } from "../../../platform/observability/series.ts"
import { type CredentialState } from "../../providers/credential.ts"

const registry = Context.empty()

const expiries = series((provider: string) =>
  Metric.gauge("app.gateway.credential.expiry", {
    description: "When a provider's credential ends as this replica holds it, in seconds since 1970; 0 without one",
    attributes: { "app.provider.id": provider, unit: "s" }
  })
)

const failures = series((provider: string) =>
  Metric.gauge("app.gateway.credential.failures", {
    description: "Attempts in a row that failed to obtain a provider's credential",
    attributes: { "app.provider.id": provider, unit: "{attempt}" }
  })
)

/** Records the state of a provider's credential. */
export const credentialSeen = (provider: string, { expiresAt = 0, failures: failed }: CredentialState): void => {
  expiries(provider).updateUnsafe(expiresAt / 1000, registry)
  failures(provider).updateUnsafe(failed, registry)
}
