import { Api } from "../../src/api.ts"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect } from "effect"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { format } from "oxfmt"
import { openApiDocument } from "../../src/platform/openapi/openapi.ts"

const file = path.join(import.meta.dirname, "openapi.json")
const formatting = path.resolve(import.meta.dirname, "../../.oxfmtrc.json")
const maxShown = 50

/** The derived document, formatted like the project's JSON. */
const derived = Effect.promise(async () => {
  const document = JSON.stringify(openApiDocument(Api, "http://127.0.0.1:11402"), null, 2)
  return (await format(file, document, JSON.parse(await fs.readFile(formatting, "utf8")))).code
})

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
