import { Effect, Schema, SchemaIssue, SchemaTransformation } from "effect"

const nanosPerUsd = 1_000_000_000n
const largest = 8_388_607.999999999

/** Nano-dollars as a JSON number of dollars; exact, since below 2^23 a double carries nine decimals. */
const toNumber = (nanoUsd: bigint): number =>
  Number(`${nanoUsd / nanosPerUsd}.${String(nanoUsd % nanosPerUsd).padStart(9, "0")}`)

/** US dollars on the wire (a number above zero with at most nine decimals), nano-dollars (`bigint`) within. */
export const Usd = Schema.Finite.pipe(
  Schema.check(Schema.isBetween({ minimum: 0.000000001, maximum: largest })),
  Schema.annotate({ examples: [0.25] })
).pipe(
  Schema.decodeTo(
    Schema.BigInt,
    SchemaTransformation.transformEffect<bigint, number, never, never>({
      decode: (usd, options) => {
        const decimals = usd.toFixed(9)
        return Number(decimals) === usd
          ? Effect.succeed(BigInt(decimals.replace(".", "")))
          : Effect.fail(
              new SchemaIssue.InvalidValue({ expected: "US dollars with at most nine decimals" }, usd, options)
            )
      },
      encode: (nanoUsd) => Effect.succeed(toNumber(nanoUsd))
    })
  )
)
