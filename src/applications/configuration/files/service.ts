import { Context, Effect, Layer } from "effect"
import { Audit } from "../../../audit/log/service.ts"
import { given } from "../../../kernel/http/server-set.ts"
import { ValidationFailed } from "../../../kernel/problems/problems.ts"
import { type ApplicationId } from "../../applications/domain.ts"
import { Applications } from "../../applications/service.ts"
import { deletedEntry, entryOf, restoredEntry, shown } from "../model/audit-entries.ts"
import {
  configurationActions,
  ConfigurationCycle,
  type ConfigurationId,
  ConfigurationParentUnfit,
  type ConfigurationPatch,
  ConfigurationSchemaInUse,
  ConfigurationSchemaUnfit,
  ConfigurationTooDeep,
  type ConfigurationTreeNodeEncoded,
  type NewConfiguration,
  type TaggedFile
} from "../model/domain.ts"
import { ConfigurationLocks, requireLive, requireMatch } from "../model/locks.ts"
import { maximumDepth, namesIn } from "../model/path-domain.ts"
import { PlacementRepository } from "../model/placement-repository.ts"
import { ConfigurationRepository } from "../model/repository.ts"
import { type NodeDepth, type NodeWithContent, type StoredContent, type TreeRow } from "../model/row-domain.ts"
import { Contents, type Passed, requireValid } from "../schema-validation/contents.ts"
import { ConfigurationWatch } from "./watch.ts"

const maxDeletedShown = 1000

