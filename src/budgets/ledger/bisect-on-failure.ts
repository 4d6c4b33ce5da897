import { type Cause, Effect, Exit, Predicate } from "effect"
import { SqlError } from "effect/sql"

/** The SQLSTATE with which the database refused a statement; undefined where it did not, or did not answer. */
export const sqlStateOf = (cause: Cause.Cause<unknown>): string | undefined => {
  for (const reason of cause.reasons) {
    const error = reason._tag === "Die" ? reason.defect : undefined
    if (!SqlError.isSqlError(error)) continue
    const { cause: origin } = error.reason
    if (Predicate.hasProperty(origin, "code") && typeof origin.code === "string") return origin.code
  }
  return undefined
}

/** Errors caused by values: data, constraints and limits of the program. The statement was rolled back and may run again. */
const classesOfValues = new Set(["22", "23", "54", "P0"])

const isCausedByValues = (cause: Cause.Cause<unknown>): boolean =>
  classesOfValues.has(sqlStateOf(cause)?.slice(0, 2) ?? "")

/** Whether a number exceeded what its column holds. */
export const isOverflow = (cause: Cause.Cause<unknown>): boolean => sqlStateOf(cause) === "22003"

/** Runs a statement for many items. Where their values make it fail, each half runs again, so that an invalid item fails alone. */
export const bisectOnFailure = <Item, Result>(
  run: (items: ReadonlyArray<Item>) => Effect.Effect<ReadonlyArray<Result>>
): ((items: ReadonlyArray<Item>) => Effect.Effect<ReadonlyArray<Exit.Exit<Result>>>) => {
  const runAll = (items: ReadonlyArray<Item>): Effect.Effect<ReadonlyArray<Exit.Exit<Result>>> =>
    Effect.matchCauseEffect(run(items), {
      onSuccess: (results) => Effect.succeed(results.map((result) => Exit.succeed(result))),
      onFailure: (cause) => {
        const half = Math.ceil(items.length / 2)
        return half < items.length && isCausedByValues(cause)
          ? Effect.zipWith(runAll(items.slice(0, half)), runAll(items.slice(half)), (some, others) => [
              ...some,
              ...others
            ])
          : Effect.succeed(items.map(() => Exit.failCause(cause)))
      }
    })
  return runAll
}
