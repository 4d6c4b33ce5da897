import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { makeKey, makeTenant } from "./authority.ts"
import { type ProviderStandIn, startProvider } from "./provider.ts"
import { type TestService } from "./service.ts"
import { asSuperuser } from "./statements.ts"
import { anthropicVendor, openAiVendor, used } from "./vendors.ts"

type Service = TestService["Service"]

export const gatewayPrices = { inputUsdPerMTok: 2, outputUsdPerMTok: 10, cacheReadUsdPerMTok: 0.5 }
/** What a call of the stand-ins costs at these prices, in nano-dollars. */
export const gatewayCost = (used.input - used.cached) * 2000 + used.cached * 500 + used.output * 10_000

/** A model at one provider, with a price. */
export const pricedModel = (id: string, provider: string, members: object = {}) => ({
  id,
  kind: "chat",
  prices: gatewayPrices,
  targets: [{ provider, model: `${id}-upstream` }],
  ...members
})

/** Writes the gateway's configuration: providers `oa` and `an` are stand-ins for both vendors. */
export const configureVendors = Effect.fnUntraced(function* (
  service: Service,
  models: ReadonlyArray<object>,
  members: object = {}
) {
  const openai = yield* startProvider(openAiVendor)
  const anthropic = yield* startProvider(anthropicVendor)
  const written = yield* service.call("PUT", "/api/llm/admin/config", {
    body: {
      providers: [
        { id: "oa", dialect: "openai", baseUrl: `${openai.url}/v1` },
        { id: "an", dialect: "anthropic", baseUrl: anthropic.url }
      ],
      models,
      routing: { retries: 0, breaker: { failures: 1000 } },
      ...members
    }
  })
  assert.strictEqual(written.status, 200, written.text)
  return { openai, anthropic }
})

/** A tenant of its own with a key for the gateway. */
export const makeCaller = Effect.fnUntraced(function* (service: Service) {
  const tenantId = yield* makeTenant(service.database)
  const { key } = yield* makeKey(service, ["llm:*"], { tenantId })
  return { tenantId, key }
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
