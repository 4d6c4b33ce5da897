import { Context, Effect, Layer } from "effect"
import { asSystem, Audit, auditOrigin } from "../../../audit/log/service.ts"
import { CurrentPrecondition, type Precondition } from "../../../kernel/http/precondition.ts"
import { makeBatcher } from "../../../platform/database/batcher.ts"
import { Diffs } from "../diffs/diffs.ts"
import { entryOf, shown, shownVersion } from "../model/audit-entries.ts"
import {
  configurationActions,
  type ConfigurationId,
  ConfigurationNoFile,
  type ConfigurationVersion,
  versionTag
} from "../model/domain.ts"
import { ConfigurationLocks, stamp } from "../model/locks.ts"
import { ConfigurationRepository } from "../model/repository.ts"
import { type StoredContent } from "../model/row-domain.ts"
import { Contents, type Passed, requireValid } from "../schema-validation/contents.ts"
import { type Save, VersionRepository } from "./version-repository.ts"
import { ConfigurationWatch } from "./watch.ts"

/** The contents of files: versions that are only ever added. */
export class ConfigurationFiles extends Context.Service<ConfigurationFiles>()("app/applications/ConfigurationFiles", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const contents = yield* Contents
    const diffs = yield* Diffs
    const holds = yield* ConfigurationLocks
    const repository = yield* ConfigurationRepository
    const versions = yield* VersionRepository
    const watch = yield* ConfigurationWatch

    /** Saves of many requests in one transaction; answers none for those that must go the long way. */
    const saveTogether = Effect.fnUntraced(
      function* (saves: ReadonlyArray<Save>) {
        const firsts = new Map(saves.toReversed().map((save) => [save.id, save]))
        const written = yield* versions.addTogether([...firsts.values()], holds.managed)
        yield* watch.announce(written.map(({ after }) => after))
        const byId = new Map(written.map((one) => [one.after.id, one.after]))
        return {
          value: saves.map((save) => (firsts.get(save.id) === save ? byId.get(save.id) : undefined)),
          entries: written.map(({ after, before }) =>
            entryOf(configurationActions.ConfigurationUpdated, {
              before,
              after,
              origin: firsts.get(after.id)?.origin
            })
          )
        }
      },
      audit.change,
      // It waits for no lock, so only a lost connection takes this long; later saves must not wait for that.
      Effect.timeoutOrElse({ duration: longestTogether, orElse: () => Effect.interrupt }),
      asSystem
    )
    const quickly = yield* makeBatcher({ maximum: maxTogether, run: saveTogether })

    const write = Effect.fnUntraced(function* (
      id: ConfigurationId,
      content: StoredContent,
      restoredFrom: number | null,
      passed: Passed
    ) {
      const before = yield* holds.node(id)
      if (before.type === "folder") return yield* new ConfigurationNoFile({})
      yield* requireValid({ name: before.name, content: content.content }, before, passed)
      const after = yield* versions.add(id, content, restoredFrom, yield* stamp)
      yield* watch.announce([after])
      const entry =
        restoredFrom === null
          ? entryOf(configurationActions.ConfigurationUpdated, { before, after })
          : entryOf(configurationActions.ConfigurationRolledBack, { before, after, more: { restoredFrom } })
      return { value: { ...shown(after), content: content.content }, entries: [entry] }
    }, audit.change)

    const save = Effect.fn("ConfigurationFiles.save")(function* (id: ConfigurationId, content: string) {
      const stored = yield* contents.measure(content)
      const versions = versionsIn(yield* CurrentPrecondition)
      if (stored.size <= maxBytesTogether && versions !== undefined) {
        const saved = yield* quickly.submit({ id, stored, versions, origin: yield* auditOrigin })
        if (saved !== undefined) return { ...shown(saved), content }
      }
      return yield* contents.whenValid((passed) => holds.inTurnOfNode(id, write(id, stored, null, passed)))
    })

    const fileOf = Effect.fnUntraced(function* (id: ConfigurationId) {
      const node = yield* repository.get(id)
      if (node.version === null) return yield* new ConfigurationNoFile({})
      return { ...node, version: node.version }
    })

    const rollback = Effect.fn("ConfigurationFiles.rollback")(function* (id: ConfigurationId, version: number) {
      yield* fileOf(id)
      const { content } = yield* versions.version(id, version)
      const stored = yield* Effect.orDie(contents.measure(content))
      return yield* contents.whenValid((passed) => holds.inTurnOfNode(id, write(id, stored, version, passed)))
    })

    const list = Effect.fn("ConfigurationFiles.versions")(function* (
      id: ConfigurationId,
      before: number | undefined,
      limit: number
    ) {
      const { version } = yield* fileOf(id)
      const items = yield* versions.versions(id, before ?? version + 1, limit)
      const last = items.at(-1)
      return {
        items: items.map(shownVersion),
        nextCursor: last === undefined || last.version === 1 ? null : last.version
      }
    })

    const version = Effect.fn("ConfigurationFiles.version")(function* (id: ConfigurationId, version: number) {
      yield* fileOf(id)
      return shownVersion(yield* versions.version(id, version))
    })

    const diff = Effect.fn("ConfigurationFiles.diff")(function* (
      id: ConfigurationId,
      givenFrom: number | undefined,
      givenTo: number | undefined
    ) {
      const file = yield* fileOf(id)
      const to = givenTo ?? file.version
      const from = givenFrom ?? Math.max(1, to - 1)
      const before = yield* versions.version(id, from)
      const after = yield* versions.version(id, to)
      return {
        from,
        to,
        diff: yield* diffs.unified({ path: file.path, before: textOf(before), after: textOf(after) })
      }
    })

    return {
      save,
      /** Adds a version with the content of an earlier one. */
      rollback,
      versions: list,
      version,
      /** To the newest version unless `to` says another; from the one before that unless `from` does. */
      diff
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(
      Layer.mergeAll(
        ConfigurationRepository.layer,
        VersionRepository.layer,
        ConfigurationLocks.layer,
        Contents.layer,
        Diffs.layer
      )
    )
  )
}

/** Contents of up to 64 KiB are saved many at a time: larger ones would make each other wait. */
const maxTogether = 64
const maxBytesTogether = 65_536
const longestTogether = "10 seconds"

/** The versions of a file that a precondition admits (null: any); undefined where they do not say it all. */
const versionsIn = (precondition: Precondition | undefined): ReadonlyArray<number> | null | undefined => {
  if (precondition === undefined) return null
  const { ifMatch, ifNoneMatch } = precondition
  if (ifNoneMatch !== undefined || ifMatch === undefined) return undefined
  return ifMatch === "*"
    ? null
    : ifMatch.flatMap((tag) => (/^"[1-9]\d{0,8}"$/.test(versionTag(tag)) ? [Number(versionTag(tag).slice(1, -1))] : []))
}

const textOf = ({ content, version }: ConfigurationVersion) => ({ content, version })
