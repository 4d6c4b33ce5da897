import { Array, Effect, Option } from "effect"

/** Makes a slug from a name: every run of other characters becomes a hyphen; `fallback` when nothing is left. */
export const slugFrom = (name: string, fallback: string): string => {
  const slug = name
    .normalize("NFKD")
    .toLowerCase()
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
