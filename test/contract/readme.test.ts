import { assert, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as path from "node:path"
import { mustsMarkdown } from "./musts.ts"
import { settingsMarkdown } from "../../src/platform/settings.ts"

const readme = fs.readFileSync(path.resolve(import.meta.dirname, "../../README.md"), "utf8")

const cells = (table: string) =>
  table
    .trim()
    .split("\n")
    .map((line) => line.split("|").map((cell) => cell.trim().replace(/^-+$/, "-")))

it("README's table of settings is the one that the service reads", () => {
  const shown = /<!-- settings -->([\s\S]*)<!-- \/settings -->/.exec(readme)?.[1] ?? ""
  assert.deepStrictEqual(cells(shown), cells(settingsMarkdown))
})

it("README's table of what RFCs demand is the one that the tests make", () => {
  const shown = /<!-- musts -->([\s\S]*)<!-- \/musts -->/.exec(readme)?.[1] ?? ""
  assert.deepStrictEqual(cells(shown), cells(mustsMarkdown))
})
