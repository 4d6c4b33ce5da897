import { Context, DateTime, Effect, Layer, Option, Schedule } from "effect"
import { SecureRandom } from "effect/crypto"
import { Audit } from "../../audit/log/service.ts"
import { ChargeId, ReservationId } from "../../budgets/ledger/domain.ts"
import { type BudgetSubject, type CloseItem, releaseOf } from "../../budgets/ledger/protocol-domain.ts"
import { Ledger } from "../../budgets/ledger/service.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { type Json } from "../../kernel/json/parsed-json.ts"
import { withSpan } from "../../kernel/with-span.ts"
import { Database } from "../../platform/database/database.ts"
import { databaseDeadline, withoutDeadline } from "../../platform/http/deadline.ts"
import { CurrentRequest } from "../../platform/http/request.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { type ConnectedProvider } from "../configuration/gateway-snapshot.ts"
import { GatewayConfiguration } from "../configuration/service.ts"
import {
  GatewayError,
  type GatewayProblem,
  invalidMember,
  notRetryable,
  overloaded,
  providerError,
  unreadableAnswer
} from "../errors/gateway-error.ts"
import { type BatchApi } from "../formats/batches/batches.ts"
import { Admission } from "../metering/admission.ts"
import { BudgetReservations, type CapConstraints, type HeldItem } from "../metering/budget-reservations.ts"
import { CallIdempotency, type ClaimedCall } from "../pipeline/call-idempotency.ts"
import { subjectAt } from "../pipeline/call-pipeline.ts"
import { type KeptRequest, type ProviderFailure } from "../providers/provider.ts"
import { type BatchCaller } from "./batch-input.ts"
import {
  batchActions,
  boundKinds,
  type BatchPart,
  type BatchState,
  type InputTerms,
  type StoredBatch
} from "./domain.ts"
import { type KeptPage } from "./files.ts"
import { jsonIn, type KeptThing, KeptThings, notKept, reachable } from "./kept-things.ts"
import { BatchesRepository } from "./repository.ts"
import { areSameRates } from "./stored-rates.ts"

type Failure = GatewayError<GatewayProblem>

/** What is to be submitted, with what it may cost. */
export interface Submission extends BatchCaller {
  readonly provider: ConnectedProvider
  readonly terms: InputTerms
  readonly places: Uint8Array | null
  /** The request as the caller sent it. */
  readonly bytes: Uint8Array
  /** The request, with the mark by which the batch is found again. */
  readonly body: (mark: string) => string | Uint8Array
}

/** A thing that was made, and headers of the response. */
export interface MadeThing {
  readonly answer: Json
  readonly headers?: Readonly<Record<string, string>>
}

/** The longest that a batch holds budget: its provider gives it a day. */
export const holdHours = 30
/** Longer than a submission takes, after which another replica takes the batch up. */
const submissionMinutes = 15

const storeLate = "The store of batches did not answer in time."

const changed = (what: string): Failure =>
  invalidMember("input_file_id", `${what} since the file was uploaded; upload it again`, "input_file_outdated")

/** Whether a provider has refused a request, so that it does nothing. */
const isRefused = ({ reason, received = 0, sent }: ProviderFailure): boolean =>
  reason === "status" ? received >= 400 && received < 500 : reason === "connection" && !sent

/** Why it is not known whether a provider has a batch: a caller that repeats the request may make a second one. */
const unknownOutcome = (failure: ProviderFailure, provider: string): Failure => {
  const known = providerError(failure, provider, notRetryable)
  const message = `${known.error.message} The batch may run all the same: it is in the list of batches once the provider reports it, and what it may cost is held until then.`
  return new GatewayError({ ...known, error: { ...known.error, message } })
}

const stricter = (model: string): Failure =>
  changed(`The caps on the model ${model}, or on the agent, plan or task type, have become stricter`)

/**
 * A step after a submission: a caller that was answered with its failure would submit the batch again. Where the database is away
 * for longer, the poller finds the batch by its mark.
 */
const noted = (step: Effect.Effect<unknown>): Effect.Effect<void> =>
  Effect.sandbox(step).pipe(
    Effect.retry({ schedule: Schedule.spaced("1 second"), times: 30 }),
    Effect.catch((cause) => Effect.logError("A batch was submitted, and that could not be stored", cause)),
    Effect.asVoid
  )

const noReservation = invalidMember("x-reservation-id", "x-reservation-id: A batch reserves its budget itself")

