import { ByteSize, Effect, type Scope, Stream } from "effect"
import { type HttpServerRequest, Multipart } from "effect/http"
import { createHash } from "node:crypto"
import { type Json } from "../../kernel/json/parsed-json.ts"
import { PayloadTooLarge, UnsupportedMediaType } from "../../kernel/problems/problems.ts"
import { randomBytes } from "../../platform/crypto/node-crypto.ts"
import { declaresMoreThan, encoded, isEncoded } from "../../platform/http/request-body.ts"
import { headersOf } from "../../platform/http/request.ts"
import { gatewayError, type GatewayError, invalidMember } from "../errors/gateway-error.ts"
import { type GivenBody } from "../formats/format.ts"
import { type FileInspection, type FileMember, type FormPart, type FormShape } from "../formats/forms/form.ts"
import { type RequestFiles } from "./upload-files.ts"

/** Above what any API takes: 16 images and a mask, with all other fields. */
const maxParts = 100
/** Of all fields, which are in memory. */
const maxFieldBytes = 1_048_576
const boundaryBytes = 24

const notPlain = gatewayError(new UnsupportedMediaType({ detail: encoded }))
const noForm = gatewayError(new UnsupportedMediaType({ detail: "This path takes files: send multipart/form-data." }))
const malformed = invalidMember(undefined, "The body is no form that can be read to its end.", "invalid_form")
const tooMany = invalidMember(undefined, `The form has more than ${maxParts} parts.`, "invalid_form")
const longFields = gatewayError(
  new PayloadTooLarge({ detail: `The fields of the form have more than ${maxFieldBytes} bytes, beside its files.` })
)

const tooLarge = (maxBytes: number) =>
  gatewayError(
    new PayloadTooLarge({
      detail: `The form has more than ${maxBytes} bytes, the most that Llm:Gateway:MaxUploadBytes lets in.`
    })
  )

/** Why a form is not taken. */
export type FormError = GatewayError | GatewayError<PayloadTooLarge> | GatewayError<UnsupportedMediaType>

const isForm = ({ "content-type": type = "" }: Readonly<Record<string, string | undefined>>): boolean =>
  /^multipart\/form-data\s*(?:;|$)/i.test(type)

const errorOf = ({ reason }: Multipart.MultipartError, maxBytes: number): FormError => {
  if (reason._tag === "TooManyParts") return tooMany
  if (reason._tag === "FieldTooLarge") return longFields
  return reason._tag === "BodyTooLarge" || reason._tag === "FileTooLarge" ? tooLarge(maxBytes) : malformed
}

/** The media type of a file, as far as it can be sent on. */
export const fileType = (contentType: string): string =>
  plainType.test(contentType) ? contentType : "application/octet-stream"
const plainType = /^[\w!#$&^.+-]{1,100}\/[\w!#$&^.+-]{1,100}$/

/** A file as it arrives, and what the body of the form says of it. */
const readFile = Effect.fnUntraced(function* (
  { content, contentType, key: name, name: filename }: Multipart.File,
  files: RequestFiles,
  inspection: FileInspection | undefined
) {
  const digest = createHash("sha256")
  const kept = yield* files.keep(content, (chunk) => {
    digest.update(chunk)
    inspection?.add(chunk)
  })
  const type = fileType(contentType)
  const member: FileMember = { filename, contentType: type, bytes: kept.length, sha256: digest.digest("hex") }
  return { file: { name, filename, contentType: type, ...kept }, member: { ...member, ...inspection?.end() } }
})

const number = /^-?\d{1,15}(?:\.\d{1,15})?$/

/** A text of a form as JSON has it. */
const valueOf = (name: string, text: string, { numbers, switches }: FormShape): unknown => {
  if (numbers.has(name) && number.test(text)) return Number(text)
  return switches.has(name) && (text === "true" || text === "false") ? text === "true" : text
}

/** The names of lists end so; all other names are there once. */
const listed = /\[\]$/

/** Gathers the members of a form. */
class Members {
  readonly body: Record<string, unknown> = Object.create(null) as Record<string, unknown>
  private readonly lists = new Map<string, Array<unknown>>()

  /** Returns the name if there is a member under it already. */
  add(given: string, value: unknown): string | undefined {
    const name = given.replace(listed, "")
    if (!listed.test(given)) {
      if (name in this.body) return name
      this.body[name] = value
      return undefined
    }
    const list = this.lists.get(name)
    if (list !== undefined) {
      list.push(value)
      return undefined
    }
    if (name in this.body) return name
    const begun = [value]
    this.lists.set(name, begun)
    this.body[name] = begun
    return undefined
  }
}

/**
 * A form of a request (RFC 7578). Its body has the fields as members, and what is known of a file in its place; the
 * `bytes` are those of this body, so that equal forms are equal whatever their boundary is.
 */
export const parseForm = Effect.fnUntraced(function* (
  request: HttpServerRequest.HttpServerRequest,
  shape: FormShape,
  maxBytes: number,
  begun: Effect.Effect<RequestFiles, never, Scope.Scope>
): Effect.fn.Return<GivenBody, FormError, Scope.Scope> {
  const headers = headersOf(request)
  if (isEncoded(headers)) return yield* notPlain
  if (!isForm(headers)) return yield* noForm
  if (declaresMoreThan(headers, maxBytes)) return yield* tooLarge(maxBytes)
  const files = yield* begun
  const parts: Array<FormPart> = []
  const members = new Members()
  let fieldBytes = 0
  const add = (name: string, value: unknown, part: FormPart) => {
    const repeated = members.add(name, value)
    if (repeated !== undefined) return Effect.fail(invalidMember(repeated, `${repeated}: The member is there twice`))
    parts.push(part)
    return Effect.void
  }
  const limits = Multipart.limitsServices({
    maxParts,
    maxFieldSize: ByteSize.bytes(maxFieldBytes),
    maxTotalSize: ByteSize.bytes(maxBytes),
    fieldMimeTypes: []
  })
  yield* Stream.runForEach(
    request.multipartStream,
    (part): Effect.Effect<void, FormError | Multipart.MultipartError> => {
      const { key } = part
      const name = key.replace(listed, "")
      if (Multipart.isField(part)) {
        const bytes = Buffer.byteLength(part.value)
        fieldBytes += bytes
        const refused = fieldBytes > maxFieldBytes ? longFields : files.count(bytes)
        return refused === undefined
          ? add(key, valueOf(name, part.value, shape), { name: key, value: part.value })
          : Effect.fail(refused)
      }
      if (!shape.files.has(name)) return Effect.fail(invalidMember(name, `${name}: Expected a text, and no file`))
      return Effect.flatMap(readFile(part, files, shape.inspect?.()), ({ file, member }) => add(key, member, file))
    }
  ).pipe(
    Effect.provideContext(limits),
    Effect.catchTag("MultipartError", (error) => Effect.fail(errorOf(error, maxBytes)))
  )
  const body: Json = { ...members.body }
  const boundary = `form-${Buffer.from(randomBytes(boundaryBytes)).toString("hex")}`
  return { body, bytes: new TextEncoder().encode(JSON.stringify(body)), form: { boundary, parts } }
})
