import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { type Locator } from "playwright-core"
import { step, type Window } from "./browser.ts"

/** What somebody does to get a job done, each click counted; what is asserted to be seen is in sight without scrolling. */
export interface Hand {
  readonly click: (target: Locator) => Effect.Effect<void>
  /** Types into a field, which takes a click unless it has the focus already. */
  readonly type: (field: Locator, text: string) => Effect.Effect<void>
  readonly choose: (field: Locator, option: string) => Effect.Effect<void>
  readonly press: (key: string) => Effect.Effect<void>
  readonly sees: (target: Locator) => Effect.Effect<void>
}

/** How many clicks a job may take. */
export interface Job {
  readonly name: string
  readonly clicks: number
}

const isInSight = (element: Element): boolean => {
  const { bottom, left, right, top } = element.getBoundingClientRect()
  return top >= 0 && left >= 0 && bottom <= window.innerHeight && right <= window.innerWidth
}

/** Does a job in a window, and fails where it took another number of clicks than it says. */
export const doJob = Effect.fnUntraced(function* <E, R>(
  { page }: Window,
  { clicks, name }: Job,
  work: (hand: Hand) => Effect.Effect<void, E, R>
) {
  const state = { clicks: 0 }
  const clicking = (act: () => Promise<unknown>) =>
    Effect.andThen(
      step(act),
      Effect.sync(() => void (state.clicks += 1))
    )
  yield* work({
    click: (target) => clicking(() => target.click()),
    type: (field, text) =>
      Effect.gen(function* () {
        const hasFocus = yield* step(() => field.evaluate((element) => element === document.activeElement))
        if (!hasFocus) yield* clicking(() => field.click())
        yield* step(() => page.keyboard.press("ControlOrMeta+A"))
        yield* step(() => page.keyboard.type(text))
      }),
    choose: (field, option) => clicking(() => field.selectOption(option)),
    press: (key) => step(() => page.keyboard.press(key)),
    sees: (target) =>
      step(async () => {
        await target.waitFor()
        assert.isTrue(await target.evaluate(isInSight), `${name}: out of sight: ${await target.textContent()}`)
      })
  })
  assert.strictEqual(state.clicks, clicks, name)
})
