import { Context, DateTime, Effect, Layer } from "effect"
import { Audit } from "../../../audit/log/service.ts"
import { type Fault } from "../../../kernel/problems/problem.ts"
import { ValidationFailed } from "../../../kernel/problems/problems.ts"
import { type ApplicationId } from "../../applications/domain.ts"
import { ConfigurationWatch } from "../files/watch.ts"
import { ConfigurationHistoryGone, type ConfigurationId, configurationTreeActions } from "../model/domain.ts"
import { ConfigurationLocks } from "../model/locks.ts"
import { nameOf, parentPath } from "../model/path-domain.ts"
import { type Stamp, type StandingNode, type WrittenNode } from "../model/row-domain.ts"
import { Contents, type Passed, requirePassed } from "../schema-validation/contents.ts"
import { treeEntries } from "./audit-entries.ts"
import { TreeChangeRepository } from "./change-repository.ts"
import { type ArchiveNode, type ImportMode, tooManyNodes, type TreeRollback } from "./domain.ts"
import {
  type Archive,
  type ArchivedNode,
  archiveOf,
  planImport,
  validationsOf,
  type WantedNode
} from "./import-plan.ts"
import { TreeRepository } from "./repository.ts"
import { planRollback } from "./rollback-plan.ts"

/** With `dryRun` nothing is changed. */
export interface ImportOptions {
  readonly mode: ImportMode
  readonly dryRun: boolean
  /** Whether faults name nodes by their path or by their place in the list. */
  readonly nodesBy: "index" | "path"
}

