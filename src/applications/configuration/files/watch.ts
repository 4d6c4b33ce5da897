import { type Cause, Context, Effect, Layer, Metric, Queue, Schedule, Stream } from "effect"
import { type HttpServerRequest } from "effect/http"
import { SqlClient } from "effect/sql"
import { Change } from "../../../audit/log/domain.ts"
import { entityTag } from "../../../kernel/http/precondition.ts"
import { Notifications } from "../../../platform/database/notifications.ts"
import { eventStream, LiveAuthorization, OpenStreams } from "../../../platform/http/event-stream.ts"
import { type ConfigurationEvent, ConfigurationId, ConfigurationNoFile } from "../model/domain.ts"
import { ConfigurationRepository } from "../model/repository.ts"
import { VersionRepository } from "./version-repository.ts"

const topic = "configuration_version"
const maxWaitingEvents = 64
const resyncEvery = "15 seconds"

/** The newest version of a file; null of one that is deleted. */
export interface VersionChange {
  readonly id: ConfigurationId
  readonly version: number | null
}

type Watcher = Queue.Queue<number, Cause.Done>

/**
 * Notifies watching clients of new versions from any replica. A notification may be lost, so watched files are also
 * looked up every 15 seconds.
 */
export class ConfigurationWatch extends Context.Service<ConfigurationWatch>()("app/applications/ConfigurationWatch", {
  make: Effect.gen(function* () {
    const notifications = yield* Notifications
    const repository = yield* ConfigurationRepository
    const streams = yield* OpenStreams
    const versions = yield* VersionRepository
    const sql = yield* SqlClient.SqlClient
    const watchers = new Map<ConfigurationId, Set<Watcher>>()
    let count = 0

    const gauge = Metric.gauge("configuration.watchers", {
      description: "Clients that watch configuration files",
      attributes: { unit: "{client}" }
    })

    const publish = ({ id, version }: VersionChange) => {
      for (const watcher of watchers.get(id) ?? []) {
        if (version === null) Queue.endUnsafe(watcher)
        else Queue.offerUnsafe(watcher, version)
      }
    }

    const resync = Effect.gen(function* () {
      const ids = [...watchers.keys()]
      if (ids.length === 0) return
      const current = new Map((yield* versions.current(ids)).map(({ id, version }) => [id, version]))
      for (const id of ids) publish({ id, version: current.get(id) ?? null })
    }).pipe(Effect.catchCause((cause) => Effect.logWarning("Could not look up watched configuration", cause)))

    yield* notifications.subscribe(topic, {
      onMessage: (payload) =>
        Effect.sync(() => {
          const [id = 0, version = 0] = payload.split(" ").map(Number)
          publish({ id: ConfigurationId.make(id), version: version === 0 ? null : version })
        }),
      onGap: resync
    })
    yield* resync.pipe(Effect.repeat(Schedule.spaced(resyncEvery)), Effect.forkScoped)

    const register = (id: ConfigurationId) =>
      Effect.acquireRelease(
        Effect.flatMap(Queue.sliding<number, Cause.Done>(maxWaitingEvents), (watcher) => {
          watchers.set(id, (watchers.get(id) ?? new Set()).add(watcher))
          return Effect.as(Metric.update(gauge, ++count), watcher)
        }),
        (watcher) => {
          const others = watchers.get(id)
          others?.delete(watcher)
          if (others?.size === 0) watchers.delete(id)
          return Metric.update(gauge, --count)
        }
      )

    const events = (id: ConfigurationId) =>
      Stream.unwrap(
        Effect.gen(function* () {
          // Registered first and looked up then, so that no version falls between.
          const watcher = yield* register(id)
          const [current] = yield* versions.current([id])
          if (current === undefined) return Stream.empty
          return Stream.fromQueue(watcher).pipe(
            Stream.prepend([current.version]),
            // Replicas notify in any order; a version older than the last one is dropped.
            Stream.mapAccum(
              () => 0,
              (last, version): readonly [number, ReadonlyArray<ConfigurationEvent>] =>
                version > last ? [version, [{ id, version, etag: entityTag(version) }]] : [last, []]
            )
          )
        })
      )

    const open = Effect.fn("ConfigurationWatch.open")(function* (id: ConfigurationId) {
      const node = yield* repository.get(id)
      if (node.type === "folder") return yield* new ConfigurationNoFile({})
      const held = yield* streams.claim
      return held(events(id))
    })

    return {
      /** Part of a change: once it is committed, the clients that watch these files are notified. */
      announce: (changes: ReadonlyArray<VersionChange>) =>
        Change.use(() =>
          sql.afterCommit(
            Effect.forEach(changes, ({ id, version }) => notifications.send(topic, `${id} ${version ?? 0}`), {
              discard: true
            })
          )
        ),
      /** The current version of a file, and each newer one; ends when the file is deleted. */
      open
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(Layer.mergeAll(ConfigurationRepository.layer, OpenStreams.layer, VersionRepository.layer))
  )
}

/** Answers a watching client with Server-Sent Events, until the file, the client's leave or the process ends. */
export const versionStream = Effect.gen(function* () {
  const authorization = yield* LiveAuthorization
  const watch = yield* ConfigurationWatch
  return Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest, id: ConfigurationId) {
    const revoked = yield* authorization.revoked(request)
    const events = Stream.map(yield* watch.open(id), (event) => ({
      id: String(event.version),
      event: "version",
      data: JSON.stringify(event)
    }))
    return eventStream(events, revoked)
  })
})
