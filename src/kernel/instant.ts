import { DateTime, Schema } from "effect"
import { Model } from "effect/schema"

const between = Schema.makeIsBetween({ order: DateTime.Order })({
  minimum: DateTime.makeUnsafe("1970-01-01T00:00:00Z"),
  maximum: DateTime.makeUnsafe("9999-12-31T23:59:59.999Z")
})

const withOffset = Schema.String.pipe(
  Schema.check(
    Schema.isPattern(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/i, {
      expected: "an RFC 3339 timestamp such as 2026-01-31T09:30:00.000Z, from 1970 to 9999"
    })
  )
)

/** A moment as RFC 3339 text on the wire (written in UTC with milliseconds), within what `timestamptz` holds. */
export const Instant = withOffset.pipe(
  Schema.decodeTo(Schema.DateTimeUtcFromString),
  Schema.annotateEncoded({ format: "date-time", examples: ["2026-01-31T09:30:00.000Z"] }),
  Schema.check(between)
)

/** The same moment as the database driver gives and takes it. */
export const InstantFromDate = Schema.DateTimeUtcFromDate.pipe(Schema.check(between))

/** A column that the server stamps at insert. */
export const CreatedAt = Model.Field({
  select: InstantFromDate,
  insert: Model.DateTimeFromDateWithNow,
  json: Instant
})

/** A column that the server stamps at every write. */
export const UpdatedAt = Model.Field({
  select: InstantFromDate,
  insert: Model.DateTimeFromDateWithNow,
  update: Model.DateTimeFromDateWithNow,
  json: Instant
})
