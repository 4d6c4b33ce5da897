import { assert, describe, it, layer } from "@effect/vitest"
import { Clock, Effect, Option, Schema } from "effect"
import { type ReservationId } from "../../../src/budgets/ledger/domain.ts"
import { gatewaySnapshot } from "../../../src/gateway/configuration/gateway-snapshot.ts"
import { noUsage } from "../../../src/gateway/formats/domain.ts"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { type BudgetReservation } from "../../../src/gateway/metering/budget-reservations.ts"
import { type Estimate } from "../../../src/gateway/metering/estimates.ts"
import { type TokenCounts } from "../../../src/gateway/metering/token-counts.ts"
import { type HeldPhase, type Phase, UsageMeter } from "../../../src/gateway/metering/usage-meter.ts"
import { TenantId } from "../../../src/kernel/identifier.ts"
import { boundOf } from "../../support/formats.ts"
import { charges, configure, counters, model, provider, readAll, spender } from "../../support/gateway.ts"
import { runningLoopback } from "../../support/loopback.ts"
import { startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { openAiVendor } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"

const snapshot = gatewaySnapshot({}, 1, runningLoopback, [], [])
const served = snapshot.modelNamed("loopback-1") ?? assert.fail("no model")
const target = served.targets[0] ?? assert.fail("no target")
const body = { model: "loopback-1", messages: [{ role: "user", content: "Hi" }] }
const estimated: Estimate = {
  inputTokens: 10,
  outputTokens: 10,
  allOutputTokens: 10,
  limit: undefined,
  toolLimit: undefined,
  pinsService: false,
  isHardMoney: true,
  isHardTokens: false,
  amountNanoUsd: 100n,
  tokens: 20
}
const counts: TokenCounts["Service"] = { count: () => Effect.succeedNone, countFor: () => Effect.succeedNone }
const attempt = { provider: "loopback", model: "loopback-1", status: 200, durationMs: 1 }
const facts = { id: "1", model: "loopback-1", finishReasons: ["stop"] }
const usage = { ...noUsage, inputTokens: 3, outputTokens: 4 }

/** A meter, and how each reservation that it was given was closed. */
const makeMeter = (clock: Clock.Clock) => {
  const closed: Array<Array<"charged" | "released">> = []
  const meter = new UsageMeter(
    {
      format: openAiChat,
      asked: body.model,
      streams: false,
      body,
      tenantId: TenantId.make("0198a5b0-7c00-7000-8000-00000000002a"),
      model: served,
      catalogueVersion: "1",
      ratesOf: () => undefined,
      bound: boundOf(openAiChat, body, 100),
      timeoutSeconds: 600,
      metadata: undefined,
      traceId: undefined,
      conventions: "before"
    },
    clock,
    counts
  )
  let last: BudgetReservation | undefined
  const reservation = (): BudgetReservation => {
    const ends: Array<"charged" | "released"> = []
    closed.push(ends)
    const made: BudgetReservation = {
      id: `reservation ${closed.length}` as ReservationId,
      amountNanoUsd: 100n,
      tokens: 20,
      remainingNanoUsd: null,
      settle: () => void ends.push("charged"),
      release: () => void ends.push("released")
    }
    // What the meter refuses is not what it holds.
    if (meter.reservationId === undefined) last = made
    return made
  }
  return { meter, closed, reservation, held: () => last ?? assert.fail("nothing is reserved") }
}

const unheld: BudgetReservation = {
  id: "none" as ReservationId,
  amountNanoUsd: 0n,
  tokens: 0,
  remainingNanoUsd: null,
  settle: () => assert.fail("it is not held"),
  release: () => assert.fail("it is not held")
}

type Made = ReturnType<typeof makeMeter>

const steps = {
  reserved: ({ meter, reservation }: Made) => meter.reserved(reservation(), target, estimated),
  beginAttempt: ({ meter }: Made) => meter.beginAttempt(target),
  sent: ({ meter }: Made) => meter.sent(),
  answered: ({ meter }: Made) => meter.answered(attempt, undefined),
  attemptFailed: ({ meter }: Made) => meter.attemptFailed({ ...attempt, status: 500 }),
  describe: ({ meter }: Made) => meter.describe(facts),
  observe: ({ meter }: Made) => meter.observe(() => ({ usage, finished: false, textBytes: 4, texts: [] })),
  streams: ({ meter }: Made) => meter.streams(1, facts),
  settle: ({ meter }: Made) => void meter.settle(usage, "provider_usage", 200),
  chargeFullReservation: ({ meter }: Made) => void meter.chargeFullReservation(500),
  release: ({ meter }: Made) => meter.release(),
  withdraw: ({ meter }: Made) => meter.withdraw(),
  moved: ({ held, meter, ...made }: Made) => meter.moved(made.closed.length === 0 ? unheld : held(), target, estimated),
  abandon: ({ meter }: Made) => Effect.runSync(meter.abandon)
} as const

type Step = keyof typeof steps
const stepNames = Object.keys(steps) as ReadonlyArray<Step>

/** The steps that lead to each phase, and how what was reserved is closed there. */
const paths: Readonly<Record<Phase, ReadonlyArray<Step>>> = {
  unreserved: [],
  reserved: ["reserved"],
  sent: ["reserved", "beginAttempt", "sent"],
  answered: ["reserved", "beginAttempt", "sent", "answered"],
  streaming: ["reserved", "beginAttempt", "sent", "answered", "streams"],
  failed: ["reserved", "beginAttempt", "sent", "attemptFailed"],
  ended: ["reserved", "beginAttempt", "sent", "answered", "settle"]
}

const charged = { phase: "ended", end: "charged" } as const
const released = { phase: "ended", end: "released" } as const
type Outcome = { readonly phase: Phase; readonly end?: "charged" | "released" }

/** Every legal step of every phase; all others are defects. */
const legal: Readonly<Record<Phase, Readonly<Partial<Record<Step, Outcome>>>>> = {
  unreserved: {
    reserved: { phase: "reserved" },
    release: { phase: "unreserved" },
    withdraw: { phase: "unreserved" },
    abandon: { phase: "unreserved" }
  },
  reserved: {
    beginAttempt: { phase: "reserved" },
    sent: { phase: "sent" },
    attemptFailed: { phase: "reserved" },
    release: released,
    withdraw: { phase: "unreserved", end: "released" },
    moved: { phase: "reserved" },
    abandon: released
  },
  sent: {
    answered: { phase: "answered" },
    attemptFailed: { phase: "failed" },
    release: released,
    abandon: charged
  },
  answered: {
    describe: { phase: "answered" },
    observe: { phase: "answered" },
    streams: { phase: "streaming" },
    settle: charged,
    release: released,
    abandon: charged
  },
  streaming: {
    observe: { phase: "streaming" },
    settle: charged,
    release: released,
    abandon: charged
  },
  failed: {
    beginAttempt: { phase: "failed" },
    sent: { phase: "sent" },
    attemptFailed: { phase: "failed" },
    settle: charged,
    chargeFullReservation: charged,
    release: released,
    moved: { phase: "reserved" },
    abandon: released
  },
  ended: {
    reserved: { phase: "reserved" },
    release: { phase: "ended" },
    withdraw: { phase: "ended" },
    abandon: { phase: "ended" }
  }
}

/** What a step fails with; undefined where it is legal. */
const faultOf = (made: Made, step: Step): string | undefined => {
  try {
    steps[step](made)
    return undefined
  } catch (fault) {
    return fault instanceof Error ? fault.message : assert.fail(String(fault))
  }
}

/** The phase of a meter, which nothing else is done with. */
const phaseOf = (made: Made): Phase => {
  const fault = faultOf(made, "reserved")
  if (fault !== undefined) return /from (\w+) to reserved/.exec(fault)?.[1] as HeldPhase
  return made.closed.length === 1 ? "unreserved" : "ended"
}

const reach = (clock: Clock.Clock, phase: Phase): Made => {
  const made = makeMeter(clock)
  for (const step of paths[phase]) steps[step](made)
  return made
}

describe("the transitions of a call's budget", () => {
  for (const phase of Object.keys(paths) as ReadonlyArray<Phase>) {
    for (const step of stepNames) {
      const outcome = legal[phase][step]
      it.effect(`${phase}, ${step}: ${outcome === undefined ? "a defect" : outcome.phase}`, () =>
        Effect.gen(function* () {
          const clock = yield* Clock.Clock
          const made = reach(clock, phase)
          const before = made.closed.flat()
          const fault = faultOf(made, step)
          if (outcome === undefined) {
            assert.match(fault ?? "no defect", new RegExp(`^The budget of a call cannot go from ${phase} to \\w+`, "u"))
            assert.include(fault, `(${step})`)
            // A reservation that the meter does not take is given back.
            const extra = step === "reserved" ? ["released"] : []
            assert.deepStrictEqual(made.closed.flat(), [...before, ...extra])
            if (phase !== "unreserved" && phase !== "ended") assert.strictEqual(phaseOf(made), phase)
            return
          }
          assert.isUndefined(fault)
          assert.deepStrictEqual(made.closed.flat(), [...before, ...(outcome.end === undefined ? [] : [outcome.end])])
          if (outcome.phase === "unreserved" || outcome.phase === "ended") {
            assert.isUndefined(made.meter.reservationId)
            assert.strictEqual(made.meter.isFinished, outcome.phase === "ended")
          } else assert.strictEqual(phaseOf(made), outcome.phase)
        })
      )
    }
  }

  it.effect.prop(
    "in any order: each reservation is closed once and no more, whatever fails on the way",
    [Schema.Array(Schema.Literals(stepNames))],
    ([order]) =>
      Effect.gen(function* () {
        const made = makeMeter(yield* Clock.Clock)
        for (const step of order) {
          faultOf(made, step)
          const open = made.closed.filter((ends) => ends.length === 0)
          assert.strictEqual(open.length, made.meter.reservationId === undefined ? 0 : 1)
        }
        yield* made.meter.abandon
        for (const ends of made.closed) assert.lengthOf(ends, 1)
      })
  )

  it.effect.prop(
    "as calls make them: what was answered is charged, what was not sent is released, and a retry reserves again",
    [Schema.Array(Schema.Literals(["fails", "fails unsent", "costs", "answers", "streams", "leaves", "changes"]))],
    ([turns]) =>
      Effect.gen(function* () {
        const made = makeMeter(yield* Clock.Clock)
        const expected: Array<"charged" | "released"> = []
        const run = (...names: ReadonlyArray<Step>) => names.forEach((name) => steps[name](made))
        let isOver = false
        for (const turn of turns) {
          if (isOver) break
          if (made.meter.reservationId === undefined) run("reserved")
          if (turn === "changes") {
            // The first attempt has not begun, or another provider is next.
            run("release", "reserved")
            expected.push("released")
            continue
          }
          run("beginAttempt")
          if (turn === "fails unsent") run("attemptFailed")
          else run("sent")
          if (turn === "fails") run("attemptFailed")
          if (turn === "costs") {
            run("attemptFailed", "chargeFullReservation")
            expected.push("charged")
          }
          if (turn === "answers" || turn === "streams") {
            run("answered", ...(turn === "answers" ? ["describe" as const] : ["streams" as const, "observe" as const]))
            run("settle")
          }
          isOver = turn === "answers" || turn === "streams" || turn === "leaves"
          if (isOver) expected.push("charged")
        }
        if (made.meter.reservationId !== undefined && !isOver) expected.push("released")
        yield* made.meter.abandon
        run("release")
        assert.deepStrictEqual(made.closed.flat(), expected)
        for (const ends of made.closed) assert.lengthOf(ends, 1)
      })
  )

  it.effect("what ends on its own while a caller's text is counted is charged once", () =>
    Effect.gen(function* () {
      const made = reach(yield* Clock.Clock, "streaming")
      const { countFor } = counts
      const slow = reach(yield* Clock.Clock, "answered")
      Object.assign(counts, {
        countFor: () =>
          Effect.sync(() => {
            if (slow.meter.reservationId !== undefined) steps.settle(slow)
            return Option.none()
          })
      })
      yield* Effect.ensuring(
        slow.meter.abandon,
        Effect.sync(() => Object.assign(counts, { countFor }))
      )
      assert.deepStrictEqual(slow.closed, [["charged"]])
      yield* made.meter.abandon
      yield* made.meter.abandon
      assert.deepStrictEqual(made.closed, [["charged"]])
    })
  )
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "a call whose steps are wrong",
  (it) => {
    for (const [name, method, stream, status] of [
      ["while it is metered", "describe", false, 500],
      ["while it is streamed", "observe", true, 500],
      ["before it is sent", "beginAttempt", false, 500]
    ] as const) {
      it.effect(`${name}: fails, and its reservation is closed`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const standIn = yield* startProvider(openAiVendor)
          yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
          const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
          const call = { model: "gpt", max_tokens: 30, messages: body.messages, stream }
          const usual = UsageMeter.prototype[method]
          // What no step may be, wherever it is made.
          UsageMeter.prototype[method] = function (this: UsageMeter) {
            this.streams(this.now, facts)
            this.streams(this.now, facts)
          }
          const answer = yield* Effect.ensuring(
            readAll(service, key, "/v1/chat/completions", call),
            Effect.sync(() => Object.assign(UsageMeter.prototype, { [method]: usual }))
          )
          assert.strictEqual(answer.status, status, answer.text)
          const [counter] = yield* eventually(counters(service, tenantId), ([one]) => one?.reserved === "0")
          const [charge, ...others] = yield* charges(service, tenantId)
          assert.isEmpty(others)
          assert.strictEqual(charge?.state, method === "beginAttempt" ? "released" : "settled")
          assert.strictEqual(charge?.amount, counter?.spent)
          assert.strictEqual((yield* readAll(service, key, "/v1/chat/completions", call)).status, 200)
        }).pipe(Effect.scoped)
      )
    }
  }
)
