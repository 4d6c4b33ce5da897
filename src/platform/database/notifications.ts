import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer, Queue, Schedule, type Scope } from "effect"

// One channel for all topics, because each one takes a connection of its own.
const channel = "application_manager"

/** A message on the channel; several may be sent together, one a line. */
const messageOf = (topic: string, payload: string): string => `${topic} ${payload}`

// PostgreSQL accepts less than 8,000 bytes at a time.
const maxBatchSize = 100
const maxPending = 100_000

export interface Subscriber {
  /** Runs for every message of the topic, in the order of arrival. */
  readonly onMessage: (payload: string) => Effect.Effect<void>
  /** Runs whenever messages may have been missed: at every new connection, the first one too. */
  readonly onGap: Effect.Effect<void>
}

/**
 * Messages between the replicas, over LISTEN/NOTIFY. One connection listens for every topic. A message is a hint that may
 * be lost with a connection or a process: subscribers also poll the database.
 */
export class Notifications extends Context.Service<
  Notifications,
  {
    /** Sends a short message when the current transaction commits, and not if it rolls back. */
    notify(topic: string, payload: string): Effect.Effect<void>
    /** Sends a short message soon, in a batch with others; outside any transaction. */
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
      const outgoing = yield* Queue.sliding<string>(maxPending)

      // A failing subscriber affects neither the others nor the connection.
      const each = (some: Iterable<Subscriber>, notify: (one: Subscriber) => Effect.Effect<void>) =>
        Effect.forEach(
          some,
          (one) =>
            Effect.catchCause(notify(one), (cause) => Effect.logWarning("A notification was not handled", cause)),
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

      // Messages may have been lost with the connection before, so every connection begins with a gap.
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

      // Commits that notify wait for each other, so frequent messages are sent after their commit, in batches.
      yield* Queue.takeBetween(outgoing, 1, maxBatchSize).pipe(
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
