import { assert, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as path from "node:path"
import { gatewayReference } from "./gateway-reference.ts"
import { mustsMarkdown } from "./musts.ts"
import { settingsMarkdown } from "../../src/platform/settings/settings.ts"

const readText = (file: string): string => fs.readFileSync(path.resolve(import.meta.dirname, file), "utf8")

const tableIn = (name: string): string =>
  new RegExp(`<!-- ${name} -->([\\s\\S]*)<!-- /${name} -->`).exec(readText("../../README.md"))?.[1] ?? ""

const cells = (text: string) =>
  text
    .trim()
    .split("\n")
    .map((line) => line.split("|").map((cell) => cell.trim().replace(/^-+$/, "-")))

it("README's table of settings is the one that the service reads", () => {
  assert.deepStrictEqual(cells(tableIn("settings")), cells(settingsMarkdown))
})

it("the table of what RFCs demand is the one that the tests make", () => {
  assert.deepStrictEqual(cells(readText("musts.md")), cells(mustsMarkdown))
})

it("README's reference of the gateway's configuration is the one that its schema makes", () => {
  assert.deepStrictEqual(cells(tableIn("gateway-configuration")), cells(gatewayReference))
})
