import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { UploadFiles } from "../../../src/gateway/pipeline/upload-files.ts"
import { type TenantId } from "../../../src/kernel/identifier.ts"
import { Settings } from "../../../src/platform/settings/settings.ts"

const [one, other, third] = ["1", "2", "3"].map(
  (digit) => `00000000-0000-7000-8000-00000000000${digit}` as TenantId
) as [TenantId, TenantId, TenantId]

const files = UploadFiles.layer.pipe(
  Layer.provide(
    Settings.layerMemory({
      environment: { Llm__Gateway__MaxUploadBytes: "1024", Llm__Gateway__MaxUploadsBytes: "4096" }
    })
  )
)

describe("the files of requests", () => {
  it.effect("is shared by tenants, of which none takes more than half, and free again when a request ends", () =>
    Effect.gen(function* () {
      const { begin } = yield* UploadFiles
      yield* Effect.scoped(
        Effect.gen(function* () {
          const first = yield* begin(one)
          assert.isUndefined(first.count(1024))
          const second = yield* begin(one)
          assert.isUndefined(second.count(1024))
          // Half of all.
          assert.strictEqual(second.count(1)?.error.status, 503)
          const ofOther = yield* begin(other)
          assert.isUndefined(ofOther.count(2048))
          // All of it.
          assert.strictEqual((yield* begin(third)).count(1)?.error.status, 503)
        })
      )
      const later = yield* Effect.scoped(Effect.map(begin(one), (taken) => taken.count(2048)))
      assert.isUndefined(later)
      assert.isUndefined(yield* Effect.scoped(Effect.map(begin(third), (taken) => taken.count(2048))))
    }).pipe(Effect.provide(files))
  )
})
