import { Context, Effect, Layer } from "effect"
import { type ApplicationId, type ApplicationNotFound, builtInApplications } from "../../applications/domain.ts"
import { Applications } from "../../applications/service.ts"
import { Change } from "../../../audit/log/domain.ts"
import { CurrentPrincipal } from "../../../kernel/principal.ts"
import { type IfMatch, meets, VersionMismatch } from "../../../kernel/precondition.ts"
import { type ConfigurationId } from "./domain.ts"
import { ConfigurationManaged, ConfigurationNotFound } from "./problem-domain.ts"
import { ConfigurationRepository } from "./repository.ts"
import { type HeldNode, type Stamp } from "./row-domain.ts"

/**
 * What a change holds until it ends, always in this order: the application, its tree, the node. A file is saved holding
 * its own row alone.
 */
export class ConfigurationHolds extends Context.Service<
  ConfigurationHolds,
  {
    /** The applications whose configuration takes no changes here. */
    readonly managed: ReadonlyArray<ApplicationId>
    /** The tree of an application that takes changes here; answers who changes it, and when. */
    tree(applicationId: ApplicationId): Effect.Effect<Stamp, ApplicationNotFound | ConfigurationManaged, Change>
    /** The tree that a node stands in, and the node, deleted or not. */
    inTree(
      id: ConfigurationId
    ): Effect.Effect<
      { readonly node: HeldNode; readonly stamp: Stamp },
      ConfigurationManaged | ConfigurationNotFound,
      Change
    >
    /** A node that is not deleted. */
    node(
      id: ConfigurationId,
      ifMatch: IfMatch | undefined
    ): Effect.Effect<HeldNode, ConfigurationManaged | ConfigurationNotFound | VersionMismatch, Change>
  }
>()("app/configuration/ConfigurationHolds") {
  static readonly layerNoDeps = Layer.effect(
    ConfigurationHolds,
    Effect.gen(function* () {
      const applications = yield* Applications
      const repository = yield* ConfigurationRepository
      const managed = new Set(
        yield* Effect.forEach(builtInApplications, ({ slug }) =>
          Effect.map(Effect.orDie(applications.getBySlug(slug)), ({ id }) => id)
        )
      )

      const refuseManaged = (applicationId: ApplicationId) =>
        managed.has(applicationId) ? Effect.fail(new ConfigurationManaged({})) : Effect.void

      const tree = Effect.fn("ConfigurationHolds.tree")(function* (applicationId: ApplicationId) {
        yield* applications.hold(applicationId)
        yield* refuseManaged(applicationId)
        const { at, by } = yield* stamp
        return { at: yield* repository.lockTree(applicationId, at), by }
      })

      const inTree = Effect.fn("ConfigurationHolds.inTree")(function* (id: ConfigurationId) {
        const { applicationId } = yield* repository.getAny(id)
        const stamp = yield* Effect.catchTag(tree(applicationId), "ApplicationNotFound", () =>
          Effect.fail(new ConfigurationNotFound({}))
        )
        return { node: yield* repository.lock(id), stamp }
      })

      const node = Effect.fn("ConfigurationHolds.node")(function* (id: ConfigurationId, ifMatch: IfMatch | undefined) {
        const held = yield* repository.lock(id)
        yield* requireLive(held)
        yield* refuseManaged(held.applicationId)
        yield* requireMatch(held, ifMatch)
        return held
      })

      return ConfigurationHolds.of({ managed: [...managed], tree, inTree, node })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(ConfigurationRepository.layer))
}

export const requireLive = (node: HeldNode): Effect.Effect<void, ConfigurationNotFound> =>
  node.deletedAt === null ? Effect.void : Effect.fail(new ConfigurationNotFound({}))

export const requireMatch = (
  { version }: { readonly version: number | null },
  ifMatch: IfMatch | undefined
): Effect.Effect<void, VersionMismatch> =>
  meets(ifMatch, version) ? Effect.void : Effect.fail(new VersionMismatch({ version }))

/** Who makes the change in hand, and when. */
export const stamp: Effect.Effect<Stamp, never, Change> = Effect.gen(function* () {
  const { occurredAt } = yield* Change
  const { name } = yield* CurrentPrincipal
  return { at: occurredAt, by: name }
})
