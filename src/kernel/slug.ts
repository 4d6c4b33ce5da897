import { Array, Effect, Option } from "effect"
import { lookupTable } from "./lookup-table.ts"

/** Small letters of Latin that Unicode does not take apart into one of ASCII and marks. */
const plainLetters = lookupTable<string>({
  æ: "ae",
  œ: "oe",
  ß: "ss",
  þ: "th",
  ð: "d",
  đ: "d",
  ħ: "h",
  ı: "i",
  ł: "l",
  ŋ: "n",
  ø: "o",
  ŧ: "t"
})

/**
 * Makes a slug from a name: letters without their marks, and a hyphen for every run of other characters; `fallback` when nothing
 * is left.
 */
export const slugFrom = (name: string, fallback: string): string => {
  const slug = name
    .toLowerCase()
    .normalize("NFKD")
    .replace(/[\p{M}\u200c\u200d]+/gu, "")
    .replace(/[^\p{ASCII}]/gu, (letter) => plainLetters[letter] ?? letter)
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, 63)
    .replace(/^-+|-+$/g, "")
  return slug.length < 2 ? fallback : slug
}

/** Candidates for a generated slug, in the order of preference: itself, then with `-2` to `-100`. */
export const numbered = (slug: string): ReadonlyArray<string> =>
  Array.makeBy(100, (index) => (index === 0 ? slug : `${slug.slice(0, 59)}-${index + 1}`))

/** Inserts under the first free slug, or the next one when another request took it meanwhile; none when all are taken. */
export const underFreeSlug = Effect.fnUntraced(function* <Row>(
  slugs: ReadonlyArray<string>,
  statements: {
    readonly free: (slugs: ReadonlyArray<string>) => Effect.Effect<Option.Option<{ readonly slug: string }>>
    readonly insert: (slug: string) => Effect.Effect<Option.Option<Row>>
  }
) {
  for (let attempt = 0; attempt < slugs.length; attempt++) {
    const free = yield* statements.free(slugs)
    if (Option.isNone(free)) break
    const inserted = yield* statements.insert(free.value.slug)
    if (Option.isSome(inserted)) return inserted
  }
  return Option.none<Row>()
})
