import { type Cause, Effect, Pull, type Scope, Stream } from "effect"
import { type HttpServerRequest, Multipart } from "effect/http"
import { PayloadTooLarge, UnsupportedMediaType } from "../../kernel/problems/problems.ts"
import { isStorable } from "../../kernel/text.ts"
import { declaresMoreThan, encoded, isEncoded } from "../../platform/http/request-body.ts"
import { headersOf } from "../../platform/http/request.ts"
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
  new PayloadTooLarge({
    detail:
      "The file is larger than the gateway takes: Llm:Gateway:MaxBatchBytes of the requests of a batch, and Llm:Gateway:MaxUploadBytes of others."
  })
)
const notPlain = gatewayError(new UnsupportedMediaType({ detail: encoded }))
const noForm = invalidMember(undefined, "The body cannot be read as a form: send it as multipart/form-data")

const faultOf = ({ reason: { _tag } }: Multipart.MultipartError): Failure =>
  _tag === "BodyTooLarge" || _tag === "FileTooLarge" ? tooLarge : noForm

/** A form of a request, read as it arrives up to its file. A form is refused that is larger than one with `maxBytes` of a file can be. */
export const readUpload = Effect.fnUntraced(function* (
  request: HttpServerRequest.HttpServerRequest,
  maxBytes: number
): Effect.fn.Return<Upload, Failure, Scope.Scope> {
  const headers = headersOf(request)
  const maxTotalSize = maxBytes + maxFields * maxFieldBytes
  if (isEncoded(headers)) return yield* notPlain
  if (declaresMoreThan(headers, maxTotalSize)) return yield* tooLarge
  const limits = Multipart.limitsServices({
    maxParts: maxFields,
    maxFieldSize: maxFieldBytes,
    // The size of a part may count what comes after it.
    maxFileSize: maxTotalSize,
    maxTotalSize,
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
  if (!isStorable(file.name)) return yield* invalidMember("file", "file: Expected a name without NUL")
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

/** The same bytes, up to as many as a file may have. */
export const atMost = (
  content: Stream.Stream<Uint8Array, Failure>,
  maxBytes: number
): Stream.Stream<Uint8Array, Failure> =>
  Stream.suspend(() => {
    let length = 0
    return Stream.mapEffect(content, (chunk) => {
      length += chunk.length
      return length > maxBytes ? Effect.fail(tooLarge) : Effect.succeed(chunk)
    })
  })

const faultUnlessDone = (error: Multipart.MultipartError | Cause.Done): Failure | Cause.Done =>
  Multipart.isMultipartError(error) ? faultOf(error) : error
