import { type Cause, Effect, Exit, FiberSet, type Scope } from "effect"
import { Slots, type Slotted } from "../../kernel/slots.ts"

interface Entry<Item, Result> extends Slotted {
  readonly item: Item
  /** Whether a caller waits for its result. */
  readonly isAwaited: boolean
  /** Called once, with the result or the failure of the run. */
  readonly resolve: (exit: Exit.Exit<Result>) => void
  /** Whether its caller has left before its result. */
  isAbandoned?: boolean
  /** Callers of `drain`, notified however the run ends. */
  watchers?: Array<() => void>
}

interface Lane<Item, Result> {
  pending: Array<Entry<Item, Result>>
  readonly running: Slots<Entry<Item, Result>>
  /** Ends the pause that a lane makes while no caller waits. */
  wake: (() => void) | undefined
}

/** Processes the items of many callers in few round trips. */
export interface Batcher<Item, Result> {
  /** Processes an item and waits for its result. */
  submit(item: Item): Effect.Effect<Result>
  /** Queues an item without waiting; `resolve` gets its result. */
  enqueue(item: Item, resolve: (exit: Exit.Exit<Result>) => void): void
  /** Whether any item of a lane, or of any lane, is unfinished. */
  isBusy(lane?: string): boolean
  /** Waits until every item submitted before, to a lane or to all, is finished. */
  drain(lane?: string): Effect.Effect<void>
}

/**
 * Items that arrive in one turn of the event loop are processed together; those that arrive during a run wait for the
 * next. `run` returns one result for each item, in their order; when it fails, all callers of that run fail with it. Of
 * items that share one of their `keys` only the first goes in a run.
 */
export const makeBatcher = Effect.fnUntraced(function* <Item, Result>(options: {
  readonly maximum: number
  /** Items of different lanes are never batched together, and no lane waits for another. */
  readonly lane?: (item: Item) => string
  readonly keys?: (item: Item) => ReadonlyArray<string>
  /** How long a lane pauses after a run, to collect more items, while no caller waits for any of them. */
  readonly pauseMillis?: number
  /**
   * Gets the results of items whose callers have left; an item that has not begun by then is not processed. Without it, items
   * are processed in any case.
   */
  readonly abandoned?: (item: Item, exit: Exit.Exit<Result>) => void
  readonly run: (items: ReadonlyArray<Item>) => Effect.Effect<ReadonlyArray<Result>>
}): Effect.fn.Return<Batcher<Item, Result>, never, Scope.Scope> {
  const fork = yield* FiberSet.makeRuntime<never>()
  const { lane = () => "" } = options
  const lanes = new Map<string, Lane<Item, Result>>()

  const take = (own: Lane<Item, Result>) => {
    const { keys, maximum } = options
    if (keys === undefined) return own.pending.splice(0, maximum)
    const seen = new Set<string>()
    const batch: Array<Entry<Item, Result>> = []
    const rest: Array<Entry<Item, Result>> = []
    for (const entry of own.pending) {
      const names = batch.length < maximum ? keys(entry.item) : []
      const isFirst = batch.length < maximum && !names.some((key) => seen.has(key))
      for (const key of names) seen.add(key)
      ;(isFirst ? batch : rest).push(entry)
    }
    own.pending = rest
    return batch
  }

  const pause = (own: Lane<Item, Result>, millis: number): Effect.Effect<void> => {
    const hasWaiters = own.pending.some(({ isAwaited, watchers }) => isAwaited || watchers !== undefined)
    if (own.pending.length >= options.maximum || hasWaiters) return Effect.void
    const woken = Effect.callback<void>((resume) => {
      own.wake = () => resume(Effect.void)
    })
    return Effect.ensuring(
      Effect.race(Effect.sleep(millis), woken),
      Effect.sync(() => (own.wake = undefined))
    )
  }

  const process = (name: string): Effect.Effect<void> =>
    Effect.suspend(() => {
      const own = lanes.get(name)
      if (own === undefined) return Effect.void
      if (own.pending.length === 0) {
        lanes.delete(name)
        return Effect.void
      }
      const batch = take(own)
      for (const entry of batch) own.running.add(entry)
      const resolve = (exitAt: (index: number) => Exit.Exit<Result>) => {
        for (const [index, entry] of batch.entries()) {
          own.running.delete(entry)
          if (entry.isAbandoned === true) options.abandoned?.(entry.item, exitAt(index))
          else entry.resolve(exitAt(index))
          for (const watcher of entry.watchers ?? []) watcher()
        }
      }
      return options.run(batch.map(({ item }) => item)).pipe(
        Effect.matchCause({
          onSuccess: (results) => resolve((index) => Exit.succeed(results[index] as Result)),
          onFailure: (cause: Cause.Cause<never>) => resolve(() => Exit.failCause(cause))
        }),
        Effect.andThen(
          Effect.suspend(() => (options.pauseMillis === undefined ? Effect.void : pause(own, options.pauseMillis)))
        ),
        Effect.andThen(process(name))
      )
    })

  const abandon = (entry: Entry<Item, Result>): void => {
    entry.isAbandoned = true
    const own = lanes.get(lane(entry.item))
    const place = own?.pending.indexOf(entry) ?? -1
    if (place === -1) return
    own?.pending.splice(place, 1)
    for (const watcher of entry.watchers ?? []) watcher()
  }

  const add = (item: Item, isAwaited: boolean, resolve: (exit: Exit.Exit<Result>) => void): Entry<Item, Result> => {
    const name = lane(item)
    let own = lanes.get(name)
    const isIdle = own === undefined
    if (own === undefined) lanes.set(name, (own = { pending: [], running: new Slots(), wake: undefined }))
    const entry: Entry<Item, Result> = { item, isAwaited, resolve, slot: undefined }
    own.pending.push(entry)
    if (isAwaited || own.pending.length >= options.maximum) own.wake?.()
    // Waiting for the end of the turn costs a lone caller microseconds, and saves many callers most of their round trips.
    if (isIdle) fork(Effect.andThen(Effect.yieldNow, process(name)))
    return entry
  }

  const lanesNamed = (name: string | undefined) =>
    name === undefined ? [...lanes.values()] : [lanes.get(name)].filter((own) => own !== undefined)

  return {
    submit: (item) =>
      Effect.callback((resume) => {
        const entry = add(item, true, resume)
        return options.abandoned === undefined ? undefined : Effect.sync(() => abandon(entry))
      }),
    enqueue: (item, resolve) => void add(item, false, resolve),
    isBusy: (name) => lanesNamed(name).some(({ pending, running }) => running.size + pending.length > 0),
    drain: (name) =>
      Effect.callback((resume) => {
        const own = lanesNamed(name)
        const entries = own.flatMap(({ pending, running }) => Array.from(running).concat(pending))
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
