import { type PgClient, PgConnection } from "@effect/sql-pg"
import { Deferred, Effect, Fiber, Option, Redacted, Schedule } from "effect"
import { SqlError } from "effect/sql"
import { type Expected, isReadOnly, isReadOnlyRefused, readOnly, refusedBy, timeline } from "./session-state.ts"

/** The servers of a database, of which one is connected to at a time. */
export interface Hosts {
  /** The address of the server to connect to: the last one that could be used. */
  readonly current: () => Redacted.Redacted
  /** Finds the server to use, the first in their order. */
  readonly choose: Effect.Effect<void, SqlError.SqlError>
  /** Finds the server to use after the one of an address failed, unless others have found it; fails where there is none. */
  readonly leave: (address: Redacted.Redacted) => Effect.Effect<void, SqlError.SqlError>
  /** Asks the server in use whether it still can be used, and finds another one where it cannot. */
  readonly review: Effect.Effect<void, SqlError.SqlError>
  /** Waits until another server is used than now. */
  readonly moved: Effect.Effect<void>
}

/** How to connect to a database; where it has several hosts, to the first one. */
export interface DatabaseAddress extends PgClient.PgClientConfig {
  readonly hosts?: Hosts | undefined
}

/** Before the hosts of a URL, the hosts as libpq has them (`one:5432,two`), and after. */
const parts = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#@]*)(.*)$/su

/** The URL of each host in a URL of several. */
export const hostsIn = (url: string): ReadonlyArray<string> => {
  const [, before = "", hosts = "", after = ""] = parts.exec(url) ?? []
  return hosts.includes(",") ? hosts.split(",").map((host) => `${before}${host}${after}`) : [url]
}

/** What a URL asks of the server that is connected to. */
export const sessionAttributesIn = (url: string): string | null =>
  new URLSearchParams(/\?([^#]*)/su.exec(url)?.[1]).get("target_session_attrs")

/** How to connect to what a setting names: to a server that accepts writes, or to any that answers. */
export const addressIn = (
  setting: Expected["setting"],
  url: Redacted.Redacted,
  isWritten: boolean
): DatabaseAddress => {
  const given = Redacted.value(url)
  const [first = url, ...others] = hostsIn(given).map((one) => Redacted.make(one))
  if (others.length === 0 && sessionAttributesIn(given) === null) return { url }
  return { url: first, hosts: makeHosts(setting, [first, ...others], isWritten) }
}

/** Interrupts without waiting: a database that does not respond would not respond to the cancellation either. */
export const interruptedWithoutWaiting = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkDetach(restore(effect), { startImmediately: true }), (fiber) =>
      Effect.onInterrupt(restore(Fiber.join(fiber)), () => Effect.sync(() => fiber.interruptUnsafe()))
    )
  )

const makeHosts = (
  setting: Expected["setting"],
  all: readonly [Redacted.Redacted, ...ReadonlyArray<Redacted.Redacted>],
  isWritten: boolean
): Hosts => {
  let place = 0
  /** The highest timeline of a server that accepts writes: one of a lower timeline was the primary before a fail-over. */
  let newest = 0
  let moved = Deferred.makeUnsafe<void>()
  const at = (index: number) => all[index % all.length] ?? all[0]

  /** The timeline of a server that can be used; undefined of one that cannot. */
  const timelineOf = (url: Redacted.Redacted) =>
    PgConnection.make({ url }).pipe(
      Effect.flatMap((connection) => connection.queryValues(`SELECT ${isReadOnly}, ${timeline}`, [], false)),
      Effect.map(([row]) => {
        if (!isWritten) return 0
        if (row?.[0] !== false || typeof row[1] !== "number" || row[1] < newest) return undefined
        return (newest = row[1])
      }),
      Effect.scoped,
      // A server that hangs may do so before it answers that it is connected, and when the connection is closed.
      interruptedWithoutWaiting,
      Effect.timeoutOrElse({ duration: "5 seconds", orElse: () => Effect.fail(noAnswer) })
    )

  const findFrom = Effect.fnUntraced(function* (first: number) {
    let failure: SqlError.SqlError | undefined
    for (let step = 0; step < all.length; step++) {
      const next = (first + step) % all.length
      const found = yield* Effect.catch(timelineOf(at(next)), (error) => {
        failure = error
        return Effect.undefined
      })
      if (found === undefined) continue
      if (next === place) return
      place = next
      Deferred.doneUnsafe(moved, Effect.void)
      moved = Deferred.makeUnsafe()
      return yield* Effect.logInfo(`The database is now used on host ${next + 1} of ${all.length} (${setting})`)
    }
    return yield* failure ?? refusedBy(readOnly(setting, all.length))
  })

  /** Notes the newest timeline before any is chosen: a primary from before a fail-over that was not stopped accepts writes too. */
  const compare =
    isWritten && all.length > 1
      ? Effect.forEach(all, (url) => Effect.timeoutOption(Effect.ignore(timelineOf(url)), "3 seconds"), {
          concurrency: "unbounded",
          discard: true
        })
      : Effect.void

  const leave = Effect.fnUntraced(function* (address: Redacted.Redacted) {
    if (at(place) !== address) return
    finding ??= yield* Effect.forkDetach(
      Effect.ensuring(
        // The one that has just failed comes last.
        findFrom(place + 1),
        Effect.sync(() => (finding = undefined))
      )
    )
    return yield* Fiber.join(finding)
  })

  let finding: Fiber.Fiber<void, SqlError.SqlError> | undefined
  return {
    current: () => at(place),
    choose: Effect.andThen(compare, findFrom(0)),
    leave,
    review: Effect.suspend(() => {
      const address = at(place)
      const found = Effect.timeoutOption(
        Effect.catch(timelineOf(address), () => Effect.undefined),
        "3 seconds"
      )
      return Effect.flatMap(found, (timeline) =>
        Option.getOrUndefined(timeline) === undefined ? leave(address) : Effect.void
      )
    }),
    moved: Effect.suspend(() => Deferred.await(moved))
  }
}

export const noAnswer = new SqlError.SqlError({
  reason: new SqlError.ConnectionError({ cause: new Error("The server does not answer"), operation: "connect" })
})

/** Whether a connection failed before its first statement. */
export const isOfConnecting = ({ reason }: SqlError.SqlError): boolean => reason.operation === "connect"

/** Does what connects to a database, and where it cannot be connected to, again with another host. */
export const onUsableHost = <A, R>(
  hosts: Hosts | undefined,
  connecting: Effect.Effect<A, SqlError.SqlError, R>
): Effect.Effect<A, SqlError.SqlError, R> => {
  if (hosts === undefined) return connecting
  return Effect.suspend(() => {
    const address = hosts.current()
    // A pool may have begun to replace a connection before the other host was found.
    const again = Effect.retry(connecting, {
      while: isReadOnlyRefused,
      times: 100,
      schedule: Schedule.spaced("20 millis")
    })
    return Effect.catchIf(connecting, isOfConnecting, () => Effect.andThen(hosts.leave(address), again))
  })
}

/** The same options, with the host of the moment whenever they are read. */
export const atCurrentHost = <A extends PgConnection.Config>(options: A, hosts: Hosts | undefined): A =>
  hosts === undefined ? options : Object.defineProperty({ ...options }, "url", { get: hosts.current, enumerable: true })
