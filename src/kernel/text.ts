import { Schema, SchemaGetter } from "effect"

/** Whether PostgreSQL can store a text and UTF-8 can encode it: no NUL, no lone surrogate. */
export const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes("\0")

const checkStorable = Schema.makeFilter(isStorable, { expected: "text without NUL and without lone surrogates" })

/** Text of any length that can be stored. */
export const storable = <S extends Schema.Codec<string, string>>(schema: S) => schema.pipe(Schema.check(checkStorable))

/** Storable text of `minimum` to `maximum` characters (Unicode code points). */
export const text = (minimum: number, maximum: number) =>
  Schema.String.pipe(Schema.check(checkStorable, Schema.isBetweenCodePoints(minimum, maximum)))

/** A character that is seen, in a regular expression: no blank, no control, none of no width. */
export const visible = String.raw`[^\s\p{Cc}\p{Default_Ignorable_Code_Point}\u2800\ufff9-\ufffb]`

const matching = (pattern: RegExp, expected: string) =>
  Schema.isPattern(pattern, { expected, toJsonSchema: () => ({ pattern: String.raw`\S` }) })

/** Like {@link text}, and not blank. */
export const legible = (maximum: number) =>
  text(1, maximum).pipe(Schema.check(matching(new RegExp(visible, "u"), "text that is not blank")))

/** Characters that set the direction of what follows, which a name may leave open: an amount behind it would be shown in reverse. */
const directional = String.raw`\u202a-\u202e\u2066-\u2069`
const everyDirectional = new RegExp(`[${directional}]`, "gu")

type Annotations = Parameters<Schema.String["annotate"]>[0]

/** Text of which several spellings are read as one; documents have the limits of that one. */
const spelled = <S extends Schema.Codec<string, string>>(
  schema: S,
  toOne: (typed: string) => string,
  annotations: Annotations
) => {
  const { type: _, ...limits } = Schema.toJsonSchemaDocument(schema).schema
  return Schema.String.pipe(Schema.check(Schema.makeFilter(() => true, { toJsonSchema: () => limits })))
    .annotate(annotations)
    .pipe(Schema.decodeTo(schema, { decode: SchemaGetter.transform(toOne), encode: SchemaGetter.passthrough() }))
}

/**
 * Text in the form NFC, in which it is compared, sorted and found, whatever keyboard or file system wrote it. What others define, such
 * as the `sub` of their tokens, stays as it is written.
 */
export const composed = <S extends Schema.Codec<string, string>>(schema: S, annotations: Annotations = {}) =>
  spelled(schema, (typed) => typed.normalize("NFC"), annotations)

/** As `Schema.annotateKey`, of a schema that reads several spellings as one, such as {@link composed}: of what it reads. */
export const described = <S extends Schema.Top>(schema: S, annotations: Schema.Annotations.Key<string>): S =>
  Schema.toEncoded(schema).pipe(Schema.annotateKey(annotations), Schema.decodeTo(schema)) as unknown as S

/** What people call a thing: {@link legible} and {@link composed}, and read without characters that set a direction. */
export const name = (maximum: number, annotations: Annotations = {}) =>
  spelled(
    text(1, maximum).pipe(
      Schema.check(matching(new RegExp(`^(?=[^]*${visible})[^${directional}]*$`, "u"), "text that is not blank"))
    ),
    (typed) => typed.replaceAll(everyDirectional, "").normalize("NFC"),
    annotations
  )

/** A lower-case short name for URLs: 2 to 63 of `[a-z0-9-]`, not starting or ending with a hyphen. */
export const Slug = Schema.String.pipe(
  Schema.check(Schema.isPattern(/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])$/u, { expected: "2 to 63 of a-z, 0-9 and -" }))
).annotate({ examples: ["billing-portal"] })

const AsciiUrl = Schema.String.pipe(
  Schema.check(
    Schema.makeFilter((url: string) => !/^https?:\/\/./.test(url) || URL.canParse(url), { expected: "a valid URL" }),
    Schema.isMaxLength(2048),
    Schema.isPattern(/^https?:\/\/[\x21-\x7e]+$/u, { expected: "an http or https URL" })
  )
)

/**
 * An address on the web: `http` or `https`, of at most 2,048 characters of ASCII; one with other letters is read as browsers read it
 * (UTS #46, RFC 3987 §3.1).
 */
export const HttpUrl = spelled(
  AsciiUrl,
  (typed) => (/[\u0080-\u{10ffff}]/u.test(typed) && URL.canParse(typed) ? new URL(typed).href : typed),
  { component: "HttpUrl", format: "uri", examples: ["https://crm.example/hooks/events"] }
)

/** A member with its meaning and, if it is optional, its default: the text of a reference of a configuration. */
export const member = <S extends Schema.Top>(schema: S, description: string) =>
  schema.pipe(Schema.annotateKey({ description }))
