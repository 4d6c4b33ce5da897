import { assert, describe, it } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import { type BatchVendor, startBatchVendor } from "../support/batch-vendor.ts"
import {
  batchDocument,
  configureBatches,
  linesOf,
  openAiClient,
  refusalOf,
  requestNanoUsd,
  submitLines,
  upload,
  usage
} from "../support/batches.ts"
import { makeDatabase } from "../support/database.ts"
import { isLinux, makeDirectory } from "../support/embedded-postgres.ts"
import { spender, usageRows } from "../support/gateway.ts"
import { type ServiceProcess, startProcess } from "../support/service-process.ts"
import { serviceKey, startService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { eventually } from "../support/waiting.ts"

const environment = { Llm__Gateway__BatchPollSeconds: "1" }

const requests = 3

interface Outcome {
  readonly state: string
  readonly spent: string
  readonly reserved: string
  readonly charges: number
}

/** The one batch, the counter of the one cap, and how often something was charged. */
const outcomeOf = ({ database }: Pick<ServiceProcess, "database">) =>
  Effect.map(
    asSuperuser(
      database,
      (sql) => sql<Outcome>`
        SELECT b.state, c.spent::text, c.reserved::text,
          (SELECT count(*)::integer FROM budget_entries WHERE kind = 'charge') AS charges
        FROM gateway_batches b, budget_counters c`
    ),
    ([row]) => row
  )

/** Has the batch be taken up at once. */
const due = ({ database }: Pick<ServiceProcess, "database">) =>
  asSuperuser(database, (sql) => sql`UPDATE gateway_batches SET due_at = now()`)

/** Statements that bring a batch to a state wait, so that the service can be killed before it is there. */
const stalling = ({ database }: Pick<ServiceProcess, "database">, state: string) =>
  asSuperuser(database, (sql) =>
    Effect.gen(function* () {
      yield* sql`CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN NEW; END'`
      yield* sql`
        CREATE TRIGGER stall BEFORE UPDATE ON gateway_batches FOR EACH ROW
        WHEN (NEW.state = ${sql.literal(`'${state}'`)}) EXECUTE FUNCTION stall()`
    })
  )

const isStalled = ({ database }: Pick<ServiceProcess, "database">) =>
  Effect.map(
    asSuperuser(
      database,
      (sql) => sql<{ readonly waits: boolean }>`
        SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep') AS waits`
    ),
    ([row]) => row?.waits === true
  )

const free = ({ database }: Pick<ServiceProcess, "database">) =>
  asSuperuser(database, (sql) => sql`DROP FUNCTION IF EXISTS stall CASCADE`)

/** Runs a service until it is killed, and then another one on its database. */
const killed = Effect.fnUntraced(function* <A>(
  first: (
    service: ServiceProcess,
    vendor: BatchVendor,
    client: ReturnType<typeof openAiClient>
  ) => Effect.Effect<unknown, never, Scope.Scope>,
  then: (service: ServiceProcess, vendor: BatchVendor) => Effect.Effect<A, never, Scope.Scope>
) {
  const directory = yield* makeDirectory()
  const vendor = yield* startBatchVendor("openai")
  yield* Effect.scoped(
    Effect.gen(function* () {
      const doomed = yield* startProcess(directory, environment)
      const body = batchDocument(vendor)
      assert.strictEqual((yield* doomed.call("PUT", "/api/llm/admin/config", { body })).status, 200)
      const cap = { name: "a cap", unit: "usd", limit: 1, period: "total" }
      assert.strictEqual((yield* doomed.call("POST", "/api/budgets/caps", { body: cap })).status, 201)
      yield* first(doomed, vendor, openAiClient(doomed, serviceKey))
      yield* doomed.signal("SIGKILL")
      assert.strictEqual(yield* doomed.ended, "SIGKILL")
    })
  )
  const next = yield* startProcess(directory, environment)
  yield* free(next)
  return yield* then(next, vendor)
})

const submission = "POST /v1/batches"

/** Submits a batch in the background, whose answer does not come. */
const submitting = (client: ReturnType<typeof openAiClient>) =>
  Effect.forkScoped(Effect.exit(submitLines(client, linesOf(requests))))

const untilAsked = (vendor: BatchVendor, request: string) =>
  eventually(
    Effect.sync(() => vendor.log.some((one) => one.startsWith(request))),
    (isAsked) => isAsked
  )

const whenOver = (service: ServiceProcess) =>
  eventually(outcomeOf(service), (outcome) => outcome?.state === "settled" || outcome?.state === "released")

const chargedOnce = { state: "settled", spent: String(requests * requestNanoUsd), reserved: "0", charges: 1 }

describe.runIf(isLinux)("kill -9 of the service while it is at work on a batch", () => {
  it.live(
    "between the hold and the submission: nothing was sent, and what was held is free again",
    () =>
      killed(
        (service, _, client) =>
          Effect.gen(function* () {
            yield* stalling(service, "submitting")
            yield* submitting(client)
            yield* eventually(isStalled(service), (waits) => waits)
            const outcome = yield* outcomeOf(service)
            assert.strictEqual(outcome?.state, "holding")
            assert.notStrictEqual(outcome?.reserved, "0")
          }),
        (service, vendor) =>
          Effect.gen(function* () {
            yield* due(service)
            const outcome = { state: "released", spent: "0", reserved: "0", charges: 0 }
            assert.deepStrictEqual(yield* whenOver(service), outcome)
            assert.strictEqual(vendor.batches.size, 0)
          })
      ).pipe(Effect.scoped),
    120_000
  )

  it.live(
    "between the submission and its answer: the provider has the batch, which is found again and charged once",
    () =>
      killed(
        (_, vendor, client) =>
          Effect.gen(function* () {
            vendor.interfere = ({ method, path }) => (`${method} ${path}` === submission ? "silent" : undefined)
            yield* submitting(client)
            yield* untilAsked(vendor, submission)
          }),
        (service, vendor) =>
          Effect.gen(function* () {
            vendor.interfere = () => undefined
            assert.strictEqual(vendor.batches.size, 1)
            vendor.end("batch_1x", "completed", () => ({ usage }))
            yield* due(service)
            assert.deepStrictEqual(yield* whenOver(service), chargedOnce)
          })
      ).pipe(Effect.scoped),
    120_000
  )

  it.live(
    "where the provider does not have the batch: what it may cost stays held, and is charged at the end of its time",
    () =>
      killed(
        (_, vendor, client) =>
          Effect.gen(function* () {
            vendor.interfere = ({ method, path }) => (`${method} ${path}` === submission ? "handled" : undefined)
            yield* submitting(client)
            yield* untilAsked(vendor, submission)
          }),
        (service, vendor) =>
          Effect.gen(function* () {
            vendor.interfere = () => undefined
            const asked = vendor.log.length
            yield* due(service)
            yield* eventually(
              Effect.sync(() => vendor.log.length),
              (count) => count > asked
            )
            const held = yield* outcomeOf(service)
            assert.deepInclude(held, { state: "submitting", spent: "0", charges: 0 })
            yield* asSuperuser(service.database, (sql) =>
              Effect.andThen(
                sql`UPDATE budget_reservations SET expires_at = now()`,
                sql`UPDATE gateway_batches SET held_until = now(), due_at = now()`
              )
            )
            const after = yield* eventually(
              outcomeOf(service),
              (one) => one?.reserved === "0" && one.state === "settled"
            )
            assert.deepStrictEqual(after, { state: "settled", spent: held?.reserved, reserved: "0", charges: 1 })
          })
      ).pipe(Effect.scoped),
    120_000
  )

  it.live(
    "between the end and the settlement, while its results are read: they are read again, and charged once",
    () =>
      killed(
        (service, vendor, client) =>
          Effect.gen(function* () {
            yield* submitLines(client, linesOf(requests))
            vendor.interfere = ({ path }, response) => {
              if (!path.endsWith("/content")) return undefined
              response.writeHead(200, { "content-type": "application/x-ndjson" }).write("{")
              return "handled"
            }
            vendor.end("batch_1x", "completed", () => ({ usage }))
            yield* due(service)
            yield* untilAsked(vendor, "GET /v1/files/")
          }),
        (service, vendor) =>
          Effect.gen(function* () {
            vendor.interfere = () => undefined
            yield* due(service)
            assert.deepStrictEqual(yield* whenOver(service), chargedOnce)
          })
      ).pipe(Effect.scoped),
    120_000
  )

  it.live(
    "between the settlement and its note: the charge is not made again",
    () =>
      killed(
        (service, vendor, client) =>
          Effect.gen(function* () {
            yield* submitLines(client, linesOf(requests))
            yield* stalling(service, "settled")
            vendor.end("batch_1x", "completed", () => ({ usage }))
            yield* due(service)
            yield* eventually(isStalled(service), (waits) => waits)
            assert.deepStrictEqual(yield* outcomeOf(service), { ...chargedOnce, state: "running" })
          }),
        (service) =>
          Effect.gen(function* () {
            yield* due(service)
            assert.deepStrictEqual(yield* whenOver(service), chargedOnce)
          })
      ).pipe(Effect.scoped),
    120_000
  )
})

it.live(
  "a batch of 10,000 requests is charged to the nano-dollar, or refused whole where a hard cap has room for half of it",
  () =>
    Effect.gen(function* () {
      const service = yield* startService(yield* makeDatabase, environment)
      const vendor = yield* startBatchVendor("openai")
      yield* configureBatches(service, vendor)
      const many = 10_000
      // The bound of a request: what it may read, by its bytes, and its limit.
      const { key, tenantId } = yield* spender(service, [{ limit: 60 }])
      const client = openAiClient(service, key)
      const content = linesOf(many)
      const batch = yield* submitLines(client, content)
      const held = yield* asSuperuser(
        service.database,
        (sql) => sql<{ readonly amount: string }>`
          SELECT amount::text FROM budget_reservations WHERE tenant_id = ${tenantId}`
      )
      const bound = Number(held[0]?.amount)
      assert.isAbove(bound, many * requestNanoUsd)
      assert.strictEqual(vendor.batches.get("batch_1x")?.requests.length, many)
      vendor.end("batch_1x", "completed", (_, index) => (index % 10 === 0 ? "errored" : { usage }))
      yield* Effect.promise(() => client.batches.retrieve(batch.id))
      const [row] = yield* eventually(usageRows(service, tenantId), ({ length }) => length > 0)
      assert.deepInclude(row, { cost: 9000 * requestNanoUsd, inputTokens: 900_000, outputTokens: 90_000 })
      assert.deepStrictEqual([row.metadata.requests, row.metadata.completed], ["10000", "9000"])

      const poor = yield* spender(service, [{ limit: Math.floor(bound / 2) / 1e9 }])
      const poorClient = openAiClient(service, poor.key)
      const file = yield* upload(poorClient, content)
      const refused = yield* refusalOf(() =>
        poorClient.batches.create({
          input_file_id: file.id,
          endpoint: "/v1/chat/completions",
          completion_window: "24h"
        })
      )
      assert.strictEqual(refused.status, 402)
      assert.strictEqual(vendor.batches.size, 1)
    }).pipe(Effect.scoped),
  180_000
)
