import { Context, Effect, Layer, Option, Scope, Stream } from "effect"
import * as os from "node:os"
import { type TenantId } from "../../kernel/identifier.ts"
import { openTemporaryFile, type UnwritableFile } from "../../platform/runtime/temporary-file.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { type GatewayError, overloaded } from "../errors/gateway-error.ts"
import { type FileContent } from "../formats/forms/form.ts"

/** The files of one request, which are kept until it ends. */
export interface RequestFiles {
  /** Counts bytes that have arrived; returns the error of a request for which there is no room. */
  count(bytes: number): GatewayError | undefined
  /** Keeps a file as it arrives, one after another; `see` gets each of its chunks. */
  keep<E>(
    content: Stream.Stream<Uint8Array, E>,
    see: (chunk: Uint8Array) => void
  ): Effect.Effect<FileContent, E | GatewayError>
}

/** What the files of a request have in memory; more of them is in a temporary file. */
const memoryBytes = 65_536

const full = overloaded(
  "The service has no room for the files of this request now (Llm:Gateway:MaxUploadsBytes limits those of all requests).",
  2
)

const unwritable = ({ code }: UnwritableFile) =>
  overloaded(
    `The service cannot write the files of this request to the directory of Llm:Gateway:UploadDirectory (${code}).`,
    10
  )

/**
 * The files of requests on this replica. A provider gets them after the whole request is known, of which the model may come
 * last, and again where another one answers. No tenant takes more than half of the room for them.
 */
export class UploadFiles extends Context.Service<
  UploadFiles,
  { readonly begin: (tenantId: TenantId) => Effect.Effect<RequestFiles, never, Scope.Scope> }
>()("app/gateway/UploadFiles") {
  static readonly layer = Layer.effect(
    UploadFiles,
    Effect.gen(function* () {
      const { maxUploadBytes, maxUploadsBytes, uploadDirectory } = (yield* Settings).llm.gateway
      const directory = Option.getOrElse(uploadDirectory, os.tmpdir)
      const most = Math.max(maxUploadBytes, maxUploadsBytes)
      const mostOfTenant = Math.max(maxUploadBytes, Math.floor(maxUploadsBytes / 2))
      const byTenant = new Map<TenantId, number>()
      let taken = 0

      const take = (tenantId: TenantId, bytes: number) => {
        taken += bytes
        const ofTenant = (byTenant.get(tenantId) ?? 0) + bytes
        if (ofTenant === 0) byTenant.delete(tenantId)
        else byTenant.set(tenantId, ofTenant)
      }

      const failed = (error: UnwritableFile) =>
        Effect.andThen(
          Effect.logError(`Files of requests cannot be written to ${directory} (Llm:Gateway:UploadDirectory)`, error),
          Effect.fail(unwritable(error))
        )

      const begin = Effect.fnUntraced(function* (tenantId: TenantId) {
        let own = 0
        yield* Effect.addFinalizer(() =>
          Effect.sync(() => {
            take(tenantId, -own)
            own = 0
          })
        )
        const count = (bytes: number) => {
          if (taken + bytes > most || (byTenant.get(tenantId) ?? 0) + bytes > mostOfTenant) return full
          own += bytes
          take(tenantId, bytes)
          return undefined
        }
        const file = yield* Effect.cached(Scope.provide(openTemporaryFile(directory), yield* Effect.scope))
        let inMemory = 0
        let written = 0

        const write = (bytes: Uint8Array) =>
          Effect.flatMap(file, ({ append }) => append(bytes)).pipe(
            Effect.tap(() => Effect.sync(() => (written += bytes.length))),
            Effect.catch(failed)
          )

        const keep: RequestFiles["keep"] = Effect.fnUntraced(function* (content, see) {
          const start = written
          // Copied, since a chunk of a few bytes may be part of a large one.
          const block = Buffer.allocUnsafeSlow(memoryBytes)
          let filled = 0
          const flush = Effect.suspend(() => {
            const bytes = block.subarray(0, filled)
            filled = 0
            return bytes.length === 0 ? Effect.void : write(bytes)
          })
          yield* Stream.runForEach(content, (chunk) => {
            const error = count(chunk.length)
            if (error !== undefined) return Effect.fail(error)
            see(chunk)
            const added = Effect.suspend(() => {
              if (chunk.length > block.length) return write(chunk)
              block.set(chunk, filled)
              filled += chunk.length
              return Effect.void
            })
            return filled + chunk.length > block.length ? Effect.andThen(flush, added) : added
          })
          if (written === start && inMemory + filled <= memoryBytes) {
            inMemory += filled
            return { length: filled, chunks: [Buffer.from(block.subarray(0, filled))] }
          }
          yield* flush
          const length = written - start
          const { slice } = yield* Effect.catch(file, failed)
          return { length, chunks: slice(start, length) }
        })

        return { count, keep }
      })

      yield* Effect.scoped(openTemporaryFile(directory)).pipe(
        Effect.catch(({ message }) =>
          Effect.logWarning(
            `Requests with larger files will be refused: the directory of Llm:Gateway:UploadDirectory cannot be written to (${message})`
          )
        )
      )
      return UploadFiles.of({ begin })
    })
  )
}
