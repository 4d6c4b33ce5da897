import { assert, describe, it } from "vitest"
import { betasOf } from "../../../src/gateway/catalog/betas.ts"
import { builtInCatalogue, builtInDocument, catalogueOf } from "../../../src/gateway/catalog/catalogue.ts"

const read = (headers: Record<string, string>, { betaOf } = builtInCatalogue) => betasOf(headers, betaOf)

describe("the beta headers of a call", () => {
  it("pass byte for byte where all values change nothing", () => {
    const headers = {
      accept: "*/*",
      "anthropic-beta": "pdfs-2024-09-25 ,  effort-2025-11-24",
      "openai-beta": "responses=v1"
    }
    assert.deepStrictEqual(read(headers), { bounded: headers, contextTokens: undefined, unbounded: [] })
  })

  it("say how long requests may be", () => {
    const headers = { "anthropic-beta": "effort-2025-11-24,context-1m-2025-08-07" }
    assert.deepStrictEqual(read(headers), { bounded: headers, contextTokens: 1_000_000, unbounded: [] })
  })

  it("lose what costs more, what nobody knows, and what is spelled otherwise", () => {
    const headers = {
      "anthropic-beta": "fast-mode-2026-02-01,effort-2025-11-24,context-9m-2027-01-01, Context-1M-2025-08-07",
      "openai-beta": "responses_multi_agent=v1",
      accept: "*/*"
    }
    assert.deepStrictEqual(read(headers), {
      bounded: { "anthropic-beta": "effort-2025-11-24", accept: "*/*" },
      contextTokens: undefined,
      unbounded: ["fast-mode-2026-02-01", "context-9m-2027-01-01", "Context-1M-2025-08-07", "responses_multi_agent=v1"]
    })
  })

  it("are read by the vendor's own list, and by an operator's before the built-in one", () => {
    assert.deepStrictEqual(read({ "openai-beta": "effort-2025-11-24" }).unbounded, ["effort-2025-11-24"])
    const own = catalogueOf({
      source: "ours",
      asOf: "2026-11-26",
      models: [],
      betas: [
        { provider: "anthropic", beta: "context-9m-2027-01-01", changes: "context", contextTokens: 9_000_000 },
        { provider: "anthropic", beta: "context-8m-2027-01-01", changes: "context" },
        { provider: "anthropic", beta: "effort-2025-11-24", changes: "cost" }
      ]
    })
    const headers = {
      "anthropic-beta": "context-9m-2027-01-01,context-8m-2027-01-01,effort-2025-11-24,pdfs-2024-09-25"
    }
    assert.deepStrictEqual(read(headers, own), {
      bounded: { "anthropic-beta": "context-9m-2027-01-01,pdfs-2024-09-25" },
      contextTokens: 9_000_000,
      unbounded: ["context-8m-2027-01-01", "effort-2025-11-24"]
    })
  })

  it("are facts with a source and a date", () => {
    for (const { asOf, source } of builtInDocument.betas ?? assert.fail("none")) assert.isNotEmpty(`${source}${asOf}`)
  })
})
