import { assert, describe, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { gzipSync } from "node:zlib"
import { Browser, executablePath } from "../support/browser.ts"
import { checkPages } from "./pages.ts"

// Every other page wide and light, the rest narrow and dark: `test/system/console-pages.test.ts` has every look of each.
checkPages((place) => [place % 2 === 0 ? [1280, "light"] : [360, "dark"]])

const directory = path.resolve(import.meta.dirname, "../../dist/console")

const sizeOf = (file: string): number => {
  const content = fs.readFileSync(path.join(directory, "assets", file))
  return file.endsWith(".woff2") ? content.length : gzipSync(content, { level: 9 }).length
}

describe.skipIf(executablePath === undefined)("the build of the console", () => {
  layer(Browser.layer, { excludeTestServices: true, timeout: "60 seconds" })((it) => {
    it.effect("stays within its budgets: 215 KB at first, 60 KB a page, 20 KB of styles (gzip)", () =>
      Effect.sync(() => {
        const assets = fs.readdirSync(path.join(directory, "assets")).filter((file) => !file.endsWith(".gz"))
        const index = fs.readFileSync(path.join(directory, "index.html"), "utf8")
        const first = assets.filter((file) => index.includes(file) || file.endsWith(".woff2"))
        const total = first.reduce((sum, file) => sum + sizeOf(file), 0)
        assert.isAtMost(total, 215_000)
        for (const file of assets) {
          if (file.endsWith(".css")) assert.isAtMost(sizeOf(file), 20_000, file)
          // The editor of a document with a schema is loaded when one is opened, by no page.
          else if (file.startsWith("document-editor-")) assert.isAtMost(sizeOf(file), 140_000, file)
          else if (!first.includes(file)) assert.isAtMost(sizeOf(file), 60_000, file)
        }
      })
    )
  })
})
