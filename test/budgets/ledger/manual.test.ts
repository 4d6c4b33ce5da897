import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as path from "node:path"
import { manuals, root } from "../../contract/manuals.ts"

/** The files of tests that cite each invariant of the ledger, by its id. */
const citations = () => {
  const cited = new Map<string, Set<string>>()
  for (const file of fs.globSync("test/**/*.ts", { cwd: root })) {
    const text = fs.readFileSync(path.join(root, file), "utf8")
    for (const [, ids = ""] of text.matchAll(/\/\/ Invariants? (L\d+(?:, L\d+)*)/g)) {
      for (const id of ids.split(", ")) cited.set(id, (cited.get(id) ?? new Set()).add(file.replaceAll(path.sep, "/")))
    }
  }
  return cited
}

describe("the manual's invariants of the ledger", () => {
  const text = manuals.find(({ file }) => file === "src/budgets/README.md")?.text ?? ""
  const rows = Array.from(text.matchAll(/^\| (L\d+) +\| (.+?) +\| (.+?) +\|$/gm), ([, id = "", , proof = ""]) => ({
    id,
    files: proof === "unproven" ? [] : Array.from(proof.matchAll(/`([^`]+)`/g), ([, file = ""]) => file)
  }))

  it("are counted without a gap", () => {
    assert.isNotEmpty(rows)
    assert.deepStrictEqual(
      rows.map(({ id }) => id),
      rows.map((_, index) => `L${index + 1}`)
    )
  })

  it("are cited by the tests that it names, and by no others; what no test cites is unproven", () => {
    const cited = citations()
    assert.sameMembers(
      [...cited.keys()].filter((id) => !rows.some((row) => row.id === id)),
      []
    )
    for (const { files, id } of rows) assert.sameMembers([...(cited.get(id) ?? [])], files, id)
  })
})
