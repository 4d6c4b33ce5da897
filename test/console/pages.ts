import { assert, describe, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
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

/** Looks at the page that a window shows: it has no axe violation and does not overflow. */
export const checkLooks = ({ page }: Window, at: string, looks: ReadonlyArray<Look>) =>
  Effect.gen(function* () {
    // The policy of the page keeps other scripts out, and the protocol's own way in is not bound by it.
    yield* step(() => page.evaluate(axe))
    for (const [width, colorScheme] of looks) {
      yield* step(() => page.setViewportSize({ width, height: 800 }))
      yield* step(() => page.emulateMedia({ colorScheme }))
      yield* settled(page)
      const found = yield* step(() => page.evaluate(violations))
      assert.deepStrictEqual(found, [], `${at} at ${width} px, ${colorScheme}`)
      const excess = yield* step(() => page.evaluate(excessOf))
      assert.isAtMost(excess, 0, `${at} is wider than ${width} px`)
    }
  })

/** Looks at every page that needs no id: it has no axe violation, does not overflow, and asks no other origin for anything. */
export const checkPages = (looks: ReadonlyArray<Look>): void => {
  describe.skipIf(executablePath === undefined)("the pages of the console", () => {
    layer(Layer.merge(sharedServiceLayer, Browser.layer), { excludeTestServices: true, timeout: "60 seconds" })(
      (it) => {
        for (const at of consolePaths) {
          it.effect(`${at} has no axe violation and does not overflow`, () =>
            Effect.gen(function* () {
              const window = yield* openConsole(yield* TestService)
              yield* window.visit(at)
              yield* checkLooks(window, at, looks)
              assertQuiet(window)
            }).pipe(Effect.scoped)
          )
        }
      }
    )
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
