import { assert, describe, it } from "@effect/vitest"
import { slugFrom } from "../../src/kernel/slug.ts"

describe("a slug", () => {
  for (const [name, slug] of [
    ["Ünïcode Ltd", "unicode-ltd"],
    ["résumé".normalize("NFD"), "resume"],
    ["Straße & Söhne GmbH", "strasse-sohne-gmbh"],
    ["İstanbul Ulaşım", "istanbul-ulasim"],
    ["Łódź", "lodz"],
    ["Ærø Ðorð", "aero-dord"],
    ["Nguyễn Văn Đức", "nguyen-van-duc"],
    ["ＡＢＣ ﬁnance ²", "abc-finance-2"],
    ["Q&A -- v2.0!", "q-a-v2-0"],
    ["日本", "fallback"],
    ["Ω", "fallback"],
    ["é", "fallback"],
    ["x".repeat(62) + "-y", "x".repeat(62)]
  ] as const) {
    it(`of ${name} is ${slug}`, () => assert.strictEqual(slugFrom(name, "fallback"), slug))
  }
})
