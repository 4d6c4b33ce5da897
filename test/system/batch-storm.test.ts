import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import { CredentialAddresses } from "../../src/gateway/credentials/vendor-exchange.ts"
import { diceOf } from "../contract/dice.ts"
import { startBatchVendor } from "../support/batch-vendor.ts"
import { batchDocument, linesOf, openAiClient, usage } from "../support/batches.ts"
import { startCredentialVendors, withCredentialVendors } from "../support/credential-vendors.ts"
import { configure, model, provider, spender, whenCharged } from "../support/gateway.ts"
import { assertNoDrift } from "../support/plans.ts"
import { type ProviderStandIn } from "../support/provider.ts"
import { serviceLayer, TestService } from "../support/service.ts"
import { eventually } from "../support/waiting.ts"

const seconds = Number(process.env.STORM_SECONDS ?? 8)
/** How long the vendor's tokens live: as long as they must be used after they are renewed, and no longer. */
const tokenSeconds = 3
const requests = 3
const limitUsd = 0.2

let current: ProviderStandIn | undefined
const addresses = withCredentialVendors(() => current)

const service = serviceLayer({ Llm__Gateway__BatchPollSeconds: "1" }).pipe(
  Layer.provide(Layer.succeed(CredentialAddresses, addresses))
)

const identity = { type: "federation", vendor: "openai", identityProviderId: "idp_1", serviceAccountId: "svc_1" }

interface Sums {
  readonly open: number
  readonly reserved: string
  readonly spent: string
  readonly charged: string
  readonly twice: number
}

layer(service, { excludeTestServices: true, timeout: "120 seconds" })("a storm of calls and batches", (it) => {
  it.effect("with tokens that end and lost submissions loses no money, at two replicas", () =>
    Effect.gen(function* () {
      const one = yield* TestService
      const other = yield* one.replica
      const { body: issuer } = yield* one.call("GET", "/workload/.well-known/openid-configuration", { key: null })
      const vendors = yield* startCredentialVendors(() => ({
        issuer: issuer.issuer,
        at: `${one.url}/workload`,
        audience: "https://api.openai.com/v1",
        subject: "provider:live"
      }))
      current = vendors.standIn
      vendors.tokens.lifetime = tokenSeconds
      const dice = diceOf("batches and tokens")
      const vendor = yield* startBatchVendor("openai")
      vendor.interfere = ({ method, path }) =>
        path.startsWith("/v1/batches") && dice.chance(method === "POST" ? 0.3 : 0.1) ? "lost" : undefined
      const { models, providers } = batchDocument(vendor)
      yield* configure(
        one,
        [...providers, provider("live", vendors.standIn, { credential: identity })],
        [...models, model("chat", ["live"])]
      )
      const { key, tenantId } = yield* spender(one, [{ limit: limitUsd }])
      yield* eventually(
        other.call("GET", "/api/llm/models", { key }),
        ({ text }) => text.includes(`"chat"`) && text.includes(`"mini"`)
      )
      const end = (yield* Clock.currentTimeMillis) + seconds * 1000
      const statuses = new Map<string, number>()
      const count = (what: string) => void statuses.set(what, (statuses.get(what) ?? 0) + 1)
      const until = <E, R>(step: (turn: number) => Effect.Effect<unknown, E, R>) =>
        Effect.gen(function* () {
          for (let turn = 0; (yield* Clock.currentTimeMillis) < end; turn++) yield* step(turn)
        })

      const chats = until((turn) =>
        Effect.map(
          (turn % 2 === 0 ? one : other).call("POST", "/v1/chat/completions", {
            key,
            body: {
              model: "chat",
              max_tokens: 30,
              messages: [{ role: "user", content: "What time is it?".repeat(10) }]
            }
          }),
          ({ status }) => count(`chat ${status}`)
        )
      )
      const batches = until((turn) =>
        Effect.promise(async () => {
          const client = openAiClient(turn % 2 === 0 ? one : other, key)
          const file = new File([linesOf(requests, { max_tokens: 20 })], "input.jsonl")
          try {
            const { id } = await client.files.create({ file, purpose: "batch" })
            const made = await client.batches.create({
              input_file_id: id,
              endpoint: "/v1/chat/completions",
              completion_window: "24h"
            })
            count("batch")
            if (dice.chance(0.3)) await client.batches.cancel(made.id)
          } catch (error) {
            count(`batch ${(error as { readonly status?: number }).status ?? String(error)}`)
          }
        })
      )
      const outcomeOf = () => dice.pick([{ usage }, { usage }, "errored", "canceled", "expired"] as const)
      const ended = new Set<string>()
      const endAll = Effect.sync(() => {
        for (const id of vendor.batches.keys()) {
          if (ended.has(id)) continue
          ended.add(id)
          vendor.end(id, dice.pick(["completed", "expired", "cancelled"]), outcomeOf)
        }
      })
      const vendorEnds = until(() => Effect.andThen(endAll, Effect.sleep("100 millis")))
      /** The vendor forgets all of its tokens now and then. */
      const forgets = until(() =>
        Effect.andThen(
          Effect.sleep("1500 millis"),
          Effect.sync(() => vendors.tokens.taken.clear())
        )
      )
      yield* Effect.all([chats, chats, chats, chats, batches, batches, vendorEnds, forgets], {
        concurrency: "unbounded",
        discard: true
      })
      vendor.interfere = () => undefined
      yield* endAll

      const sums = whenCharged(
        one,
        (sql) => sql<Sums>`
          SELECT (SELECT count(*)::integer FROM budget_reservations
              WHERE tenant_id = ${tenantId} AND state = 'open') AS open,
            c.reserved::text, c.spent::text,
            (SELECT sum(amount)::text FROM budget_entries WHERE tenant_id = ${tenantId} AND kind = 'charge') AS charged,
            (SELECT count(*)::integer FROM (SELECT charge_id FROM budget_reservations
              WHERE tenant_id = ${tenantId} AND charge_id IS NOT NULL
              GROUP BY charge_id HAVING count(*) > 1) twice) AS twice
          FROM budget_counters c WHERE c.tenant_id = ${tenantId}`
      )
      const [last] = yield* eventually(sums, ([row]) => row?.open === 0)
      const told = JSON.stringify([...statuses])
      assert.deepInclude(last, { open: 0, reserved: "0", twice: 0 }, told)
      assert.strictEqual(last?.spent, last?.charged, told)
      assert.isAtMost(Number(last?.spent), limitUsd * 1e9, told)
      assert.isAbove(statuses.get("chat 200") ?? 0, 10, told)
      assert.isAbove(statuses.get("batch") ?? 0, 0, told)
      // One at a time for each replica, and few after each time that all are forgotten.
      assert.isAtMost(vendors.tokens.issued, 2 * (seconds + 5), told)
      assert.isAbove(vendors.tokens.issued, 3, told)
      assert.deepStrictEqual(vendor.faults, [])
      yield* assertNoDrift(one.database)
    }).pipe(Effect.provideService(CredentialAddresses, addresses), Effect.scoped)
  )
})
