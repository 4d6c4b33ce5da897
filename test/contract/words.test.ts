import { assert, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as path from "node:path"

const root = path.resolve(import.meta.dirname, "../..")

/** Words that are a sign of a missing noun, and what to write instead. */
const instead: ReadonlyArray<readonly [word: RegExp, instead: string]> = [
  [/\btold\b/i, "named, reported, logged, returned"],
  [/\banew\b/i, "again"],
  [/\bfor ever\b/i, "indefinitely, until …"],
  [/\bwhoever\b/i, "the caller, the holder, all who"],
  [/\b(?:nobody|somebody)\b/i, "no caller, another caller, a person"],
  [/\bas (?:it is|they are) now\b/i, "current"],
  [/\bdid cost\b/i, "cost"],
  [/\b(?:its|their) own words\b/i, "native format"]
]
/** Names of others. */
const allowed = [/user `?nobody`?|or `nobody`|"nobody"/]

const textsIn = (folder: string): ReadonlyArray<string> =>
  fs
    .readdirSync(path.join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((file) => /\.(?:tsx?|sql|md)$/.test(file))
    .map((file) => path.join(folder, file))

it("comments, messages and manuals are in plain words", () => {
  const files = [
    ...textsIn("src"),
    ...textsIn("migrations/functions"),
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    ...textsIn("deploy")
  ]
  const faults = files.flatMap((file) =>
    fs
      .readFileSync(path.join(root, file), "utf8")
      .split("\n")
      .flatMap((line, index) =>
        instead.flatMap(([word, better]) =>
          word.test(line) && !allowed.some((name) => name.test(line)) ? `${file}:${index + 1}: say ${better}` : []
        )
      )
  )
  assert.deepStrictEqual(faults, [])
})
