import { type Cause, Deferred, Effect, FiberSet } from "effect"

interface Waiting<Item, Result> {
  readonly item: Item
  readonly answer: Deferred.Deferred<Result>
}

/**
 * Serves many callers with few round trips: what arrives in one turn of the event loop goes together, and what comes while
 * that is under way gathers for the next run. `run` answers one result for each item, in their order; when it fails, all
 * callers of that run fail with it. Of items that have one of their `keys` in common only the first goes in a run.
 */
export const makeGathering = Effect.fnUntraced(function* <Item, Result>(options: {
  readonly maximum: number
  /** How many runs of a lane may be under way at once; one, when absent. */
  readonly concurrency?: number
  /** Items of different lanes never go together, and no lane waits for another. */
  readonly lane?: (item: Item) => string
  readonly keys?: (item: Item) => ReadonlyArray<string>
  readonly run: (items: ReadonlyArray<Item>) => Effect.Effect<ReadonlyArray<Result>>
}) {
  const fork = yield* FiberSet.makeRuntime<never>()
  const { concurrency = 1, lane = () => "" } = options
  const lanes = new Map<string, { waiting: Array<Waiting<Item, Result>>; underWay: number }>()

  const take = (own: { waiting: Array<Waiting<Item, Result>> }) => {
    const { keys, maximum } = options
    if (keys === undefined) return own.waiting.splice(0, maximum)
    const seen = new Set<string>()
    const batch: Array<Waiting<Item, Result>> = []
    const rest: Array<Waiting<Item, Result>> = []
    for (const entry of own.waiting) {
      const names = batch.length < maximum ? keys(entry.item) : []
      const isFirst = batch.length < maximum && !names.some((key) => seen.has(key))
      for (const key of names) seen.add(key)
      ;(isFirst ? batch : rest).push(entry)
    }
    own.waiting = rest
    return batch
  }

  const serve = (name: string): Effect.Effect<void> =>
    Effect.suspend(() => {
      const own = lanes.get(name)
      if (own === undefined) return Effect.void
      if (own.waiting.length === 0) {
        own.underWay -= 1
        if (own.underWay === 0) lanes.delete(name)
        return Effect.void
      }
      const batch = take(own)
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
        Effect.andThen(serve(name))
      )
    })

  return (item: Item): Effect.Effect<Result> =>
    Effect.suspend(() => {
      const answer = Deferred.makeUnsafe<Result>()
      const name = lane(item)
      let own = lanes.get(name)
      if (own === undefined) lanes.set(name, (own = { waiting: [], underWay: 0 }))
      own.waiting.push({ item, answer })
      if (own.underWay < concurrency) {
        own.underWay += 1
        // Waiting for the end of the turn costs a lone caller microseconds, and many callers a fraction of their round trips.
        fork(Effect.andThen(Effect.yieldNow, serve(name)))
      }
      return Deferred.await(answer)
    })
})
