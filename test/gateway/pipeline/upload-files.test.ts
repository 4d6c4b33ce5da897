import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, Stream } from "effect"
import { type FormBytes } from "../../../src/gateway/formats/forms/form.ts"
import { UploadFiles } from "../../../src/gateway/pipeline/upload-files.ts"
import { type TenantId } from "../../../src/kernel/identifier.ts"
import { unreadableFile } from "../../../src/platform/runtime/temporary-file.ts"
import { Settings } from "../../../src/platform/settings/settings.ts"

const [one, other, third] = ["1", "2", "3"].map(
  (digit) => `00000000-0000-7000-8000-00000000000${digit}` as TenantId
) as [TenantId, TenantId, TenantId]

const filesWith = (environment: Record<string, string>) =>
  UploadFiles.layer.pipe(Layer.provide(Settings.layerMemory({ environment })))

const files = filesWith({ Llm__Gateway__MaxUploadBytes: "1024", Llm__Gateway__MaxUploadsBytes: "4096" })

const readAll = (chunks: FormBytes) => Effect.promise(async () => Buffer.concat(await Promise.all(chunks)))

describe("the files of requests", () => {
  it.effect(
    "have room that is shared by tenants, of which none takes more than half, and free again when a request ends",
    () =>
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

  it.effect("are in memory up to 64 KiB of a request, and are read from disk while it lasts", () =>
    Effect.gen(function* () {
      const { begin } = yield* UploadFiles
      const sizes = [40_000, 1, 30_000, 200_000, 25_000, 0]
      const sent = sizes.map((size, index) => Buffer.alloc(size, index + 1))
      const kept = yield* Effect.scoped(
        Effect.gen(function* () {
          const { keep } = yield* begin(one)
          const contents = yield* Effect.forEach(sent, (bytes) => {
            const pieces = [bytes.subarray(0, 10), bytes.subarray(10, 70_000), bytes.subarray(70_000)]
            return keep(Stream.fromIterable(pieces), () => {})
          })
          for (const [index, { chunks, length }] of contents.entries()) {
            assert.strictEqual(length, sizes[index])
            assert.isTrue((yield* readAll(chunks)).equals(sent[index] ?? Buffer.alloc(0)))
          }
          return contents
        })
      )
      assert.deepStrictEqual(
        kept.map(({ chunks }) => Array.isArray(chunks)),
        [true, true, false, false, true, true]
      )
      const [, , late] = kept
      const read = yield* Effect.flip(Effect.tryPromise(() => Promise.all(late?.chunks ?? [])))
      assert.deepInclude(read.cause, { code: unreadableFile })
    }).pipe(Effect.provide(filesWith({})))
  )

  it.effect("have a directory that is tried at the start", () =>
    Effect.gen(function* () {
      const logged: Array<string> = []
      const logger = Logger.layer([Logger.make(({ message }) => void logged.push(String(message)))])
      yield* Effect.provide(UploadFiles, Layer.provide(filesWith({}), logger))
      assert.lengthOf(logged, 0)
      yield* Effect.provide(
        UploadFiles,
        Layer.provide(filesWith({ Llm__Gateway__UploadDirectory: "/proc/missing" }), logger)
      )
      assert.lengthOf(logged, 1)
      assert.match(logged[0] ?? "", /Llm:Gateway:UploadDirectory .*ENOENT/)
    })
  )
})
