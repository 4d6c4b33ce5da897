import { DateTime, Effect, Option, Schema, SchemaGetter, SchemaIssue, SchemaTransformation } from "effect"
import { Model } from "effect/schema"

const minimum = DateTime.makeUnsafe("1970-01-01T00:00:00Z")
const maximum = DateTime.makeUnsafe("9999-12-31T23:59:59.999Z")
const between = Schema.makeIsBetween({ order: DateTime.Order })(
  { minimum, maximum },
  { expected: "a moment from 1970 to 9999" }
)

const rfc3339 =
  /^(\d{4}-\d{2}-\d{2})[Tt](?:[01]\d|2[0-3])(?::[0-5]\d){2}(?:\.\d{1,9})?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/

/** The moment of an RFC 3339 text with an offset; JavaScript alone would read 30 February as 2 March. */
const parse = (text: string): Option.Option<DateTime.Utc> => {
  const day = rfc3339.exec(text)?.[1]
  const isDay = Option.exists(DateTime.make(`${day}T00:00:00Z`), (start) => DateTime.formatIsoDateUtc(start) === day)
  return isDay ? Option.map(DateTime.make(text), DateTime.toUtc) : Option.none()
}

/** Caches what was computed for a few moments: those of one batch, and the ends of periods, recur in many responses. */
const cached = <A>(make: (epochMilliseconds: number) => A): ((epochMilliseconds: number) => A) => {
  const made: Array<{ readonly of: number; readonly value: A } | undefined> = Array.from({ length: 1024 })
  return (epochMilliseconds) => {
    // The upper bits of a product depend on all of the factor: starts of days differ in none of its lower ones.
    const place = Math.imul(epochMilliseconds, 0x9e3779b1) >>> 22
    let known = made[place]
    if (known?.of !== epochMilliseconds) {
      made[place] = known = { of: epochMilliseconds, value: make(epochMilliseconds) }
    }
    return known.value
  }
}

/** The moment of an epoch time in milliseconds. */
export const instantAt = cached((epochMilliseconds): DateTime.Utc => DateTime.makeUnsafe(epochMilliseconds))
const textAt = cached((epochMilliseconds) => DateTime.formatIso(instantAt(epochMilliseconds)))

/** A moment as RFC 3339 text on the wire (written in UTC with milliseconds), within the range of `timestamptz`. */
export const Instant = Schema.String.annotate({
  component: "Instant",
  format: "date-time",
  examples: ["2026-01-31T09:30:00.000Z"]
}).pipe(
  Schema.decodeTo(
    Schema.DateTimeUtc,
    SchemaTransformation.makeTransformation<DateTime.Utc, string>({
      decode: SchemaGetter.transformEffect((text, options) =>
        Option.match(parse(text), {
          onNone: () =>
            Effect.fail(
              new SchemaIssue.InvalidValue(
                { expected: "an RFC 3339 timestamp such as 2026-01-31T09:30:00.000Z, from 1970 to 9999" },
                text,
                options
              )
            ),
          onSome: Effect.succeed
        })
      ),
      encode: SchemaGetter.transform((moment) => textAt(moment.epochMilliseconds))
    })
  ),
  Schema.check(between)
)

/** The same moment as the `Date` of the database driver. */
export const InstantFromDate = Schema.DateTimeUtcFromDate.pipe(Schema.check(between))

const setAtInsert = { select: InstantFromDate, insert: Model.DateTimeFromDateWithNow }
const setAtWrite = { ...setAtInsert, update: Model.DateTimeFromDateWithNow }

/** A column that the server sets at insert. */
export const CreatedAt = Model.Field({ ...setAtInsert, json: Instant })
/** The same, where no response contains it. */
export const HiddenCreatedAt = Model.Field(setAtInsert)

/** A column that the server sets at every write. */
export const UpdatedAt = Model.Field({ ...setAtWrite, json: Instant })
/** The same, where no response contains it. */
export const HiddenUpdatedAt = Model.Field(setAtWrite)
