import { assert, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { type Worker } from "node:worker_threads"
import { makeThread } from "../../../src/platform/runtime/thread.ts"
import { type Mood } from "../../support/moody-thread.ts"

const module = new URL("../../support/moody-thread.ts", import.meta.url)
const startFor = (seconds: number) => makeThread<Mood, number>({ module, seconds, megabytes: 32 })
const start = (seconds: number) => Effect.map(startFor(seconds), (ask) => (mood: Mood) => ask("somebody", mood))

it.live("replies to one request after another, from one thread", () =>
  Effect.gen(function* () {
    const ask = yield* start(60)
    const answers = yield* Effect.forEach(["answer", "answer", "answer"] as const, ask, { concurrency: "unbounded" })
    assert.deepStrictEqual(answers, [1, 2, 3])
  }).pipe(Effect.scoped)
)

for (const [mood, reason] of [
  ["loop", /^it took longer than 0\.25 s$/],
  ["throw", /^no mood for it$/],
  ["hoard", /memory/]
] as const) {
  it.live(`a task that fails (${mood}) fails alone; the next one gets a new thread`, () =>
    Effect.gen(function* () {
      const ask = yield* start(mood === "loop" ? 0.25 : 60)
      assert.strictEqual(yield* ask("answer"), 1)
      assert.match((yield* Effect.flip(ask(mood))).reason, reason)
      assert.strictEqual(yield* ask("answer"), 1)
    }).pipe(Effect.scoped)
  )
}

it.live("a thread that ended while it had nothing to do is replaced", () =>
  Effect.gen(function* () {
    const ask = yield* start(60)
    const ended = new Promise((resolve) =>
      process.once("worker", (worker: Worker) => void worker.once("exit", resolve))
    )
    assert.strictEqual(yield* ask("end later"), 1)
    yield* Effect.promise(() => ended)
    assert.strictEqual(yield* ask("answer"), 1)
  }).pipe(Effect.scoped)
)

it.live("an interrupted request ends its thread, and no other request gets its reply", () =>
  Effect.gen(function* () {
    const ask = yield* start(60)
    const looping = yield* Effect.forkChild(ask("loop"), { startImmediately: true })
    const waiting = yield* Effect.forkChild(ask("answer"), { startImmediately: true })
    yield* Fiber.interrupt(looping)
    assert.strictEqual(yield* Fiber.join(waiting), 1)
  }).pipe(Effect.scoped)
)

it.live("many slow tasks of one requester delay another by at most two of them", () =>
  Effect.gen(function* () {
    const ask = yield* startFor(0.25)
    let ended = 0
    const loops = Array.from({ length: 20 }, () =>
      Effect.ensuring(
        Effect.exit(ask("somebody", "loop")),
        Effect.sync(() => (ended += 1))
      )
    )
    const looping = yield* Effect.forkChild(Effect.all(loops, { concurrency: "unbounded" }), { startImmediately: true })
    assert.strictEqual(yield* ask("another", "answer"), 1)
    assert.isAtMost(ended, 2)
    yield* Fiber.interrupt(looping)
  }).pipe(Effect.scoped)
)