/** Changes of a whole tree, each in one transaction. */
export class ConfigurationTrees extends Context.Service<ConfigurationTrees>()("app/applications/ConfigurationTrees", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const contents = yield* Contents
    const holds = yield* ConfigurationLocks
    const trees = yield* TreeRepository
    const treeChanges = yield* TreeChangeRepository
    const watch = yield* ConfigurationWatch

    const announce = (written: ReadonlyArray<WrittenNode>, deleted: ReadonlyArray<{ readonly id: ConfigurationId }>) =>
      watch.announce([...written, ...deleted.map(({ id }) => ({ id, version: null }))])

    const rollBack = Effect.fnUntraced(function* (request: TreeRollback) {
      const { applicationId, at, dryRun = false } = request
      if (DateTime.isGreaterThan(at, yield* DateTime.now)) return yield* inTheFuture
      const stamp = yield* holds.tree(applicationId)
      const nodes = yield* trees.thenAndNow(applicationId, DateTime.toDateUtc(at))
      const { changes, contents, gone, placings } = planRollback(nodes)
      if (gone.length > 0) return yield* new ConfigurationHistoryGone({ names: gone.slice(0, maxNames) })
      const value = { applicationId, dryRun, changes }
      if (dryRun || changes.length === 0) return { value, entries: [] }

      const placed = yield* treeChanges.place(placings, stamp)
      yield* treeChanges.detachDeleted(applicationId)
      const taken = yield* treeChanges.takeBack(contents, stamp)
      const deleted = placings.filter(({ deletedWith }) => deletedWith !== null)
      yield* announce(taken, deleted)
      return {
        value,
        entries: treeEntries(
          configurationTreeActions.ConfigurationTreeRolledBack,
          value,
          { at: DateTime.formatIso(at) },
          new Map(nodes.map((node) => [node.id, node])),
          byId([...placed, ...taken])
        )
      }
    }, audit.change)

    const rollback = Effect.fn("ConfigurationTrees.rollback")((request: TreeRollback) =>
      holds.inTurnOfTree(request.applicationId, rollBack(request))
    )

    const measure = Effect.fnUntraced(function* (nodes: ReadonlyArray<ArchiveNode>, nodesBy: ImportOptions["nodesBy"]) {
      const errors: Array<Fault> = []
      const measure: Array<ArchivedNode> = []
      for (const [index, { content, path, schema, type }] of nodes.entries()) {
        const at = nodesBy === "index" ? ["payload", "nodes", index] : ["payload", path]
        if (type === "folder" && content !== undefined) {
          errors.push({ path: [...at, "content"], message: "A folder has no content" })
        }
        // A missing member must not empty an existing file.
        if (type === "file" && content === undefined) {
          errors.push({ path: [...at, "content"], message: "A file has content; an empty one has an empty text" })
        }
        const stored = type === "folder" ? null : yield* contents.measure(content ?? "")
        const sha256 = stored === null ? null : Buffer.from(stored.sha256).toString("hex")
        measure.push({ path, type, stored, sha256, schema, at })
      }
      return errors.length === 0 ? measure : yield* invalid(errors)
    })

    /** Makes the nodes that are missing, level by level, since a node needs its parent's id. */
    const make = Effect.fnUntraced(function* (
      applicationId: ApplicationId,
      wanted: ReadonlyArray<WantedNode>,
      stamp: Stamp
    ) {
      const ids = new Map(wanted.flatMap(({ id, path }) => (id === null ? [] : [[path, id] as const])))
      const written: Array<WrittenNode> = []
      const missing = wanted.filter(({ id }) => id === null)
      for (const level of Map.groupBy(missing, ({ depth }) => depth).values()) {
        const paths = new Map<string, string>()
        const nodes = level.map(({ archived, path, type }) => {
          const parentId = ids.get(parentPath(path)) ?? null
          const name = nameOf(path)
          paths.set(`${parentId}/${name}`, path)
          return { parentId, name, type, stored: archived?.stored ?? null }
        })
        for (const node of yield* treeChanges.insert(applicationId, nodes, stamp)) {
          ids.set(paths.get(`${node.parentId}/${node.name}`) ?? "", node.id)
          written.push(node)
        }
      }
      return { ids, written }
    })

    const apply = Effect.fnUntraced(function* (
      applicationId: ApplicationId,
      archive: Archive,
      { dryRun, mode }: ImportOptions,
      passed: Passed
    ) {
      const stamp = yield* holds.tree(applicationId)
      const standing = yield* trees.standing(applicationId)
      const { changes, deleted, faults, wanted } = planImport(archive, standing, mode)
      if (faults.length > 0) return yield* invalid(faults)
      yield* requirePassed(validationsOf(wanted), passed)
      if (dryRun || changes.length === 0) return { value: { applicationId, dryRun, changes }, entries: [] }

      yield* treeChanges.delete(withRoots(deleted), stamp)
      const nodes = [...wanted.values()]
      const { ids, written } = yield* make(applicationId, nodes, stamp)
      const updated = yield* treeChanges.addVersions(
        nodes.flatMap(({ archived, id, isUpdated }) =>
          id !== null && isUpdated && archived?.stored ? [{ id, stored: archived.stored }] : []
        ),
        stamp
      )
      const bound = yield* treeChanges.bind(
        nodes.flatMap(({ id, isRebound, path, schema }) => {
          const made = ids.get(path)
          if (made === undefined || !(isRebound || (id === null && schema !== null))) return []
          return [{ id: made, schemaId: schema === null ? null : (ids.get(schema) ?? null) }]
        }),
        stamp
      )
      yield* announce(updated, deleted)
      const value = {
        applicationId,
        dryRun,
        changes: changes.map(({ changes, id, path, previousPath, type }) => ({
          id: id ?? ids.get(path) ?? null,
          type,
          path,
          previousPath,
          changes
        }))
      }
      return {
        value,
        entries: treeEntries(
          configurationTreeActions.ConfigurationImported,
          value,
          { mode },
          new Map(standing.map((node) => [node.id, node])),
          byId([...written, ...updated, ...bound])
        )
      }
    }, audit.change)

    const importAll = Effect.fn("ConfigurationTrees.importAll")(function* (
      applicationId: ApplicationId,
      nodes: ReadonlyArray<ArchiveNode>,
      options: ImportOptions
    ) {
      const archive = archiveOf(yield* measure(nodes, options.nodesBy))
      if (archive === undefined) return yield* tooManyNodes()
      return yield* contents.whenValid((passed) =>
        holds.inTurnOfTree(applicationId, apply(applicationId, archive, options, passed))
      )
    })

    return {
      /** Takes a tree back to what it was at a moment, or says what that would change. */
      rollback,
      /** Makes a tree what an archive says, or says what that would change. */
      importAll
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(
      Layer.mergeAll(TreeRepository.layer, TreeChangeRepository.layer, ConfigurationLocks.layer, Contents.layer)
    )
  )
}

const maxNames = 100
const maxFaults = 100

const byId = (nodes: ReadonlyArray<WrittenNode>) => new Map(nodes.map((node) => [node.id, node]))

const invalid = (errors: ReadonlyArray<Fault>) =>
  Effect.fail(
    new ValidationFailed({
      errors: errors.slice(0, maxFaults),
      detail: "The archive is not a valid tree; `errors` lists every place."
    })
  )

const inTheFuture = Effect.fail(
  new ValidationFailed({
    errors: [{ path: ["payload", "at"], message: "Expected a moment that is not in the future" }],
    detail: "A tree goes back to what it was, so the moment must not be in the future."
  })
)

/** What is deleted, each with the topmost node that is deleted above it. */
const withRoots = (deleted: ReadonlyArray<StandingNode>) => {
  const ids = new Map(deleted.map(({ id, path }) => [path, id]))
  const rootOf = (path: string, id: ConfigurationId): ConfigurationId => {
    const above = parentPath(path)
    const parent = above === "" ? undefined : ids.get(above)
    return parent === undefined ? id : rootOf(above, parent)
  }
  return deleted.map(({ id, path }) => ({ id, deletedWith: rootOf(path, id) }))
}
