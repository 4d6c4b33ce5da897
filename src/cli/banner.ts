import { Effect, Option, Redacted } from "effect"
import { HttpServer } from "effect/http"
import { DatabaseConnection } from "../platform/database/connection.ts"
import { Settings } from "../platform/settings/settings.ts"

/** Secrets that this start generated, shown only once. */
export interface MadeSecrets {
  readonly madeKey: Option.Option<Redacted.Redacted>
  readonly claimLink: Option.Option<Redacted.Redacted>
}

/** What a start says on standard output: lines of text, or in the format of the log one JSON object. */
export const printBanner = Effect.fnUntraced(function* (secrets: MadeSecrets) {
  const { api, environment, logging } = yield* Settings
  const { embeddedIn } = yield* DatabaseConnection
  const { address } = yield* HttpServer.HttpServer
  const url = HttpServer.formatAddress(address)
  const database = Option.match(embeddedIn, {
    onNone: () => "external (Database:Url)",
    onSome: (directory) => `embedded, in ${directory}`
  })
  const openApi = api.swagger.enabled ? Option.some(`${api.publicUrl}/swagger`) : Option.none()
  if (logging.format === "pretty") {
    yield* print(bannerLines({ ...secrets, url, environment, database, console: `${api.publicUrl}/console`, openApi }))
  } else {
    yield* Effect.logInfo(`Application Manager serves on ${url}`).pipe(
      Effect.annotateLogs({
        environment,
        database,
        ...Option.match(
          openApi,
          none((openApi) => ({ openApi }))
        )
      })
    )
    const { claimLink, madeKey } = secrets
    // Past the logger, which masks secrets; in Development only, the one environment that generates them.
    const made = {
      ...Option.match(
        madeKey,
        none((key) => ({ apiKey: Redacted.value(key) }))
      ),
      ...Option.match(
        claimLink,
        none((link) => ({ claim: Redacted.value(link) }))
      )
    }
    if (Object.keys(made).length > 0) yield* print([JSON.stringify({ message: "Shown only once", ...made })])
  }
  if (environment === "Production") yield* warnOfDefaults
})

const none = <A, B extends object>(onSome: (value: A) => B) => ({ onNone: (): Partial<B> => ({}), onSome })

// The one place that prints secrets, once and never through the log.
const print = (lines: ReadonlyArray<string>) => Effect.sync(() => process.stdout.write(`${lines.join("\n")}\n`))

interface Banner extends MadeSecrets {
  readonly url: string
  readonly environment: string
  readonly database: string
  readonly console: string
  readonly openApi: Option.Option<string>
}

const bannerLines = ({
  claimLink,
  console,
  database,
  environment,
  madeKey,
  openApi,
  url
}: Banner): ReadonlyArray<string> => [
  `Application Manager serves on ${url}`,
  `  Environment  ${environment}`,
  `  Database     ${database}`,
  `  Console      ${console}`,
  ...Option.match(openApi, { onNone: () => [], onSome: (address) => [`  OpenAPI      ${address}`] }),
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

const warnOfDefaults = Effect.gen(function* () {
  const { api, sources } = yield* Settings
  const { embeddedIn } = yield* DatabaseConnection
  if (Option.isNone(api.apiKey)) {
    yield* Effect.logWarning("Api:ApiKey is not set; only API keys that already exist are accepted")
  }
  if (Option.isSome(embeddedIn)) {
    yield* Effect.logWarning("The embedded database is used in Production; set Database:Url to use a PostgreSQL server")
  }
  if (sources.get("Api:PublicUrl") === "default") {
    yield* Effect.logWarning(`Api:PublicUrl is not set; ${api.publicUrl} is assumed to be the URL that callers use`)
  }
})
