import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { rerank } from "../../../src/gateway/formats/rerank/format.ts"
import { boundOf, knownModel } from "../../support/formats.ts"
import { searchUnitsOf } from "../../support/rerank-vendor.ts"

const Length = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 9000 })))

describe("the bound of a reranking", () => {
  it.prop(
    "is at least what a vendor bills, however long the query and the documents are, cut or not",
    [Schema.NonEmptyArray(Length), Length, Schema.Boolean],
    ([lengths, queryLength, isCut]) => {
      const query = "q".repeat(queryLength)
      const limit = isCut ? { max_tokens_per_doc: queryLength } : {}
      // Many documents, so that there are several units.
      const documents = Array.from({ length: 40 }, () => lengths).flatMap((all) => all.map((one) => "d".repeat(one)))
      const body = { model: "m", query, documents, ...limit }
      const models = [knownModel("rerank-v3.5", "cohere")]
      const { inputTokens, units } = boundOf(rerank, body, undefined, { models })
      const cut = { max_tokens_per_doc: 4096, ...body }
      for (const bytesPerToken of [1, 4]) {
        const tokensOf = (text: string) => Math.ceil(text.length / bytesPerToken)
        assert.isAtLeast(units?.searchUnits ?? 0, searchUnitsOf(cut, tokensOf))
        // The whole query with each document is the most that is read.
        const read = documents.reduce((sum, document) => sum + tokensOf(document) + tokensOf(query), 0)
        assert.isAtLeast(inputTokens, read)
      }
      // A model that does not cut is held for all of each document.
      const whole = boundOf(rerank, body, undefined, { models: [knownModel("m")] }).units?.searchUnits ?? 0
      assert.isAtLeast(
        whole,
        searchUnitsOf({ ...body, max_tokens_per_doc: 1e9 }, (text) => text.length)
      )
    }
  )
})
