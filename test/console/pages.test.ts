import { assert, describe, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { gzipSync } from "node:zlib"
import { assertQuiet, Browser, executablePath, openConsole, settled, step } from "../support/browser.ts"
import { sharedServiceLayer, TestService } from "../support/service.ts"

const root = path.resolve(import.meta.dirname, "../..")
const axe = fs.readFileSync(path.join(root, "node_modules/axe-core/axe.min.js"), "utf8")
const declared = fs.readFileSync(path.join(root, "src/console/web/shell/routes.tsx"), "utf8")
/** The paths of the pages that need no id. */
const paths = Array.from(
  declared.matchAll(/route\(\s*(?:"[^"]*"|undefined),\s*"(\/[^":]*)",/g),
  ([, found]) => found ?? "/"
)

const widths = [1280, 360] as const
const themes = ["light", "dark"] as const

interface Violation {
  readonly id: string
  readonly nodes: ReadonlyArray<{ readonly html: string }>
}

describe.skipIf(executablePath === undefined)("the pages of the console", () => {
  layer(Layer.merge(sharedServiceLayer, Browser.layer), { excludeTestServices: true, timeout: "60 seconds" })((it) => {
    for (const at of paths) {
      it.effect(`${at} has no axe violation and does not overflow, light and dark, wide and narrow`, () =>
        Effect.gen(function* () {
          const window = yield* openConsole(yield* TestService)
          const { page } = window
          yield* window.visit(at)
          // The policy of the page keeps other scripts out, and the protocol's own way in is not bound by it.
          yield* step(() => page.evaluate(axe))
          for (const width of widths) {
            for (const colorScheme of themes) {
              yield* step(() => page.setViewportSize({ width, height: 800 }))
              yield* step(() => page.emulateMedia({ colorScheme }))
              yield* settled(page)
              const found = yield* step(() =>
                page.evaluate(async () => {
                  const { axe } = globalThis as unknown as {
                    readonly axe: { readonly run: () => Promise<{ readonly violations: ReadonlyArray<Violation> }> }
                  }
                  const { violations } = await axe.run()
                  return violations.map(
                    ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 200)).join(" | ")}`
                  )
                })
              )
              assert.deepStrictEqual(found, [], `${at} at ${width} px, ${colorScheme}`)
              const excess = yield* step(() =>
                page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
              )
              assert.isAtMost(excess, 0, `${at} is wider than ${width} px`)
            }
          }
          assertQuiet(window)
        }).pipe(Effect.scoped)
      )
    }

    it.effect("stay within their budgets: 215 KB at first, 60 KB a page, 20 KB of styles (gzip)", () =>
      Effect.sync(() => {
        const directory = path.join(root, "dist/console")
        const assets = fs.readdirSync(path.join(directory, "assets")).filter((file) => !file.endsWith(".gz"))
        const sizeOf = (file: string) => {
          const content = fs.readFileSync(path.join(directory, "assets", file))
          return file.endsWith(".woff2") ? content.length : gzipSync(content, { level: 9 }).length
        }
        const index = fs.readFileSync(path.join(directory, "index.html"), "utf8")
        const first = assets.filter((file) => index.includes(file) || file.endsWith(".woff2"))
        assert.isAtMost(
          first.reduce((sum, file) => sum + sizeOf(file), 0),
          215_000
        )
        for (const file of assets) {
          if (!first.includes(file)) assert.isAtMost(sizeOf(file), file.endsWith(".css") ? 20_000 : 60_000, file)
        }
      })
    )
  })
})
