import { assert, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { Diffs } from "../../../src/applications/configuration/diffs/diffs.ts"
import { CurrentPrincipal, serviceAccount } from "../../../src/kernel/authority/principal.ts"

it.live("compares versions of few lines at once, and of many short ones in a process of its own", () =>
  Effect.gen(function* () {
    const diffs = yield* Diffs
    const compare = (lines: number) =>
      Effect.forkChild(
        diffs.unified({
          path: "/a",
          before: { version: 1, content: "a\n".repeat(lines) },
          after: { version: 2, content: "b\n".repeat(lines) }
        }),
        { startImmediately: true }
      )
    assert.isDefined((yield* compare(100)).pollUnsafe())
    const many = yield* compare(8000)
    assert.isUndefined(many.pollUnsafe())
    assert.lengthOf((yield* Fiber.join(many)).match(/^[-+][ab]$/gm) ?? [], 16_000)
  }).pipe(Effect.provideService(CurrentPrincipal, serviceAccount), Effect.provide(Diffs.layer), Effect.scoped)
)
