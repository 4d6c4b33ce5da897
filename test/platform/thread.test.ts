import { assert, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { makeThread } from "../../src/platform/thread.ts"
import { type Mood } from "../support/moody-thread.ts"

const module = new URL("../support/moody-thread.ts", import.meta.url)
const start = (seconds: number) => makeThread<Mood, number>({ module, seconds, megabytes: 32 })

it.live("answers one after the other, from one thread", () =>
  Effect.gen(function* () {
    const ask = yield* start(60)
    const answers = yield* Effect.forEach(["answer", "answer", "answer"] as const, ask, { concurrency: "unbounded" })
    assert.deepStrictEqual(answers, [1, 2, 3])
  }).pipe(Effect.scoped)
)

for (const [mood, reason] of [
  ["loop", /^it took longer than 1 seconds$/],
  ["throw", /^no mood for it$/],
  ["hoard", /memory/]
] as const) {
  it.live(`a piece of work that does not end well (${mood}) ends alone; the next one gets a new thread`, () =>
    Effect.gen(function* () {
      const ask = yield* start(mood === "loop" ? 1 : 60)
      assert.strictEqual(yield* ask("answer"), 1)
      assert.match((yield* Effect.flip(ask(mood))).reason, reason)
      assert.strictEqual(yield* ask("answer"), 1)
    }).pipe(Effect.scoped)
  )
}

it.live("whoever gives up takes the thread along, and gets nobody else's answer", () =>
  Effect.gen(function* () {
    const ask = yield* start(60)
    const looping = yield* Effect.forkChild(ask("loop"), { startImmediately: true })
    const waiting = yield* Effect.forkChild(ask("answer"), { startImmediately: true })
    yield* Fiber.interrupt(looping)
    assert.strictEqual(yield* Fiber.join(waiting), 1)
  }).pipe(Effect.scoped)
)