const isClosed: ReadonlySet<BatchState> = new Set(["settled", "released"])

const stillRuns = invalidMember(
  undefined,
  "The batch is still being processed: cancel it, and delete it once it has ended"
)
/** The time in which a replica takes a batch up that has ended. */
const chargedInSeconds = 5
const notCharged = overloaded(
  "The batch has ended, and its results are being read to charge it: delete it again in a few seconds.",
  chargedInSeconds
)

/** The closings that give back what a batch holds. */
export const releasesOf = ({
  createdBy,
  tenantId,
  terms
}: Pick<StoredBatch, "createdBy" | "tenantId" | "terms">): ReadonlyArray<CloseItem> =>
  terms.parts.map(({ reservationId: id }) => ({
    ...releaseOf({ id, origin: "gateway", principal: createdBy, tenantId }),
    call: undefined
  }))

/** Batches of requests: their budget is held before they are sent, and charged once they have ended. */
export class Batches extends Context.Service<Batches>()("app/gateway/Batches", {
  make: Effect.gen(function* () {
    const admission = yield* Admission
    const audit = yield* Audit
    const configuration = yield* GatewayConfiguration
    const database = yield* Database
    const idempotency = yield* CallIdempotency
    const ledger = yield* Ledger
    const repository = yield* BatchesRepository
    const reservations = yield* BudgetReservations
    const things = yield* KeptThings
    const newId = (yield* SecureRandom.SecureRandom).uuidV7()
    const inTime = yield* databaseDeadline(storeLate)
    const {
      api: { publicUrl },
      llm
    } = yield* Settings
    const { batchPollSeconds } = llm.gateway

    const shown = (
      api: BatchApi,
      { answer, createdBy, provider, tenantId }: Pick<StoredBatch, "answer" | "createdBy" | "provider" | "tenantId">
    ) =>
      api.shown(answer ?? {}, {
        id: things.sealer(tenantId, createdBy, provider),
        resultsUrl: (id) => `${publicUrl}${api.path}/${id}/results`
      })

    const move = Effect.fnUntraced(function* (
      { id, tenantId }: Pick<StoredBatch, "id" | "tenantId">,
      from: ReadonlyArray<BatchState>,
      state: BatchState,
      change: {
        readonly providerId?: string | undefined
        readonly answer?: Json | undefined
        readonly dueInSeconds?: number | undefined
        readonly failures?: number | undefined
      } = {}
    ) {
      const now = yield* DateTime.now
      return yield* database.transaction(
        tenantId,
        repository.move({
          tenantId,
          id,
          from,
          state,
          providerId: change.providerId ?? null,
          answer: change.answer ?? null,
          dueAt: DateTime.add(now, { seconds: change.dueInSeconds ?? batchPollSeconds }),
          failures: change.failures ?? 0,
          closedAt: isClosed.has(state) ? now : null
        })
      )
    })

    /** Fails where the prices or the caps have become others than those that the requests were bounded by. */
    const requireCurrent = Effect.fnUntraced(function* ({
      caller,
      provider,
      terms
    }: Submission): Effect.fn.Return<ReadonlyArray<readonly [BudgetSubject, CapConstraints]>, Failure> {
      const gateway = configuration.snapshot()
      const known: Array<readonly [BudgetSubject, CapConstraints]> = []
      for (const { kinds, model, rates, target } of terms.models) {
        const found = gateway
          .modelNamed(model)
          ?.targets.find((one) => one.provider.id === provider.id && one.model === target)
        if (found === undefined || !areSameRates(rates, found.rates)) {
          return yield* changed(`The model ${model} or its price has changed`)
        }
        const subject = subjectAt(caller.subject, { model: { id: model }, target: { provider } })
        const constraints = yield* inTime(reservations.constraintsOf(subject))
        const isTurn = caller.perTurnNanoUsd !== null
        if (boundKinds.some((kind) => (isTurn || constraints[kind] === true) && !kinds[kind])) {
          return yield* stricter(model)
        }
        known.push([subject, constraints])
      }
      return known
    })

    const release = (batch: Pick<StoredBatch, "createdBy" | "id" | "tenantId" | "terms">, from: BatchState) =>
      Effect.andThen(ledger.closeBatch(releasesOf(batch)), move(batch, [from], "released"))

    /** Each step is a transaction of its own; whichever is the last, the poller goes on from there. */
    const submitted = Effect.fnUntraced(function* (
      submission: Submission,
      batch: StoredBatch,
      held: ReadonlyArray<HeldItem>,
      known: ReadonlyArray<readonly [BudgetSubject, CapConstraints]>,
      claimed: ClaimedCall
    ) {
      const { api, caller, headers, provider } = submission
      yield* Effect.onError(
        inTime(
          Effect.andThen(
            admission.hold(held, caller.perTurnNanoUsd),
            // Copies of caps may be old; the ledger alone knows.
            Effect.forEach(
              known,
              ([subject, constraints]) =>
                Effect.flatMap(reservations.areCurrent(subject, constraints), (areCurrent) =>
                  areCurrent ? Effect.void : Effect.fail(stricter(String(subject.dimensions.model)))
                ),
              { discard: true }
            )
          )
        ),
        () => Effect.ignoreCause(release(batch, "holding"))
      )
      const request = yield* CurrentRequest
      if (request !== undefined) request.isCounted = true
      yield* Effect.onError(claimed.reserved(held[0]?.id), () => Effect.ignoreCause(release(batch, "holding")))
      if (!(yield* inTime(move(batch, ["holding"], "submitting", { dueInSeconds: submissionMinutes * 60 })))) {
        yield* ledger.closeBatch(releasesOf(batch))
        return yield* overloaded("The batch could not be submitted in time.", 2)
      }
      const sent = provider.provider.kept?.({
        method: "POST",
        path: api.path,
        headers: { ...headers, "content-type": "application/json" },
        body: submission.body(batch.id)
      })
      if (sent === undefined) return yield* unreadableAnswer(provider.id)
      const made = yield* Effect.result(withoutDeadline(Effect.scoped(sent)))
      if (made._tag === "Failure") {
        if (isRefused(made.failure)) {
          yield* inTime(release(batch, "submitting"))
          return yield* providerError(made.failure, provider.id)
        }
        yield* inTime(move(batch, ["submitting"], "submitting", { dueInSeconds: 1 }))
        return yield* unknownOutcome(made.failure, provider.id)
      }
      const answer = jsonIn(made.success)
      if (answer === undefined || typeof answer.id !== "string") {
        yield* inTime(move(batch, ["submitting"], "submitting", { dueInSeconds: 1 }))
        return yield* new GatewayError({ ...unreadableAnswer(provider.id), headers: notRetryable })
      }
      yield* noted(move(batch, ["submitting"], "running", { providerId: answer.id, answer }))
      const ids = batch.terms.parts.map(({ reservationId }) => reservationId)
      return { answer: shown(api, { ...batch, answer }), headers: { "x-reservation-id": ids.join(", ") } }
    })

    const submitOnce = Effect.fnUntraced(function* (submission: Submission, claimed: ClaimedCall) {
      const { api, caller, places, provider, terms } = submission
      const { subject } = caller
      if (caller.reservation !== undefined) return yield* noReservation
      const known = yield* requireCurrent(submission)
      const { name } = yield* CurrentPrincipal
      const request = yield* CurrentRequest
      const parts: Array<BatchPart> = []
      for (const { kinds: _, ...model } of terms.models) {
        const [reservationId, chargeId] = [ReservationId.make(yield* newId), ChargeId.make(yield* newId)]
        parts.push({ ...model, reservationId, chargeId })
      }
      const createdAt = yield* DateTime.now
      const batch: StoredBatch = {
        tenantId: subject.tenantId,
        id: yield* newId,
        createdBy: name,
        dialect: api.dialect,
        provider: provider.id,
        providerId: null,
        state: "holding",
        terms: { url: terms.url, catalogueVersion: terms.catalogueVersion, traceId: request?.traceId ?? null, parts },
        places,
        answer: null,
        createdAt,
        heldUntil: DateTime.add(createdAt, { hours: holdHours }),
        failures: 0
      }
      const held = parts.map((part): HeldItem => ({
        id: part.reservationId,
        subject: subjectAt(subject, { model: { id: part.model }, target: { provider } }),
        amountNanoUsd: part.amountNanoUsd,
        tokens: part.tokens,
        ttlSeconds: holdHours * 3600
      }))
      const dueAt = DateTime.add(createdAt, { minutes: submissionMinutes })
      // A caller that leaves has submitted it all the same.
      return yield* Effect.uninterruptible(
        Effect.andThen(
          inTime(database.transaction(batch.tenantId, repository.insert({ ...batch, answer: null, dueAt }))),
          submitted(submission, batch, held, known, claimed)
        )
      )
    })

    const submit = withSpan("Batches.submit", (submission: Submission) =>
      idempotency.once(submission, (claimed) => submitOnce(submission, claimed))
    )

    /** The batch that an id of the caller's names. */
    const find = Effect.fnUntraced(function* (tenantId: TenantId, api: BatchApi, id: string, param = "batch_id") {
      const thing = yield* things.open(tenantId, id, "batch", param)
      const at = { tenantId, createdBy: yield* reachable, provider: thing.provider.id, providerId: thing.id }
      const batch = yield* inTime(database.read(tenantId, repository.batch(at)))
      if (Option.isNone(batch) || batch.value.dialect !== api.dialect) return yield* notKept("batch", id, param)
      return { batch: batch.value, thing }
    })

    /** What the provider says of a batch; one that has ended is charged as soon as a replica takes it up. */
    const ask = Effect.fnUntraced(function* (
      batch: StoredBatch,
      { provider }: KeptThing,
      api: BatchApi,
      request: KeptRequest
    ) {
      const answer = yield* things.ask(provider, request)
      // A replica that has seen the end is at work on it.
      if (batch.answer === null || !api.isEnded(batch.answer)) {
        const dueInSeconds = api.isEnded(answer) ? 0 : batchPollSeconds
        const seen = api.isEnded(answer) ? undefined : answer
        yield* inTime(move(batch, ["running"], "running", { answer: seen, dueInSeconds, failures: batch.failures }))
      }
      return answer
    })

    const asked = (method: "GET" | "POST", below: (api: BatchApi) => string) =>
      Effect.fnUntraced(function* (tenantId: TenantId, api: BatchApi, id: string, headers: KeptRequest["headers"]) {
        const { batch, thing } = yield* find(tenantId, api, id)
        const path = `${api.path}/${encodeURIComponent(thing.id)}${below(api)}`
        return shown(api, { ...batch, answer: yield* ask(batch, thing, api, { method, path, headers }) })
      })

    return {
      submit,
      move,
      shown,
      retrieve: asked("GET", () => ""),
      cancel: asked("POST", ({ cancelPath }) => cancelPath),
      /** The results as the provider sends them. */
      results: Effect.fn("Batches.results")(function* (
        tenantId: TenantId,
        api: BatchApi,
        id: string,
        headers: KeptRequest["headers"]
      ) {
        const { thing } = yield* find(tenantId, api, id)
        return yield* things.send(thing.provider, {
          method: "GET",
          path: `${api.path}/${encodeURIComponent(thing.id)}/results`,
          headers,
          streams: true
        })
      }),
      /** Deletes a batch that has ended, here and at its provider. One that is not charged yet needs its results for that. */
      remove: Effect.fn("Batches.remove")(function* (
        tenantId: TenantId,
        api: BatchApi,
        id: string,
        headers: KeptRequest["headers"]
      ) {
        const { batch, thing } = yield* find(tenantId, api, id)
        const path = `${api.path}/${encodeURIComponent(thing.id)}`
        if (!isClosed.has(batch.state)) {
          const answer = yield* ask(batch, thing, api, { method: "GET", path, headers })
          return yield* api.isEnded(answer) ? notCharged : stillRuns
        }
        const gone = yield* Effect.result(things.ask(thing.provider, { method: "DELETE", path, headers }))
        if (gone._tag === "Failure" && gone.failure.error.status !== 404) return yield* gone.failure
        yield* inTime(
          audit.change(
            Effect.as(repository.remove(batch), {
              value: undefined,
              entries: [{ action: batchActions.GatewayBatchDeleted, entityId: id, tenantId }]
            })
          )
        )
        return gone._tag === "Success" ? { ...gone.success, id } : yield* notKept("batch", id, "batch_id")
      }),
      list: Effect.fn("Batches.list")(function* (tenantId: TenantId, api: BatchApi, page: KeptPage) {
        const after = page.after === undefined ? null : (yield* find(tenantId, api, page.after, "after")).batch.id
        const batches = yield* inTime(
          database.read(
            tenantId,
            repository.batches({
              tenantId,
              createdBy: yield* reachable,
              dialect: api.dialect,
              after,
              isUp: page.isUp,
              limit: page.limit + 1
            })
          )
        )
        const items = batches.slice(0, page.limit).map((batch) => shown(api, batch))
        return { items, hasMore: batches.length > page.limit }
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
