import { type Cause, Deferred, Effect, FiberSet } from "effect"

/**
 * Serves many callers with few round trips: what arrives in one turn of the event loop goes together, and what comes while
 * that is under way gathers for the next run. `run` answers one result for each item, in their order; when it fails, all
 * callers of that run fail with it. Of items that have one of their `keys` in common only the first goes in a run.
 */
export const makeGathering = Effect.fnUntraced(function* <Item, Result>(options: {
  readonly maximum: number
  /** How many runs may be under way at once; one, when absent. */
  readonly concurrency?: number
  readonly keys?: (item: Item) => ReadonlyArray<string>
  readonly run: (items: ReadonlyArray<Item>) => Effect.Effect<ReadonlyArray<Result>>
}) {
  const fork = yield* FiberSet.makeRuntime<never>()
  let waiting: Array<{ readonly item: Item; readonly answer: Deferred.Deferred<Result> }> = []
  const { concurrency = 1 } = options
  let underWay = 0

  const take = () => {
    const { keys, maximum } = options
    if (keys === undefined) return waiting.splice(0, maximum)
    const seen = new Set<string>()
    const batch: typeof waiting = []
    const rest: typeof waiting = []
    for (const entry of waiting) {
      const own = batch.length < maximum ? keys(entry.item) : []
      const isFirst = batch.length < maximum && !own.some((key) => seen.has(key))
      for (const key of own) seen.add(key)
      ;(isFirst ? batch : rest).push(entry)
    }
    waiting = rest
    return batch
  }

  const serve: Effect.Effect<void> = Effect.suspend(() => {
    if (waiting.length === 0) {
      underWay -= 1
      return Effect.void
    }
    const batch = take()
    return options.run(batch.map(({ item }) => item)).pipe(
      Effect.matchCause({
        onSuccess: (results) => {
          for (const [index, { answer }] of batch.entries()) {
            Deferred.doneUnsafe(answer, Effect.succeed(results[index] as Result))
          }
        },
        onFailure: (cause: Cause.Cause<never>) => {
          for (const { answer } of batch) Deferred.doneUnsafe(answer, Effect.failCause(cause))
        }
      }),
      Effect.andThen(serve)
    )
  })

  // Waiting for the end of the turn costs a lone caller microseconds, and many callers a fraction of their round trips.
  const afterThisTurn = Effect.andThen(Effect.yieldNow, serve)

  return (item: Item): Effect.Effect<Result> =>
    Effect.suspend(() => {
      const answer = Deferred.makeUnsafe<Result>()
      waiting.push({ item, answer })
      if (underWay < concurrency) {
        underWay += 1
        fork(afterThisTurn)
      }
      return Deferred.await(answer)
    })
})
