import { Equal, Record, Schema } from "effect"
import { Model } from "effect/schema"

const ignored = Schema.optionalKey(Schema.Unknown).pipe(
  Schema.annotateKey({ description: "Ignored here", readOnly: true })
)

/** Members that only the server sets: a PATCH or PUT may send them back, and they are ignored. */
export const serverSet = <const Key extends string>(...keys: ReadonlyArray<Key>) =>
  Record.fromIterableWith(keys, (key) => [key, ignored]) as { readonly [K in Key]: typeof ignored }

/** A column that has a default where the request that creates its row does not name it. */
export const optionalAtCreation = <S extends Schema.Top>(schema: S) =>
  Model.Field({
    select: schema,
    insert: schema,
    update: schema,
    json: schema,
    jsonCreate: Schema.optionalKey(schema)
  })

/** The members of a patch that are present and may be changed. */
export const given = <Patch extends object, const Key extends keyof Patch>(
  patch: Patch,
  keys: ReadonlyArray<Key>
): Partial<Pick<Patch, Key>> => {
  const result: Partial<Pick<Patch, Key>> = {}
  for (const key of keys) if (patch[key] !== undefined) result[key] = patch[key]
  return result
}

/** A thing with the members of a patch that may be changed: the thing itself where none of them differs. */
export const patched = <A extends object, const Key extends keyof A>(
  before: A,
  patch: { readonly [K in Key]?: A[K] | undefined },
  keys: ReadonlyArray<Key>
): A => {
  const differs = keys.some((key) => patch[key] !== undefined && !Equal.equals(patch[key], before[key]))
  if (!differs) return before
  const changes = Object.fromEntries(keys.flatMap((key) => (patch[key] === undefined ? [] : [[key, patch[key]]])))
  return Object.assign(Object.create(Object.getPrototypeOf(before) as object) as A, before, changes)
}
