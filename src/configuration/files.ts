import { Context, Effect, Layer, Option, TextDiff } from "effect"
import { Audit } from "../audit/service.ts"
import { type Slice } from "../kernel/page.ts"
import { type IfMatch, type VersionMismatch, versionsIn } from "../kernel/precondition.ts"
import { type PayloadTooLarge, type ValidationFailed } from "../kernel/problems.ts"
import { Contents, type Passed, requireChecked } from "./contents.ts"
import {
  configurationActions,
  type ConfigurationDiff,
  type ConfigurationFile,
  type ConfigurationId,
  type ConfigurationVersion,
  type ShownVersion
} from "./domain.ts"
import { ConfigurationHolds, stamp } from "./holds.ts"
import {
  type ConfigurationManaged,
  ConfigurationNoFile,
  type ConfigurationNotFound,
  type ConfigurationVersionNotFound
} from "./problem-domain.ts"
import { entryOf, shown, shownVersion } from "./records.ts"
import { ConfigurationRepository } from "./repository.ts"
import { type StoredContent } from "./row-domain.ts"
import { VersionRepository } from "./version-repository.ts"
import { ConfigurationWatch } from "./watch.ts"

/** What may keep a file from getting a new version. */
type Unwriteable =
  | ConfigurationManaged
  | ConfigurationNoFile
  | ConfigurationNotFound
  | ValidationFailed
  | VersionMismatch

/** The contents of files: versions that are only ever added. */
export class ConfigurationFiles extends Context.Service<
  ConfigurationFiles,
  {
    save(
      id: ConfigurationId,
      content: string,
      ifMatch: IfMatch | undefined
    ): Effect.Effect<ConfigurationFile, Unwriteable | PayloadTooLarge>
    /** Adds a version with the content of an earlier one. */
    rollback(
      id: ConfigurationId,
      version: number,
      ifMatch: IfMatch | undefined
    ): Effect.Effect<ConfigurationFile, Unwriteable | ConfigurationVersionNotFound>
    versions(
      id: ConfigurationId,
      before: number | undefined,
      limit: number
    ): Effect.Effect<Slice<ShownVersion, number>, ConfigurationNotFound | ConfigurationNoFile>
    version(
      id: ConfigurationId,
      version: number
    ): Effect.Effect<ShownVersion, ConfigurationNotFound | ConfigurationNoFile | ConfigurationVersionNotFound>
    /** To the newest version unless `to` says another; from the one before that unless `from` does. */
    diff(
      id: ConfigurationId,
      from: number | undefined,
      to: number | undefined
    ): Effect.Effect<ConfigurationDiff, ConfigurationNotFound | ConfigurationNoFile | ConfigurationVersionNotFound>
  }
>()("app/configuration/ConfigurationFiles") {
  static readonly layerNoDeps = Layer.effect(
    ConfigurationFiles,
    Effect.gen(function* () {
      const audit = yield* Audit
      const contents = yield* Contents
      const holds = yield* ConfigurationHolds
      const repository = yield* ConfigurationRepository
      const versions = yield* VersionRepository
      const watch = yield* ConfigurationWatch

      /** The long way, for a file that must be looked at first, or that may not be written. */
      const writeChecked = Effect.fnUntraced(function* (
        id: ConfigurationId,
        content: StoredContent,
        restoredFrom: number | null,
        ifMatch: IfMatch | undefined,
        passed: Passed
      ) {
        const before = yield* holds.node(id, ifMatch)
        if (before.type === "folder") return yield* new ConfigurationNoFile({})
        yield* requireChecked({ name: before.name, content: content.content }, before, passed)
        return { before, after: yield* versions.add(id, content, restoredFrom, yield* stamp) }
      })

      const write = Effect.fnUntraced(function* (
        id: ConfigurationId,
        content: StoredContent,
        restoredFrom: number | null,
        ifMatch: IfMatch | undefined,
        passed: Passed
      ) {
        const unless = { versions: versionsIn(ifMatch), managed: holds.managed }
        const written = yield* versions.addUnless(id, content, restoredFrom, unless, yield* stamp)
        const { after, before } = Option.isSome(written)
          ? written.value
          : yield* writeChecked(id, content, restoredFrom, ifMatch, passed)
        yield* watch.announce([after])
        const entry =
          restoredFrom === null
            ? entryOf(configurationActions.ConfigurationUpdated, { before, after })
            : entryOf(configurationActions.ConfigurationRolledBack, { before, after, more: { restoredFrom } })
        return { value: { ...shown(after), content: content.content }, entries: [entry] }
      }, audit.change)

      const save = Effect.fn("ConfigurationFiles.save")(function* (
        id: ConfigurationId,
        content: string,
        ifMatch: IfMatch | undefined
      ) {
        const stored = yield* contents.measured(content)
        return yield* contents.whenChecked((passed) => write(id, stored, null, ifMatch, passed))
      })

      const fileOf = Effect.fnUntraced(function* (id: ConfigurationId) {
        const node = yield* repository.get(id)
        if (node.version === null) return yield* new ConfigurationNoFile({})
        return { ...node, version: node.version }
      })

      const rollback = Effect.fn("ConfigurationFiles.rollback")(function* (
        id: ConfigurationId,
        version: number,
        ifMatch: IfMatch | undefined
      ) {
        yield* fileOf(id)
        const { content } = yield* versions.version(id, version)
        const stored = yield* Effect.orDie(contents.measured(content))
        return yield* contents.whenChecked((passed) => write(id, stored, version, ifMatch, passed))
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
        return { from, to, diff: unifiedDiff(file.path, before, after) }
      })

      return ConfigurationFiles.of({ save, rollback, versions: list, version, diff })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(
      Layer.mergeAll(ConfigurationRepository.layer, VersionRepository.layer, ConfigurationHolds.layer, Contents.layer)
    )
  )
}

/** What the search for a small diff may cost, in compared lines; past it a region is shown as removed and added. */
const mostComparisons = 20_000_000

const unifiedDiff = (path: string, before: ConfigurationVersion, after: ConfigurationVersion): string => {
  const lineCount = before.content.split("\n").length + after.content.split("\n").length
  const edits = TextDiff.lines(before.content, after.content, { maxEdits: Math.ceil(mostComparisons / lineCount) })
  // A line break in a name would end the header line that it stands in.
  const name = /[\p{Cc}"\\]/u.test(path) ? JSON.stringify(path) : path
  return TextDiff.unified(edits, {
    fromFile: `${name}\tversion ${before.version}`,
    toFile: `${name}\tversion ${after.version}`
  })
}
