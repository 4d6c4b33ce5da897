import { assert, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { name } from "../../src/kernel/text.ts"

const Name = name(10)
const read = Schema.decodeUnknownEffect(Name)

it.effect("a name leaves no direction open for what is shown behind it", () =>
  Effect.gen(function* () {
    for (const control of "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069") {
      assert.strictEqual(yield* read(`Team ${control}cost`), "Team cost")
      assert.isFalse(Schema.is(Schema.toType(Name))(`a${control}`))
      assert.match((yield* Effect.flip(read(control))).message, /Expected/)
    }
    // Marks have no effect on what is behind them, and scripts need the joiners.
    for (const text of ["\u05d0\u200f!", "\u0645\u06cc\u200c\u062e", "e\u0301"]) {
      assert.strictEqual(yield* read(text), text.normalize("NFC"))
    }
  })
)
