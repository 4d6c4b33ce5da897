import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as path from "node:path"

const root = path.resolve(import.meta.dirname, "../../../src/budgets")
const sources = fs
  .readdirSync(root, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts"))
  .map((file) => [file, fs.readFileSync(path.join(root, file), "utf8")] as const)

/** Where a bigint may become a number: on its way to a statement that takes nano-dollars, to the wire, and to the audit log. */
const crossings: Readonly<Record<string, number>> = {
  "ledger/quantity-domain.ts": 1,
  // The revision of caps.
  "ledger/protocol-domain.ts": 1,
  // The amounts of a refund and of a transfer.
  "ledger/repository.ts": 2,
  // Amounts of requests.
  "plans/service.ts": 3,
  // A percentage and a moment.
  "caps/utilization.ts": 2
}

const amounts = /\b(?:amount|actual|limit|limitAmount|spent|reserved|held|grants|overrun|headroom)(?:Usd)?\b/

describe.each(sources)("src/budgets/%s", (file, source) => {
  it("turns amounts into numbers where it is known to, and nowhere else", () => {
    const found = source.split("\n").filter((line) => /\b(?:Number|parseFloat)\(/.test(line))
    assert.isAtMost(found.length, crossings[file] ?? 0, found.join("\n"))
  })

  it("does no arithmetic of numbers on amounts", () => {
    const written = source
      .split("\n")
      .filter((line) => amounts.test(line) && /\b\d+\.\d+\b|Math\.|\btoFixed\b/.test(line))
    assert.deepStrictEqual(
      written.filter((line) => !/^\s*(?:\/\/|\*|\/\*\*)/.test(line) && !line.includes("examples")),
      []
    )
  })
})
