import { Effect } from "effect"
import { configure } from "./gateway.ts"
import { type ProviderStandIn, startProvider } from "./provider.ts"
import { type TestService } from "./service.ts"
import { asSuperuser } from "./statements.ts"
import { anthropicVendor, openAiVendor } from "./vendors.ts"

type Service = TestService["Service"]

/** Writes the gateway's configuration: providers `oa` and `an` are stand-ins for both vendors, beside `others`. */
export const configureVendors = Effect.fnUntraced(function* (
  service: Service,
  models: ReadonlyArray<object>,
  others: ReadonlyArray<object> = []
) {
  const openai = yield* startProvider(openAiVendor)
  const anthropic = yield* startProvider(anthropicVendor)
  const providers = [
    { id: "oa", dialect: "openai", baseUrl: `${openai.url}/v1` },
    { id: "an", dialect: "anthropic", baseUrl: anthropic.url },
    ...others
  ]
  yield* configure(service, providers, models)
  return { openai, anthropic }
})

export const reservationsOf = ({ database }: Service, tenantId: string) =>
  asSuperuser(
    database,
    (sql) => sql<{ readonly id: string; readonly state: string }>`
      SELECT id::text, state FROM budget_reservations WHERE tenant_id = ${tenantId} ORDER BY id`
  )

/** Keeps the answers of a provider back until they are let go. */
export const holdBack = (standIn: ProviderStandIn) => {
  const usual = standIn.answer
  const waiting: Array<() => void> = []
  standIn.answer = (request, response) => waiting.push(() => usual(request, response))
  return {
    waiting,
    letGo: () => {
      standIn.answer = usual
      for (const answer of waiting.splice(0)) answer()
    }
  }
}
