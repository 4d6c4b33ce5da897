import { type Cause, Effect, Exit, Predicate } from "effect"
import { SqlError } from "effect/sql"

/** The SQLSTATE with which the database refused a statement; none where it did not, or did not answer. */
const stateOf = (cause: Cause.Cause<unknown>): string | undefined => {
  for (const reason of cause.reasons) {
    const error = reason._tag === "Die" ? reason.defect : undefined
    if (!SqlError.isSqlError(error)) continue
    const { cause: origin } = error.reason
    if (Predicate.hasProperty(origin, "code") && typeof origin.code === "string") return origin.code
  }
  return undefined
}

/** What values do to a statement: data, constraints and limits of the program. It was rolled back, so it may run again. */
const classes = new Set(["22", "23", "54", "P0"])

/** Whether a statement failed by what it was asked, and not by a database that is away, busy or stopped. */
const isOfStatement = (cause: Cause.Cause<unknown>): boolean => classes.has(stateOf(cause)?.slice(0, 2) ?? "")

/** Whether a number became larger than the database holds. */
export const isOverflow = (cause: Cause.Cause<unknown>): boolean => stateOf(cause) === "22003"

/**
 * Runs a statement for many items. Where it fails by what it was asked it is run again for each half of them, so that what
 * one item broke fails that item alone.
 */
export const bisectOnFailure = <Item, Result>(
  run: (items: ReadonlyArray<Item>) => Effect.Effect<ReadonlyArray<Result>>
): ((items: ReadonlyArray<Item>) => Effect.Effect<ReadonlyArray<Exit.Exit<Result>>>) => {
  const runAll = (items: ReadonlyArray<Item>): Effect.Effect<ReadonlyArray<Exit.Exit<Result>>> =>
    Effect.matchCauseEffect(run(items), {
      onSuccess: (results) => Effect.succeed(results.map((result) => Exit.succeed(result))),
      onFailure: (cause) => {
        const half = Math.ceil(items.length / 2)
        return half < items.length && isOfStatement(cause)
          ? Effect.zipWith(runAll(items.slice(0, half)), runAll(items.slice(half)), (some, others) => [
              ...some,
              ...others
            ])
          : Effect.succeed(items.map(() => Exit.failCause(cause)))
      }
    })
  return runAll
}
