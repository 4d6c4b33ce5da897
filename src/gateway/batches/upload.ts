import { type Cause, Effect, Pull, type Scope, Stream } from "effect"
import { type HttpServerRequest, Multipart } from "effect/http"
import { PayloadTooLarge } from "../../kernel/problems/problems.ts"
import { gatewayError, type GatewayError, type GatewayProblem, invalidMember } from "../errors/gateway-error.ts"
import { fileType } from "../pipeline/form-request.ts"

type Failure = GatewayError<GatewayProblem>

/** A form with one file, of which the fields before the file are known when it begins, and the others when it has ended. */
export interface Upload {
  readonly fields: ReadonlyMap<string, string>
  readonly filename: string
  readonly contentType: string
  /** At its end, what comes after the file has been read. */
  readonly content: Stream.Stream<Uint8Array, Failure>
}

const maxFields = 32
const maxFieldBytes = 65_536

const tooLarge = gatewayError(
  new PayloadTooLarge({ detail: "The file is larger than the gateway takes (Llm:Gateway:MaxBatchBytes)." })
)
const noForm = invalidMember(undefined, "The body cannot be read as a form: send it as multipart/form-data")

const faultOf = ({ reason: { _tag } }: Multipart.MultipartError): Failure =>
  _tag === "BodyTooLarge" || _tag === "FileTooLarge" ? tooLarge : noForm

/** A form of a request, read as it arrives up to its file; `maxBytes` bounds the file. */
export const readUpload = Effect.fnUntraced(function* (
  request: HttpServerRequest.HttpServerRequest,
  maxBytes: number
): Effect.fn.Return<Upload, Failure, Scope.Scope> {
  const limits = Multipart.limitsServices({
    maxParts: maxFields,
    maxFieldSize: maxFieldBytes,
    maxFileSize: maxBytes,
    maxTotalSize: maxBytes + maxFields * maxFieldBytes,
    // A file of JSON is a file.
    fieldMimeTypes: []
  })
  const parts = yield* Effect.provideContext(Stream.toPull(request.multipartStream), limits)
  const fields = new Map<string, string>()
  const files: Array<Multipart.File> = []

  /** Reads parts until there is a file or none is left. */
  const read: Effect.Effect<void, Failure | Cause.Done> = Effect.suspend(() =>
    Effect.flatMap(Effect.mapError(parts, faultUnlessDone), (some) => {
      for (const part of some) {
        if (part._tag === "Field") fields.set(part.key, part.value)
        else files.push(part)
      }
      return files.length > 0 ? Effect.void : read
    })
  )
  yield* Pull.catchDone(read, () => Effect.void)
  const file = files.shift()
  if (file?.key !== "file") return yield* invalidMember("file", "file: Expected a file")
  const rest = Effect.gen(function* () {
    yield* Pull.catchDone(read, () => Effect.void)
    if (files.length > 0) return yield* invalidMember("file", "file: Expected one file")
  })
  return {
    fields,
    filename: file.name,
    contentType: fileType(file.contentType),
    // A form that is too large, or breaks off, ends its file before it fails.
    content: Stream.concat(Stream.mapError(file.content, faultOf), Stream.fromEffectDrain(rest))
  }
})

const faultUnlessDone = (error: Multipart.MultipartError | Cause.Done): Failure | Cause.Done =>
  Multipart.isMultipartError(error) ? faultOf(error) : error
