import { assert, describe, it } from "@effect/vitest"
import { entityTag, entityTagOf, mismatchOf } from "../../../src/kernel/http/precondition.ts"

describe("the problem of a precondition that does not hold", () => {
  it("names the version of a resource that has one, and no digits of a digest", () => {
    assert.strictEqual(mismatchOf(entityTag(3)).version, 3)
    assert.strictEqual(mismatchOf(entityTag("3-moved")).version, 3)
    for (const digest of ["7-wD_9L0HNepulocWqeDcx", "42", "42-D_"]) {
      assert.isNull(mismatchOf(entityTagOf(digest, undefined)).version)
      assert.isNull(mismatchOf(entityTagOf(digest, "VEYql44X")).version)
    }
    assert.isNull(mismatchOf(undefined).version)
  })
})
