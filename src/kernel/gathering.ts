import { type Cause, Effect, Exit, FiberSet, type Scope } from "effect"

interface Waiting<Item, Result> {
  readonly item: Item
  /** Told once, of the result or of what broke. */
  readonly told: (exit: Exit.Exit<Result>) => void
  /** Those who wait for it to be served, whatever comes of it. */
  watchers?: Array<() => void>
}

interface Lane<Item, Result> {
  waiting: Array<Waiting<Item, Result>>
  readonly served: Set<Waiting<Item, Result>>
  underWay: number
}

/** Serves many callers with few round trips. */
export interface Gathering<Item, Result> {
  /** Has an item served, and waits for its result. */
  ask(item: Item): Effect.Effect<Result>
  /** Hands an item over, and waits for nothing. */
  tell(item: Item, told: (exit: Exit.Exit<Result>) => void): void
  /** Whether anything of a lane, or of any, is not served yet. */
  isBusy(lane?: string): boolean
  /** Waits until everything is served that was handed over before, in a lane or in all. */
  passed(lane?: string): Effect.Effect<void>
}

/**
 * What arrives in one turn of the event loop goes together, and what comes while that is under way gathers for the next run.
 * `run` answers one result for each item, in their order; when it fails, all callers of that run fail with it. Of items that
 * have one of their `keys` in common only the first goes in a run.
 */
export const makeGathering = Effect.fnUntraced(function* <Item, Result>(options: {
  readonly maximum: number
  /** How many runs of a lane may be under way at once; one, when absent. */
  readonly concurrency?: number
  /** Items of different lanes never go together, and no lane waits for another. */
  readonly lane?: (item: Item) => string
  readonly keys?: (item: Item) => ReadonlyArray<string>
  readonly run: (items: ReadonlyArray<Item>) => Effect.Effect<ReadonlyArray<Result>>
}): Effect.fn.Return<Gathering<Item, Result>, never, Scope.Scope> {
  const fork = yield* FiberSet.makeRuntime<never>()
  const { concurrency = 1, lane = () => "" } = options
  const lanes = new Map<string, Lane<Item, Result>>()

  const take = (own: Lane<Item, Result>) => {
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
      for (const entry of batch) own.served.add(entry)
      const tell = (exitAt: (index: number) => Exit.Exit<Result>) => {
        for (const [index, entry] of batch.entries()) {
          own.served.delete(entry)
          entry.told(exitAt(index))
          for (const watcher of entry.watchers ?? []) watcher()
        }
      }
      return options.run(batch.map(({ item }) => item)).pipe(
        Effect.matchCause({
          onSuccess: (results) => tell((index) => Exit.succeed(results[index] as Result)),
          onFailure: (cause: Cause.Cause<never>) => tell(() => Exit.failCause(cause))
        }),
        Effect.andThen(serve(name))
      )
    })

  const tell = (item: Item, told: (exit: Exit.Exit<Result>) => void): void => {
    const name = lane(item)
    let own = lanes.get(name)
    if (own === undefined) lanes.set(name, (own = { waiting: [], served: new Set(), underWay: 0 }))
    own.waiting.push({ item, told })
    if (own.underWay < concurrency) {
      own.underWay += 1
      // Waiting for the end of the turn costs a lone caller microseconds, and many callers a fraction of their round trips.
      fork(Effect.andThen(Effect.yieldNow, serve(name)))
    }
  }

  const left = (name: string | undefined): ReadonlyArray<Waiting<Item, Result>> => {
    const own = name === undefined ? [...lanes.values()] : [lanes.get(name)].filter((one) => one !== undefined)
    return own.flatMap(({ served, waiting }) => Array.from(served).concat(waiting))
  }

  return {
    ask: (item) => Effect.callback((resume) => tell(item, resume)),
    tell,
    isBusy: (name) => (name === undefined ? lanes.size > 0 : lanes.has(name)),
    passed: (name) =>
      Effect.callback((resume) => {
        const entries = left(name)
        let open = entries.length
        if (open === 0) return resume(Effect.void)
        for (const entry of entries) {
          ;(entry.watchers ??= []).push(() => {
            open -= 1
            if (open === 0) resume(Effect.void)
          })
        }
      })
  }
})
