import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect } from "effect"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { Api } from "../../src/api.ts"
import { openApiDocument } from "../../src/platform/openapi/openapi.ts"

const file = path.join(import.meta.dirname, "openapi.json")
const maxShown = 50

/** JSON whose outer objects have a line for each member. */
const inLines = (value: unknown, depth: number, indent = ""): string => {
  if (depth === 0 || typeof value !== "object" || value === null || Array.isArray(value)) return JSON.stringify(value)
  const within = `${indent}  `
  const members = Object.entries(value).map(
    ([name, member]) => `${within}${JSON.stringify(name)}: ${inLines(member, depth - 1, within)}`
  )
  return members.length === 0 ? "{}" : `{\n${members.join(",\n")}\n${indent}}`
}

/** The derived document, with an operation, and a schema, on a line each, so that a change is as many lines. */
const derived = Effect.sync(() => `${inLines(openApiDocument(Api, "http://127.0.0.1:11402"), 3)}\n`)

const committed = Effect.promise(() => fs.readFile(file, "utf8").catch(() => "{}"))

const escaped = (key: string): string => key.replaceAll("~", "~0").replaceAll("/", "~1")

const shown = (value: unknown): string => {
  const text = JSON.stringify(value)
  return text.length <= 100 ? text : `${text.slice(0, 100)}…`
}

/** The differences between two JSON values, one line with a JSON pointer (RFC 6901) for each. */
const differences = (before: unknown, after: unknown, pointer = ""): ReadonlyArray<string> => {
  if (before === undefined) return [`+ ${pointer} ${shown(after)}`]
  if (after === undefined) return [`- ${pointer} ${shown(before)}`]
  if (typeof before !== "object" || typeof after !== "object" || before === null || after === null) {
    return before === after ? [] : [`~ ${pointer} ${shown(before)} → ${shown(after)}`]
  }
  const keys = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...keys].flatMap((key) =>
    differences(Reflect.get(before, key), Reflect.get(after, key), `${pointer}/${escaped(key)}`)
  )
}

const print = (text: string) => Effect.sync(() => process.stdout.write(`${text}\n`))

const check = Effect.gen(function* () {
  const [before, after] = yield* Effect.all([committed, derived])
  if (before === after) return
  const lines = differences(JSON.parse(before), JSON.parse(after))
  yield* print("test/contract/openapi.json differs from the document that the API derives:")
  yield* print(lines.length === 0 ? "only in order or formatting" : lines.slice(0, maxShown).join("\n"))
  if (lines.length > maxShown) yield* print(`and ${lines.length - maxShown} more`)
  yield* print("If the change is meant: node test/contract/openapi.ts --write")
  process.exitCode = 1
})

const write = Effect.flatMap(derived, (text) => Effect.promise(() => fs.writeFile(file, text)))

const usage = Effect.andThen(
  print("node test/contract/openapi.ts --check | --write"),
  Effect.sync(() => {
    process.exitCode = 1
  })
)

const [mode] = process.argv.slice(2)
NodeRuntime.runMain(mode === "--check" ? check : mode === "--write" ? write : usage)
