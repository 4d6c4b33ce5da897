import { type Cause, Effect, Exit, FiberSet, type Scope } from "effect"

interface Waiting<Item, Result> {
  readonly item: Item
  /** Whether somebody waits for its result. */
  readonly isAsked: boolean
  /** Told once, of the result or of what broke. */
  readonly told: (exit: Exit.Exit<Result>) => void
  /** Those who wait for it to be served, whatever comes of it. */
  watchers?: Array<() => void>
}

interface Lane<Item, Result> {
  waiting: Array<Waiting<Item, Result>>
  readonly served: Set<Waiting<Item, Result>>
  underWay: number
  /** Ends the pause in which nobody waits. */
  wake: (() => void) | undefined
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
  /** How long a lane pauses after a run, so that more gathers, while nobody waits for anything in it. */
  readonly pauseMillis?: number
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

  const isAwaited = ({ waiting }: Lane<Item, Result>): boolean =>
    waiting.some(({ isAsked, watchers }) => isAsked || watchers !== undefined)

  const pause = (own: Lane<Item, Result>, millis: number): Effect.Effect<void> => {
    if (own.waiting.length >= options.maximum || isAwaited(own)) return Effect.void
    const woken = Effect.callback<void>((resume) => {
      own.wake = () => resume(Effect.void)
    })
    return Effect.ensuring(
      Effect.race(Effect.sleep(millis), woken),
      Effect.sync(() => (own.wake = undefined))
    )
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
        Effect.andThen(
          Effect.suspend(() => (options.pauseMillis === undefined ? Effect.void : pause(own, options.pauseMillis)))
        ),
        Effect.andThen(serve(name))
      )
    })

  const add = (item: Item, isAsked: boolean, told: (exit: Exit.Exit<Result>) => void): void => {
    const name = lane(item)
    let own = lanes.get(name)
    if (own === undefined) lanes.set(name, (own = { waiting: [], served: new Set(), underWay: 0, wake: undefined }))
    own.waiting.push({ item, isAsked, told })
    if (isAsked || own.waiting.length >= options.maximum) own.wake?.()
    if (own.underWay < concurrency) {
      own.underWay += 1
      // Waiting for the end of the turn costs a lone caller microseconds, and many callers a fraction of their round trips.
      fork(Effect.andThen(Effect.yieldNow, serve(name)))
    }
  }

  const named = (name: string | undefined) =>
    name === undefined ? [...lanes.values()] : [lanes.get(name)].filter((own) => own !== undefined)

  return {
    ask: (item) => Effect.callback((resume) => add(item, true, resume)),
    tell: (item, told) => add(item, false, told),
    isBusy: (name) => named(name).some(({ served, waiting }) => served.size + waiting.length > 0),
    passed: (name) =>
      Effect.callback((resume) => {
        const own = named(name)
        const entries = own.flatMap(({ served, waiting }) => Array.from(served).concat(waiting))
        let open = entries.length
        if (open === 0) return resume(Effect.void)
        for (const entry of entries) {
          ;(entry.watchers ??= []).push(() => {
            open -= 1
            if (open === 0) resume(Effect.void)
          })
        }
        for (const { wake } of own) wake?.()
      })
  }
})