/** The tree of an application: its folders and files, and where they are. */
export class Configuration extends Context.Service<Configuration>()("app/applications/Configuration", {
  make: Effect.gen(function* () {
    const applications = yield* Applications
    const audit = yield* Audit
    const contents = yield* Contents
    const holds = yield* ConfigurationLocks
    const placements = yield* PlacementRepository
    const repository = yield* ConfigurationRepository
    const watch = yield* ConfigurationWatch

    const tree = Effect.fn("Configuration.tree")(function* (applicationId: ApplicationId) {
      const nodes = yield* repository.listAll(applicationId)
      if (nodes.length === 0) yield* applications.get(applicationId)
      return treeOf(applicationId, nodes)
    })

    const get = Effect.fn("Configuration.get")((id: ConfigurationId) =>
      Effect.map(repository.getWithContent(id), shownFile)
    )

    const getByPath = Effect.fn("Configuration.getByPath")((applicationId: ApplicationId, path: string) =>
      Effect.map(repository.findByPath(applicationId, namesIn(path)), shownFile)
    )

    const deleted = Effect.fn("Configuration.deleted")(function* (applicationId: ApplicationId) {
      yield* applications.get(applicationId)
      const nodes = yield* repository.listDeleted(applicationId, maxDeletedShown)
      return nodes.flatMap(({ deletedAt, deletedBy, ...node }) =>
        deletedAt === null || deletedBy === null ? [] : [{ ...shown(node), deletedAt, deletedBy }]
      )
    })

    /** The ids from the parent up to the root: it must be a folder of the tree, with room for `height` names below. */
    const requireParent = Effect.fnUntraced(function* (
      applicationId: ApplicationId,
      parentId: ConfigurationId | null,
      height: number
    ) {
      if (parentId === null) return []
      const parent = yield* Effect.mapError(repository.get(parentId), parentUnfit)
      if (parent.applicationId !== applicationId || parent.type === "file") return yield* parentUnfit()
      const ancestors = yield* repository.ancestors(parentId)
      if (ancestors.length + height > maximumDepth) return yield* new ConfigurationTooDeep({})
      return ancestors
    })

    const insert = Effect.fnUntraced(function* (
      { applicationId, name, parentId = null, schemaId = null, type }: NewConfiguration,
      content: StoredContent | null,
      passed: Passed
    ) {
      const stamp = yield* holds.tree(applicationId)
      yield* requireParent(applicationId, parentId, 1)
      const schema = yield* contents.schemaOf(applicationId, null, schemaId)
      const schemaVersion = schema?.version ?? null
      yield* requireValid(
        { name, content: content?.content ?? "" },
        { isSchema: false, schemaId, schemaVersion },
        passed
      )
      const id = yield* placements.insert({ applicationId, parentId, name, type, schemaId }, content, stamp)
      const node = yield* Effect.orDie(repository.get(id))
      return {
        value: { ...shown(node), ...(content === null ? {} : { content: content.content }) },
        entries: [entryOf(configurationActions.ConfigurationCreated, { after: node })]
      }
    }, audit.change)

    const create = Effect.fn("Configuration.create")(function* (input: NewConfiguration) {
      yield* requireFolderWithoutContent(input)
      const content = input.type === "folder" ? null : yield* contents.measure(input.content ?? "")
      return yield* contents.whenValid((passed) =>
        holds.inTurnOfTree(input.applicationId, insert(input, content, passed))
      )
    })

    const place = Effect.fnUntraced(function* (
      applicationId: ApplicationId,
      id: ConfigurationId,
      patch: ConfigurationPatch,
      passed: Passed
    ) {
      const { node: before, stamp } = yield* holds.inTree(applicationId, id)
      yield* requireLive(before)
      yield* requireMatch(before)
      const wanted = { ...before, ...given(patch, placed) }
      if (placed.every((key) => before[key] === wanted[key])) return { value: yield* get(id), entries: [] }
      const isMoved = before.parentId !== wanted.parentId
      if (isMoved) {
        const height = heightOf(yield* repository.below(id))
        const ancestors = yield* requireParent(before.applicationId, wanted.parentId, height)
        if (ancestors.includes(id)) return yield* new ConfigurationCycle({})
      }
      if (before.type === "folder" && wanted.schemaId !== null) return yield* new ConfigurationSchemaUnfit({})
      if (wanted.schemaId !== null) {
        const schema = yield* contents.schemaOf(before.applicationId, id, wanted.schemaId)
        const { content } = yield* repository.getWithContent(id)
        yield* requireValid(
          { name: wanted.name, content: content ?? "", version: before.version },
          { isSchema: false, schemaId: wanted.schemaId, schemaVersion: schema?.version ?? null },
          passed
        )
      }
      yield* placements.place(id, wanted, stamp)
      const after = yield* repository.get(id)
      const action =
        isMoved || before.name !== after.name
          ? configurationActions.ConfigurationMoved
          : configurationActions.ConfigurationUpdated
      return { value: yield* get(id), entries: [entryOf(action, { before, after })] }
    }, audit.change)

    const move = Effect.fn("Configuration.move")(function* (id: ConfigurationId, patch: ConfigurationPatch) {
      return yield* contents.whenValid((passed) =>
        holds.inTurnAround(id, (applicationId) => place(applicationId, id, patch, passed))
      )
    })

    const removeIn = Effect.fnUntraced(function* (applicationId: ApplicationId, id: ConfigurationId) {
      const { node: before, stamp } = yield* holds.inTree(applicationId, id)
      yield* requireLive(before)
      yield* requireMatch(before)
      const ids = (yield* repository.below(id)).map(({ id }) => id)
      if (yield* repository.isSchemaOutside(ids)) return yield* new ConfigurationSchemaInUse({})
      const nodes = yield* placements.delete(id, ids, stamp)
      yield* watch.announce(nodes.map(({ id }) => ({ id, version: null })))
      return { value: undefined, entries: nodes.map(deletedEntry(before.applicationId)) }
    }, audit.change)

    const remove = Effect.fn("Configuration.delete")((id: ConfigurationId) =>
      holds.inTurnAround(id, (applicationId) => removeIn(applicationId, id))
    )

    const restoreIn = Effect.fnUntraced(function* (applicationId: ApplicationId, id: ConfigurationId) {
      const { node: before, stamp } = yield* holds.inTree(applicationId, id)
      yield* requireMatch(before)
      if (before.deletedAt === null) return { value: yield* get(id), entries: [] }
      if (before.deletedWith !== id) {
        return yield* new ConfigurationParentUnfit({
          detail: `It was deleted with the folder ${before.deletedWith}; restore that.`
        })
      }
      const height = heightOf(yield* repository.deletedWith(id))
      yield* requireParent(before.applicationId, before.parentId, height)
      const nodes = yield* placements.restore(id, stamp)
      if (yield* repository.lacksSchema(nodes.map(({ id }) => id))) return yield* new ConfigurationSchemaUnfit({})
      return { value: yield* get(id), entries: nodes.map(restoredEntry(before.applicationId)) }
    }, audit.change)

    const restore = Effect.fn("Configuration.restore")((id: ConfigurationId) =>
      holds.inTurnAround(id, (applicationId) => restoreIn(applicationId, id))
    )

    return {
      /** The whole tree, in the form of the answer. */
      tree,
      get,
      getByPath,
      /** What can be restored, the latest thousand. */
      deleted,
      create,
      /** Renames, moves or gives another schema. */
      move,
      delete: remove,
      restore
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(
      Layer.mergeAll(ConfigurationRepository.layer, PlacementRepository.layer, ConfigurationLocks.layer, Contents.layer)
    )
  )
}

const heightOf = (nodes: ReadonlyArray<NodeDepth>): number =>
  nodes.reduce((most, { depth }) => Math.max(most, depth), 0)

const parentUnfit = () => new ConfigurationParentUnfit({})

const placed = ["name", "parentId", "schemaId"] as const

const shownFile = ({ content, ...node }: NodeWithContent): TaggedFile => ({
  ...shown(node),
  ...(content === null ? {} : { content })
})

/** Fails as the reading of a request does. */
const requireFolderWithoutContent = (input: NewConfiguration): Effect.Effect<void, ValidationFailed> => {
  if (input.type === "file") return Effect.void
  const errors = [
    ...(input.content === undefined ? [] : [{ path: ["payload", "content"], message: "A folder has no content" }]),
    ...((input.schemaId ?? null) === null ? [] : [{ path: ["payload", "schemaId"], message: "A folder has no schema" }])
  ]
  return errors.length === 0
    ? Effect.void
    : Effect.fail(new ValidationFailed({ errors, detail: "A folder has neither content nor schema." }))
}

// Ten thousand names are sorted in milliseconds here, where a database takes tens of them.
const byName = (a: TreeRow, b: TreeRow): number => (a.name < b.name ? -1 : 1)

/** The tree that an application's nodes make, siblings by name; each gets the path to it. */
export const treeOf = (
  applicationId: ApplicationId,
  nodes: ReadonlyArray<TreeRow>
): ReadonlyArray<ConfigurationTreeNodeEncoded> => {
  const below = new Map<number | null, Array<TreeRow>>()
  for (const node of nodes) {
    const siblings = below.get(node.parentId)
    if (siblings === undefined) below.set(node.parentId, [node])
    else siblings.push(node)
  }
  const branches = (parentId: number | null, parentPath: string): ReadonlyArray<ConfigurationTreeNodeEncoded> =>
    (below.get(parentId) ?? []).toSorted(byName).map((node) => {
      const path = `${parentPath}/${node.name}`
      const createdAt = node.createdAt.toISOString()
      const isAsCreated = node.updatedAt.getTime() === node.createdAt.getTime()
      return Object.assign(shown(node), {
        applicationId,
        path,
        createdAt,
        updatedAt: isAsCreated ? createdAt : node.updatedAt.toISOString(),
        children: node.type === "folder" ? branches(node.id, path) : []
      })
    })
  return branches(null, "")
}
