import { assert, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { makeWorkerProcess } from "../../../src/platform/runtime/worker-process.ts"
import type { Mood } from "../../support/moody-worker.ts"
import { eventually } from "../../support/waiting.ts"

const module = new URL("../../support/moody-worker.ts", import.meta.url)
const startFor = (seconds: number) => makeWorkerProcess<Mood, number>({ module, seconds, megabytes: 32 })
const start = (seconds: number) => Effect.map(startFor(seconds), (ask) => (mood: Mood) => ask("somebody", mood))

it.live("replies to one request after another, from one process", () =>
  Effect.gen(function* () {
    const ask = yield* start(60)
    const answers = yield* Effect.forEach(["answer", "answer", "answer"] as const, ask, { concurrency: "unbounded" })
    assert.deepStrictEqual(answers, [1, 2, 3])
  }).pipe(Effect.scoped)
)

for (const [mood, reason] of [
  ["loop", /^it took longer than 0\.25 s$/],
  ["throw", /^no mood for it$/],
  ["hoard", /^it took more memory than 32 MB$/],
  ["hoard at once", /^it took more memory than 32 MB$/]
] as const) {
  it.live(`a task that fails (${mood}) fails alone; the next one gets a new process`, () =>
    Effect.gen(function* () {
      const ask = yield* start(mood === "loop" ? 0.25 : 60)
      assert.strictEqual(yield* ask("answer"), 1)
      assert.match((yield* Effect.flip(ask(mood))).reason, reason)
      assert.strictEqual(yield* ask("answer"), 1)
    }).pipe(Effect.scoped)
  )
}

it.live("a process that ended while it had nothing to do is replaced", () =>
  Effect.gen(function* () {
    const ask = yield* start(60)
    const id = yield* ask("end later")
    yield* eventually(
      Effect.sync(() => isRunning(id)),
      (running) => !running
    )
    assert.strictEqual(yield* ask("answer"), 1)
  }).pipe(Effect.scoped)
)

const isRunning = (id: number): boolean => {
  try {
    return process.kill(id, 0)
  } catch {
    return false
  }
}

it.live("an interrupted request ends its process, and no other request gets its reply", () =>
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

it.live("requesters whose tasks went over the limit delay another by at most two tasks, however many they are", () =>
  Effect.gen(function* () {
    const ask = yield* startFor(0.25)
    const loops = (each: Effect.Effect<void>) =>
      Effect.forEach(
        ["a", "b", "c", "d", "e", "f"],
        (requester) => Effect.ensuring(Effect.exit(ask(requester, "loop")), each),
        { concurrency: "unbounded" }
      )
    yield* loops(Effect.void)
    let ended = 0
    const looping = yield* Effect.forkChild(loops(Effect.sync(() => (ended += 1))), { startImmediately: true })
    assert.strictEqual(yield* ask("another", "answer"), 1)
    assert.isAtMost(ended, 2)
    yield* Fiber.interrupt(looping)
  }).pipe(Effect.scoped)
)
