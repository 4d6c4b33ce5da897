import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer, Queue, Schedule, type Scope } from "effect"

// One for every topic, because each channel that is listened to takes a connection of its own.
const channel = "application_manager"

/** A message as it travels: several may go together, one a line. */
const messageOf = (topic: string, payload: string): string => `${topic} ${payload}`

// PostgreSQL takes less than 8,000 bytes at a time.
const mostAtOnce = 100
const mostWaiting = 100_000

/** What a subscriber does. */
export interface Subscriber {
  /** Runs for every message of the topic, in the order of arrival. */
  readonly onMessage: (payload: string) => Effect.Effect<void>
  /** Runs whenever messages may have been missed: at every new connection, the first one too. */
  readonly onGap: Effect.Effect<void>
}

/**
 * Messages between the replicas, over LISTEN/NOTIFY. One connection listens for every topic. A message is a hint that may
 * be lost with a connection or a process: whoever relies on it also asks the database from time to time.
 */
export class Notifications extends Context.Service<
  Notifications,
  {
    /** Sends a short message with the transaction in hand: once it is committed, and never if it is not. */
    notify(topic: string, payload: string): Effect.Effect<void>
    /** Sends a short message soon after, together with whatever else is waiting; outside of any transaction. */
    send(topic: string, payload: string): Effect.Effect<void>
    /** Listens for the life of the scope. */
    subscribe(topic: string, subscriber: Subscriber): Effect.Effect<void, never, Scope.Scope>
  }
>()("app/platform/Notifications") {
  static readonly layer = Layer.effect(
    Notifications,
    Effect.gen(function* () {
      const client = yield* PgClient.PgClient
      const subscribers = new Map<string, Set<Subscriber>>()
      const outgoing = yield* Queue.sliding<string>(mostWaiting)

      // What one subscriber does wrong is nothing to the others, nor to the connection.
      const each = (some: Iterable<Subscriber>, tell: (one: Subscriber) => Effect.Effect<void>) =>
        Effect.forEach(
          some,
          (one) => Effect.catchCause(tell(one), (cause) => Effect.logWarning("A notification was not handled", cause)),
          { discard: true }
        )
      const deliver = (message: string) => {
        const space = message.indexOf(" ")
        const payload = message.slice(space + 1)
        return each(subscribers.get(message.slice(0, space)) ?? [], (one) => one.onMessage(payload))
      }
      const announceGap = Effect.suspend(() =>
        Effect.forEach(subscribers.values(), (some) => each(some, (one) => one.onGap), { discard: true })
      )

      // A lost connection may have swallowed messages, so every connection begins with a gap.
      yield* Effect.scoped(
        Effect.gen(function* () {
          const incoming = yield* client.listen(channel)
          yield* announceGap
          return yield* Effect.forever(
            Effect.flatMap(Queue.take(incoming), ({ payload }) =>
              Effect.forEach(payload.split("\n"), deliver, { discard: true })
            )
          )
        })
      ).pipe(
        Effect.retry(Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("2 seconds")])),
        Effect.forkScoped
      )

      // Commits that notify wait for each other, so what changes often is told of after its commit, and in batches.
      yield* Queue.takeBetween(outgoing, 1, mostAtOnce).pipe(
        Effect.flatMap((messages) => client.notify(channel, messages.join("\n"))),
        Effect.catchCause((cause) => Effect.logWarning("Could not send notifications", cause)),
        Effect.andThen(Effect.sleep("10 millis")),
        Effect.forever,
        Effect.forkScoped
      )

      return Notifications.of({
        notify: (topic, payload) =>
          Effect.orDie(Effect.asVoid(client`SELECT pg_notify(${channel}, ${messageOf(topic, payload)})`)),
        send: (topic, payload) => Effect.asVoid(Queue.offer(outgoing, messageOf(topic, payload))),
        subscribe: (topic, subscriber) =>
          Effect.acquireRelease(
            Effect.sync(() => {
              const some = subscribers.get(topic) ?? new Set()
              subscribers.set(topic, some.add(subscriber))
            }),
            () => Effect.sync(() => void subscribers.get(topic)?.delete(subscriber))
          )
      })
    })
  )
}
