import { Clock, Context, Effect, Layer, Redacted } from "effect"
import { parseExact } from "../../kernel/json/canonical-json.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import {
  type ConfiguredBilling,
  type ConfiguredProvider,
  type ProviderDialect
} from "../configuration/configuration-domain.ts"
import { ProviderKeys } from "../configuration/provider-keys.ts"
import { billingBaseUrl } from "../configuration/validate.ts"
import { spoken } from "../formats/registry/formats.ts"
import { type ProviderClient, ProviderClients } from "../providers/clients.ts"
import { retryAfterSeconds } from "../providers/http-provider.ts"
import { type ProviderAnswer } from "../providers/provider.ts"
import { anthropicReports, olderAnthropicReports } from "./anthropic.ts"
import { type BilledLine, BillFailure, BillSheet, type Report, unexpected } from "./domain.ts"
import { openAiReports } from "./openai.ts"

/** The reports of the vendors that have some; the next where an account does not have those before. */
const reportsOf: Partial<Record<ProviderDialect, ReadonlyArray<typeof openAiReports>>> = {
  openai: [openAiReports],
  anthropic: [anthropicReports, olderAnthropicReports]
}

const isLacking = ({ reason }: BillFailure): boolean => reason === "not-found" || reason === "forbidden"

const timeoutSeconds = 60
const maxPageBytes = 33_554_432
const maxPages = 500
/** How long a provider is waited for while a bill is read; after that it is asked the next time. */
const mostWaitSeconds = 20
const tries = 3

const refusals: Readonly<Record<number, readonly [BillFailure["reason"], string]>> = {
  401: ["unauthorized", "The provider rejects the admin key."],
  403: ["forbidden", "The provider does not let the admin key read usage and costs."],
  404: ["not-found", "The provider has no reports of usage and costs at this address."]
}

const refused = ({ headers, status }: ProviderAnswer, now: number): BillFailure => {
  const [reason, detail] = refusals[status] ?? []
  if (reason !== undefined && detail !== undefined) return new BillFailure({ reason, detail })
  const wait = retryAfterSeconds(headers, now)
  if (status === 429) {
    return new BillFailure({
      reason: "rate-limited",
      detail: "The provider limits the rate of its reports.",
      retryAfterSeconds: wait
    })
  }
  return status >= 500
    ? new BillFailure({
        reason: "unreachable",
        detail: `The provider answered with the status ${status}.`,
        retryAfterSeconds: wait
      })
    : unexpected(`its status is ${status}`)
}

/** Sends a request until it is answered, or no answer is to be expected. */
const answerTo = Effect.fnUntraced(function* (
  client: ProviderClient,
  origin: string,
  path: string,
  { headers }: Report
) {
  let left = tries
  while (true) {
    const sent = client.send({ method: "GET", origin, path, headers, timeoutSeconds, maxBytes: maxPageBytes })
    const outcome = yield* sent.pipe(
      Effect.scoped,
      Effect.mapError(({ error }) => new BillFailure({ reason: "unreachable", detail: error.message })),
      Effect.flatMap((answer) =>
        answer.status === 200
          ? Effect.succeed(answer)
          : Effect.flatMap(Clock.currentTimeMillis, (now) => Effect.fail(refused(answer, now)))
      ),
      Effect.result
    )
    if (outcome._tag === "Success") return outcome.success
    const { reason, retryAfterSeconds: wait = tries - left + 1 } = outcome.failure
    left -= 1
    const isTransient = reason === "rate-limited" || reason === "unreachable"
    if (!isTransient || left === 0 || wait > mostWaitSeconds) return yield* outcome.failure
    yield* Effect.sleep(wait * 1000)
  }
})

/** Adds all pages of a report to a bill. */
const addReport = Effect.fnUntraced(function* (client: ProviderClient, baseUrl: URL, report: Report, sheet: BillSheet) {
  const base = baseUrl.pathname.replace(/\/+$/, "")
  const seen = new Set<string>()
  let cursor: string | undefined
  for (let pages = 0; pages < maxPages; pages++) {
    const path = `${base}${report.path}${cursor === undefined ? "" : `&page=${encodeURIComponent(cursor)}`}`
    const { body } = yield* answerTo(client, baseUrl.origin, path, report)
    if (!(body instanceof Uint8Array)) return yield* unexpected("it is no JSON")
    const json = yield* Effect.try({
      try: () => parseExact(utf8Text(body)),
      catch: () => unexpected("it is no JSON, or too long")
    })
    const page = report.addPage(json, sheet)
    if (typeof page === "string") return yield* unexpected(page)
    if (!page.hasMore) return
    if (page.next === null || page.next === "") return yield* unexpected("there is more of it, but no next page")
    if (seen.has(page.next)) return yield* unexpected("its pages repeat")
    seen.add(page.next)
    cursor = page.next
  }
  return yield* unexpected(`it has more than ${maxPages} pages`)
})

/** Reads what providers say that they billed. */
export class ProviderBills extends Context.Service<
  ProviderBills,
  {
    /** The lines of the days from `opens` to before `closes`, which are starts of days in UTC in epoch milliseconds. */
    read(
      provider: ConfiguredProvider,
      billing: ConfiguredBilling,
      opens: number,
      closes: number
    ): Effect.Effect<ReadonlyArray<BilledLine>, BillFailure>
  }
>()("app/gateway/ProviderBills") {
  static readonly layerNoDeps = Layer.effect(
    ProviderBills,
    Effect.gen(function* () {
      const clients = yield* ProviderClients
      const keys = yield* ProviderKeys
      return ProviderBills.of({
        read: Effect.fn("ProviderBills.read")(function* (provider, billing, opens, closes) {
          const { dialect, tlsCa } = provider
          const address = billingBaseUrl(provider)
          const { key, ...missing } = yield* keys.read(billing.adminKey, address)
          if (key === undefined) {
            const detail = "warning" in missing ? missing.warning : "There is no admin key."
            return yield* new BillFailure({ reason: "no-key", detail })
          }
          const baseUrl = URL.parse(address)
          const [first, ...others] = reportsOf[dialect] ?? []
          if (baseUrl === null || first === undefined) return yield* unexpected("the provider has no such reports")
          const { authorize, headers } = spoken[dialect]
          const authorization = { ...headers, ...authorize(Redacted.value(key)) }
          const client = yield* clients.configured(tlsCa)
          const readAll = Effect.fnUntraced(function* (reports: typeof openAiReports) {
            const sheet = new BillSheet(opens, closes)
            for (const report of reports(opens, closes, billing.projectIds ?? [], authorization)) {
              yield* addReport(client, baseUrl, report, sheet)
            }
            return sheet.lines
          })
          return yield* others.reduce(
            (read, reports) =>
              Effect.catch(read, (failure) => (isLacking(failure) ? readAll(reports) : Effect.fail(failure))),
            readAll(first)
          )
        })
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(Layer.merge(ProviderClients.layer, ProviderKeys.layer)))
}
