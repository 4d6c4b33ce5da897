import { Effect, Option, Redacted } from "effect"
import { HttpServer } from "effect/http"
import { DatabaseConnection } from "../platform/database/connection.ts"
import { Settings } from "../platform/settings/settings.ts"

/** Secrets that this start generated, shown only once. */
export interface MadeSecrets {
  readonly madeKey: Option.Option<Redacted.Redacted>
  readonly claimLink: Option.Option<Redacted.Redacted>
}

/** The start message on standard output, with the credentials that this start created. */
export const printBanner = ({ claimLink, madeKey }: MadeSecrets) =>
  Effect.gen(function* () {
    const settings = yield* Settings
    const { embeddedIn } = yield* DatabaseConnection
    const { address } = yield* HttpServer.HttpServer
    const url = settings.api.publicUrl
    const lines = [
      `Application Manager serves on ${HttpServer.formatAddress(address)}`,
      `  Environment  ${settings.environment}`,
      `  Database     ${Option.match(embeddedIn, { onNone: () => "external (Database:Url)", onSome: (directory) => `embedded, in ${directory}` })}`,
      ...(settings.api.swagger.enabled ? [`  OpenAPI      ${url}/swagger`] : []),
      ...Option.match(madeKey, {
        onNone: () => [],
        onSome: (key) => [
          `  API key      ${Redacted.value(key)}`,
          "               The service-account key, generated for this Development database and shown only once."
        ]
      }),
      ...Option.match(claimLink, {
        onNone: () => [],
        onSome: (link) => [
          `  Claim        ${Redacted.value(link)}`,
          "               Creates the first account, an administrator; works once, for 30 minutes."
        ]
      })
    ]
    // The one place that prints secrets, once and never through the log.
    yield* Effect.sync(() => process.stdout.write(`${lines.join("\n")}\n`))
    if (settings.environment === "Production") {
      if (Option.isNone(settings.api.apiKey)) {
        yield* Effect.logWarning("Api:ApiKey is not set; only API keys that already exist are accepted")
      }
      if (Option.isSome(embeddedIn)) {
        yield* Effect.logWarning(
          "The embedded database is used in Production; set Database:Url to use a PostgreSQL server"
        )
      }
      if (settings.sources.get("Api:PublicUrl") === "default") {
        yield* Effect.logWarning(`Api:PublicUrl is not set; ${url} is assumed to be the URL that callers use`)
      }
    }
  })
