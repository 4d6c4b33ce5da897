import { Context, Effect, Layer } from "effect"
import { Change } from "../../../audit/log/domain.ts"
import { CurrentPrincipal } from "../../../kernel/authority/principal.ts"
import { entityTag, requireTag, type VersionMismatch } from "../../../kernel/http/precondition.ts"
import { isInTransaction } from "../../../platform/database/database.ts"
import { makeTurns } from "../../../platform/runtime/turns.ts"
import { type ApplicationId, builtInApplications } from "../../applications/domain.ts"
import { Applications } from "../../applications/service.ts"
import { type ConfigurationId, ConfigurationManaged, ConfigurationNotFound, tagOf, versionTag } from "./domain.ts"
import { ConfigurationRepository } from "./repository.ts"
import { type LockedNode, type Stamp } from "./row-domain.ts"

/**
 * The locks of a change, always taken in this order: the application, its tree, the node. Saving a file locks only
 * its own row.
 */
export class ConfigurationLocks extends Context.Service<ConfigurationLocks>()("app/applications/ConfigurationLocks", {
  make: Effect.gen(function* () {
    const applications = yield* Applications
    const repository = yield* ConfigurationRepository
    const managed = new Set(
      yield* Effect.forEach(builtInApplications, ({ slug }) =>
        Effect.map(Effect.orDie(applications.getBySlug(slug)), ({ id }) => id)
      )
    )

    const refuseManaged = (applicationId: ApplicationId) =>
      managed.has(applicationId) ? Effect.fail(new ConfigurationManaged({})) : Effect.void

    const tree = Effect.fn("ConfigurationLocks.tree")(function* (applicationId: ApplicationId) {
      yield* applications.lockShared(applicationId)
      yield* refuseManaged(applicationId)
      const { at, by } = yield* stamp
      return { at: yield* repository.lockTree(applicationId, at), by }
    })

    const inTree = Effect.fn("ConfigurationLocks.inTree")(function* (
      applicationId: ApplicationId,
      id: ConfigurationId
    ) {
      const stamp = yield* Effect.catchTag(tree(applicationId), "ApplicationNotFound", () =>
        Effect.fail(new ConfigurationNotFound({}))
      )
      return { node: yield* repository.lock(id), stamp }
    })

    const oneAtATime = yield* makeTurns({ atOnce: Infinity, ofOne: 1 })
    /** What already holds a connection does not wait: who has the turn may wait for that connection. */
    const inTurn = <A, E, R>(key: string, change: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
      Effect.flatMap(isInTransaction, (holdsConnection) => (holdsConnection ? change : oneAtATime(key, change)))

    const inTurnOfTree = <A, E, R>(applicationId: ApplicationId, change: Effect.Effect<A, E, R>) =>
      inTurn(`tree ${applicationId}`, change)

    const inTurnOfNode = <A, E, R>(id: ConfigurationId, change: Effect.Effect<A, E, R>) => inTurn(`node ${id}`, change)

    const inTurnAround = <A, E, R>(
      id: ConfigurationId,
      change: (applicationId: ApplicationId) => Effect.Effect<A, E, R>
    ) =>
      Effect.flatMap(repository.getAny(id), ({ applicationId }) => inTurnOfTree(applicationId, change(applicationId)))

    const node = Effect.fn("ConfigurationLocks.node")(function* (id: ConfigurationId) {
      const locked = yield* repository.lock(id)
      yield* requireLive(locked)
      yield* refuseManaged(locked.applicationId)
      yield* requireTag(entityTag(locked.version ?? 0), versionTag)
      return locked
    })

    return {
      /** The applications whose configuration is system-owned. */
      managed: [...managed],
      /** Makes changes of a tree one after another, so that only one of a replica holds a connection while it waits for a lock. */
      inTurnOfTree,
      /** The same for the tree that a node, deleted or not, is in. */
      inTurnAround,
      /** The same for a node. */
      inTurnOfNode,
      /** Locks the tree of an application that is not system-owned; answers who changes it, and when. */
      tree,
      /** Locks the tree of an application and a node, deleted or not. */
      inTree,
      /** Locks a node that is not deleted, for a new content. */
      node
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(ConfigurationRepository.layer))
}

export const requireLive = (node: LockedNode): Effect.Effect<void, ConfigurationNotFound> =>
  node.deletedAt === null ? Effect.void : Effect.fail(new ConfigurationNotFound({}))

/** Evaluates the precondition of the request against a locked node. */
export const requireMatch = (node: LockedNode): Effect.Effect<void, VersionMismatch> =>
  requireTag(node.deletedAt === null ? tagOf(node) : undefined)

/** Who makes the change in hand, and when. */
export const stamp: Effect.Effect<Stamp, never, Change> = Effect.gen(function* () {
  const { occurredAt } = yield* Change
  const { name } = yield* CurrentPrincipal
  return { at: occurredAt, by: name }
})
