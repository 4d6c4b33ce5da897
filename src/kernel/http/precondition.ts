import { Schema } from "effect"
import { Problem } from "../problems/problem.ts"

const tag = String.raw`(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"`

/** The If-Match header of RFC 9110 §13.1.1: `*`, or entity tags with commas between them. */
export const IfMatch = Schema.String.pipe(
  Schema.check(
    // Empty elements of a list are ignored (RFC 9110 §5.6.1.2).
    Schema.isPattern(new RegExp(String.raw`^(?:\*|(?:[ \t]*,)*[ \t]*${tag}(?:[ \t]*,(?:[ \t]*${tag})?)*)$`, "u"), {
      expected: '* or entity tags such as "3"'
    })
  )
).annotate({
  description: "Makes the change only if this is the current ETag of the resource (RFC 9110 §13.1.1)",
  examples: ["*"]
})
export type IfMatch = typeof IfMatch.Type

/** The strong entity tag of a version. */
export const entityTag = (version: number): string => `"${version}"`

/**
 * The versions that satisfy a precondition; null is any. Tags are compared strongly, as RFC 9110 §8.8.3.2 requires for
 * If-Match: a weak one never matches.
 */
export const versionsIn = (ifMatch: IfMatch | undefined): ReadonlyArray<number> | null =>
  ifMatch === undefined || ifMatch === "*"
    ? null
    : [...ifMatch.matchAll(/(W\/)?"([^"]*)"/g)].flatMap(([, weak, text = ""]) =>
        weak === undefined && /^[1-9]\d{0,8}$/.test(text) ? [Number(text)] : []
      )

/** Whether a resource in this version (null: it has none) satisfies the precondition. */
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
      "The resource has another version than If-Match requires; `version` is the current one, null if it has none."
  },
  { version: Schema.NullOr(Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 })))) }
) {}
