import { Schema } from "effect"
import { Problem } from "./problem.ts"

const tag = String.raw`(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"`

/** The If-Match header of RFC 9110 §13.1.1: `*`, or entity tags with commas between them. */
export const IfMatch = Schema.String.pipe(
  Schema.check(
    // Empty elements of a list are read over (RFC 9110 §5.6.1.2).
    Schema.isPattern(new RegExp(String.raw`^(?:\*|(?:[ \t]*,)*[ \t]*${tag}(?:[ \t]*,(?:[ \t]*${tag})?)*)$`, "u"), {
      expected: '* or entity tags such as "3"'
    })
  )
).annotate({
  description: "Does the change only when this is the thing's ETag (RFC 9110 §13.1.1)",
  examples: ["*"]
})
export type IfMatch = typeof IfMatch.Type

/** The strong entity tag of a version. */
export const entityTag = (version: number): string => `"${version}"`

/**
 * The versions that a precondition lets through; null is any. Tags are compared strongly, as RFC 9110 §8.8.3.2 asks of
 * If-Match: a weak one never matches.
 */
export const versionsIn = (ifMatch: IfMatch | undefined): ReadonlyArray<number> | null =>
  ifMatch === undefined || ifMatch === "*"
    ? null
    : [...ifMatch.matchAll(/(W\/)?"([^"]*)"/g)].flatMap(([, weak, text = ""]) =>
        weak === undefined && /^[1-9]\d{0,8}$/.test(text) ? [Number(text)] : []
      )

/** Whether a thing in this version (null: it has none) meets the precondition. */
export const meets = (ifMatch: IfMatch | undefined, version: number | null): boolean => {
  const versions = versionsIn(ifMatch)
  return versions === null || (version !== null && versions.includes(version))
}

export class VersionMismatch extends Problem<VersionMismatch>()(
  "VersionMismatch",
  {
    slug: "version-mismatch",
    status: 412,
    meaning:
      "The thing is in another version than If-Match asks for; `version` is the current one, null if it has none."
  },
  { version: Schema.NullOr(Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 })))) }
) {}
