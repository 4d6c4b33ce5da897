import { type Json } from "../../../kernel/json/parsed-json.ts"

/** A text of a form (RFC 7578). */
export interface FormField {
  readonly name: string
  readonly value: string
}

/** Bytes that are in memory, or are read when they are asked for; from their beginning as often as they are. */
export type FormBytes = Iterable<Uint8Array | Promise<Uint8Array>>

export interface FileContent {
  readonly length: number
  readonly chunks: FormBytes
}

/** A file of a form, with the name and the media type that its sender gives it. */
export interface FormFile extends FileContent {
  readonly name: string
  readonly filename: string
  readonly contentType: string
}

export type FormPart = FormField | FormFile

/** A form as it was received, in the order of its parts. */
export interface GivenForm {
  /** What parts are separated by where the form is sent on; no sender chooses it. */
  readonly boundary: string
  readonly parts: ReadonlyArray<FormPart>
}

/** Finds out about a file while it arrives. */
export interface FileInspection {
  add(chunk: Uint8Array): void
  /** What the body says of the file, once it has arrived, besides its name, type, length and hash. */
  end(): Json
}

/** What a form of an API has, under the names that its lists have without `[]`. */
export interface FormShape {
  readonly files: ReadonlySet<string>
  /** Fields that are numbers, and that are `true` or `false`. */
  readonly numbers: ReadonlySet<string>
  readonly switches: ReadonlySet<string>
  inspect?(): FileInspection
}

/** What the body of a form has in the place of a file. */
export interface FileMember {
  readonly filename: string
  readonly contentType: string
  readonly bytes: number
  /** In hex. */
  readonly sha256: string
}

export const isFile = (part: FormPart): part is FormFile => "chunks" in part

const isFileMember = (value: unknown): value is FileMember =>
  typeof value === "object" && value !== null && "sha256" in value

/** The files of a member: one, or a list. */
export const filesIn = (body: Json, name: string): ReadonlyArray<FileMember> => [body[name]].flat().filter(isFileMember)

/** The media type of a form. */
export const formType = (boundary: string): string => `multipart/form-data; boundary=${boundary}`

/** A form as it is sent, whose bytes are read as often as it is sent. */
export class SentForm implements FormBytes {
  readonly contentType: string
  readonly length: number
  private readonly contents: ReadonlyArray<FileContent>

  constructor(boundary: string, contents: ReadonlyArray<FileContent>) {
    this.contentType = formType(boundary)
    this.length = contents.reduce((sum, { length }) => sum + length, 0)
    this.contents = contents
  }

  *[Symbol.iterator](): Generator<Uint8Array | Promise<Uint8Array>> {
    for (const { chunks } of this.contents) yield* chunks
  }
}

const utf8 = new TextEncoder()

const escapes: Readonly<Record<string, string>> = { '"': "%22", "\r": "%0D", "\n": "%0A" }

/** A name in a header of a part, as browsers write it (HTML, "multipart/form-data encoding algorithm"). */
const quoted = (name: string): string => `"${name.replaceAll(/["\r\n]/g, (character) => escapes[character] ?? "")}"`

/** What stands before the content of a part. */
export const partHead = (boundary: string, part: FormField | Omit<FormFile, keyof FileContent>): Uint8Array =>
  utf8.encode(
    "filename" in part
      ? `--${boundary}\r\nContent-Disposition: form-data; name=${quoted(part.name)}; filename=${quoted(part.filename)}\r\nContent-Type: ${part.contentType}\r\n\r\n`
      : `--${boundary}\r\nContent-Disposition: form-data; name=${quoted(part.name)}\r\n\r\n`
  )

/** What ends the content of a part. */
export const partEnd = utf8.encode("\r\n")

/** What ends a form. */
export const formEnd = (boundary: string): Uint8Array => utf8.encode(`--${boundary}--\r\n`)

/** A form with other fields: those of a name in `changes` have its value, or are left out where that is null. */
export const sentForm = (
  { boundary, parts }: GivenForm,
  changes: Readonly<Record<string, string | null>>
): SentForm => {
  const kept = parts.filter(({ name }) => !Object.hasOwn(changes, name))
  const added = Object.entries(changes).flatMap(([name, value]) => (value === null ? [] : [{ name, value }]))
  const contents: Array<FileContent> = []
  const add = (bytes: Uint8Array) => contents.push({ length: bytes.length, chunks: [bytes] })
  for (const part of [...added, ...kept]) {
    add(partHead(boundary, part))
    if (isFile(part)) contents.push(part)
    else add(utf8.encode(part.value))
    add(partEnd)
  }
  add(formEnd(boundary))
  return new SentForm(boundary, contents)
}
