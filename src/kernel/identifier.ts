import { Schema, SchemaGetter } from "effect"
import { Model } from "effect/schema"

/** A positive integer that PostgreSQL's `integer` holds; each feature brands its own. */
export const IntegerId = Schema.Int.pipe(
  Schema.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 }))
).annotate({ component: "IntegerId", examples: [42] })

/** A UUID in the form that it is written in: lower case. */
const CanonicalUuid = Schema.String.pipe(
  Schema.check(
    Schema.isPattern(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/u, { expected: "a UUID" })
  )
)

/**
 * A UUID, read in any case (RFC 9562 §4) and written in lower case; new ones are UUIDv7. Each feature brands it by what it names.
 * `Schema.toType` of it reads the written form alone, for what must be exact.
 */
export const Uuid = Schema.String.annotate({
  component: "Uuid",
  format: "uuid",
  examples: ["0198a5b0-7c00-7000-8000-00000000002a"]
}).pipe(
  Schema.decodeTo(CanonicalUuid, {
    decode: SchemaGetter.transform((id) => id.toLowerCase()),
    encode: SchemaGetter.passthrough()
  })
)

/** The UUID that a text is, as it is written; undefined for other text. */
export const uuidIn = (text: string): string | undefined => {
  const id = text.toLowerCase()
  return isCanonical(id) ? id : undefined
}
const isCanonical = Schema.is(CanonicalUuid)

/** A text that names things by their ids, such as `account:<id>`, with each UUID as it is written. */
export const withCanonicalUuids = (text: string): string =>
  text.replaceAll(/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gi, (id) => id.toLowerCase())

/** The UUID that names nothing, before all others. */
export const nilUuid = "00000000-0000-0000-0000-000000000000"

/** The tenant that a principal acts for; in the kernel because every tenant-scoped feature uses it. */
export const TenantId = Uuid.pipe(Schema.brand("TenantId"))
export type TenantId = typeof TenantId.Type

/** An id that the database assigns: never accepted from a caller. */
export const generatedId = <S extends Schema.Top>(schema: S) =>
  Model.Field({ select: schema, update: schema, json: schema })
