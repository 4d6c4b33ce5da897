import { assert, describe, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import {
  assertQuiet,
  Browser,
  consolePaths,
  executablePath,
  openConsole,
  settled,
  step,
  type Window
} from "../support/browser.ts"
import { sharedServiceLayer, TestService } from "../support/service.ts"

const axe = fs.readFileSync(path.resolve(import.meta.dirname, "../../node_modules/axe-core/axe.min.js"), "utf8")

interface Violation {
  readonly id: string
  readonly nodes: ReadonlyArray<{ readonly html: string }>
}

/** How a page is looked at. */
export type Look = readonly [width: number, colorScheme: "light" | "dark"]

/** The window in which the pages are opened, one after the other: a sign-in for each would take as long as they do. */
class SignedIn extends Context.Service<SignedIn, Window>()("test/console/SignedIn") {
  static readonly layer = Layer.effect(SignedIn, Effect.flatMap(TestService, openConsole)).pipe(
    Layer.provide(Layer.merge(sharedServiceLayer, Browser.layer))
  )
}

/** Opens a page and looks at it: it has no axe violation, does not overflow, and asks no other origin for anything. */
export const checkLooks = Effect.fnUntraced(function* (
  window: Window,
  at: string,
  looks: ReadonlyArray<Look>,
  open: Window["go"] = window.visit
) {
  const { page } = window
  window.complaints.length = 0
  for (const [index, [width, colorScheme]] of looks.entries()) {
    yield* step(() => page.setViewportSize({ width, height: 800 }))
    yield* step(() => page.emulateMedia({ colorScheme }))
    if (index > 0) yield* settled(page)
    else {
      yield* open(at)
      // The policy of the page keeps other scripts out, and the protocol's own way in is not bound by it.
      if (!(yield* step(() => page.evaluate(() => "axe" in globalThis)))) yield* step(() => page.evaluate(axe))
    }
    const found = yield* step(() => page.evaluate(violations))
    assert.deepStrictEqual(found, [], `${at} at ${width} px, ${colorScheme}`)
    const excess = yield* step(() => page.evaluate(excessOf))
    assert.isAtMost(excess, 0, `${at} is wider than ${width} px`)
  }
  assertQuiet(window)
})

/** Looks at what is shown now, such as a dialog: it has no axe violation, and the page does not overflow. */
export const checkShown = Effect.fnUntraced(function* (page: Window["page"], what: string) {
  if (!(yield* step(() => page.evaluate(() => "axe" in globalThis)))) yield* step(() => page.evaluate(axe))
  assert.deepStrictEqual(yield* step(() => page.evaluate(violations)), [], what)
  assert.isAtMost(yield* step(() => page.evaluate(excessOf)), 0, what)
})

/** Looks at every page that needs no id. */
export const checkPages = (looksAt: (place: number) => ReadonlyArray<Look>): void => {
  describe.skipIf(executablePath === undefined)("the pages of the console", () => {
    layer(SignedIn.layer, { excludeTestServices: true, timeout: "60 seconds" })((it) => {
      for (const [place, at] of consolePaths.entries()) {
        it.effect(`${at} has no axe violation and does not overflow`, () =>
          Effect.flatMap(SignedIn, (window) =>
            checkLooks(window, at, looksAt(place), window.page.url() === "about:blank" ? window.visit : window.go)
          )
        )
      }
    })
  })
}

const violations = async () => {
  const { axe } = globalThis as unknown as {
    readonly axe: { readonly run: () => Promise<{ readonly violations: ReadonlyArray<Violation> }> }
  }
  const { violations } = await axe.run()
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 200)).join(" | ")}`)
}

const excessOf = () => document.documentElement.scrollWidth - document.documentElement.clientWidth
