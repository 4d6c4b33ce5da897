import { Schema } from "effect"

/** Whether PostgreSQL can store a text and UTF-8 can encode it: no NUL, no lone surrogate. */
export const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes("\0")

const checkStorable = Schema.makeFilter(isStorable, { expected: "text without NUL and without lone surrogates" })

/** Text of any length that can be stored. */
export const storable = <S extends Schema.Codec<string, string>>(schema: S) => schema.pipe(Schema.check(checkStorable))

/** Storable text of `minimum` to `maximum` characters (Unicode code points). */
export const text = (minimum: number, maximum: number) =>
  Schema.String.pipe(Schema.check(checkStorable, Schema.isBetweenCodePoints(minimum, maximum)))

/** Like {@link text}, and not blank. */
export const name = (maximum: number) =>
  text(1, maximum).pipe(Schema.check(Schema.isPattern(/\S/u, { expected: "text that is not blank" })))

/** A lower-case short name for URLs: 2 to 63 of `[a-z0-9-]`, not starting or ending with a hyphen. */
export const Slug = Schema.String.pipe(
  Schema.check(Schema.isPattern(/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])$/u, { expected: "2 to 63 of a-z, 0-9 and -" }))
).annotate({ examples: ["billing-portal"] })

/** An address on the web: `http` or `https`, of at most 2,048 characters of ASCII. */
export const HttpUrl = Schema.String.pipe(
  Schema.check(
    Schema.makeFilter((url: string) => !/^https?:\/\/./.test(url) || URL.canParse(url), { expected: "a valid URL" }),
    Schema.isMaxLength(2048),
    Schema.isPattern(/^https?:\/\/[\x21-\x7e]+$/u, { expected: "an http or https URL" })
  )
).annotate({ component: "HttpUrl", format: "uri", examples: ["https://crm.example/hooks/events"] })
