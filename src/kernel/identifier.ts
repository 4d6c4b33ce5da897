import { Schema } from "effect"
import { Model } from "effect/schema"

/** A positive integer that PostgreSQL's `integer` holds; each feature brands its own. */
export const IntegerId = Schema.Int.pipe(
  Schema.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 }))
).annotate({ component: "IntegerId", examples: [42] })

/** A UUID in its canonical lower-case form; new ones are UUIDv7. Each feature brands it by what it names. */
export const Uuid = Schema.String.pipe(
  Schema.check(
    Schema.isPattern(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/u, {
      expected: "a UUID in lower case"
    })
  )
).annotate({ component: "Uuid", format: "uuid", examples: ["0198a5b0-7c00-7000-8000-00000000002a"] })

export const isUuid = Schema.is(Uuid)

/** The UUID that names nothing, before all others. */
export const nilUuid = "00000000-0000-0000-0000-000000000000"

/** The tenant that a principal acts for; in the kernel because every tenant-scoped feature uses it. */
export const TenantId = Uuid.pipe(Schema.brand("TenantId"))
export type TenantId = typeof TenantId.Type

/** An id that the database assigns: never accepted from a caller. */
export const generatedId = <S extends Schema.Top>(schema: S) =>
  Model.Field({ select: schema, update: schema, json: schema })
