import { Context, Effect, Layer, Option } from "effect"
import { type Change } from "../../../audit/log/domain.ts"
import { type Slice } from "../../../kernel/http/page.ts"
import { requireUnwritten, type VersionMismatch } from "../../../kernel/http/precondition.ts"
import { type PayloadTooLarge } from "../../../kernel/problems/problems.ts"
import { type ApplicationId } from "../../applications/domain.ts"
import { Applications } from "../../applications/service.ts"
import { auditSnapshot, shownVersion } from "../model/audit-entries.ts"
import { ConfigurationVersionNotFound, type ShownVersion } from "../model/domain.ts"
import { requireMatch, stamp } from "../model/locks.ts"
import { PlacementRepository } from "../model/placement-repository.ts"
import { ConfigurationRepository } from "../model/repository.ts"
import { Contents } from "../schema-validation/contents.ts"
import { VersionRepository } from "./version-repository.ts"
import { ConfigurationWatch } from "./watch.ts"

/** The current version of a system-owned file. */
export interface SystemOwnedContent {
  readonly version: number
  readonly content: string
}

/** A file at the root of a built-in application that only its own feature writes. */
export interface SystemOwnedFile {
  readonly current: Effect.Effect<Option.Option<SystemOwnedContent>>
  /** Adds a version within the change in hand, whose entry keeps how it was and is; the file is made where there is none. */
  write(
    content: string,
    restoredFrom?: number
  ): Effect.Effect<
    { readonly version: number; readonly before: object | undefined; readonly after: object },
    VersionMismatch | PayloadTooLarge,
    Change
  >
  version(version: number): Effect.Effect<ShownVersion, ConfigurationVersionNotFound>
  versions(before: number | undefined, limit: number): Effect.Effect<Slice<ShownVersion, number>>
}

/** Files that a feature of this service owns: versioned, watched and read like all configuration. */
export class SystemOwnedFiles extends Context.Service<SystemOwnedFiles>()("app/applications/SystemOwnedFiles", {
  make: Effect.gen(function* () {
    const applications = yield* Applications
    const contents = yield* Contents
    const placements = yield* PlacementRepository
    const repository = yield* ConfigurationRepository
    const versions = yield* VersionRepository
    const watch = yield* ConfigurationWatch

    const fileOf = (applicationId: ApplicationId, name: string): SystemOwnedFile => {
      const find = Effect.option(repository.findByPath(applicationId, [name]))

      const write: SystemOwnedFile["write"] = Effect.fn("SystemOwnedFile.write")(function* (content, restoredFrom) {
        const stored = yield* contents.measure(content)
        yield* Effect.orDie(applications.lockShared(applicationId))
        const { at, by } = yield* stamp
        const placed = { at: yield* repository.lockTree(applicationId, at), by }
        const found = yield* find
        if (Option.isNone(found)) {
          yield* requireUnwritten
          const node = { applicationId, parentId: null, name, type: "file", schemaId: null } as const
          const id = yield* Effect.orDie(placements.insert(node, stored, placed))
          const after = yield* Effect.orDie(repository.get(id))
          return { version: 1, before: undefined, after: auditSnapshot(after) }
        }
        const before = yield* Effect.orDie(repository.lock(found.value.id))
        yield* requireMatch(before)
        const after = yield* versions.add(before.id, stored, restoredFrom ?? null, placed)
        yield* watch.announce([after])
        const record = { ...auditSnapshot(after), ...(restoredFrom === undefined ? {} : { restoredFrom }) }
        return { version: after.version ?? 1, before: auditSnapshot(before), after: record }
      })

      const versionNotFound = new ConfigurationVersionNotFound({})

      return {
        write,
        current: Effect.map(
          find,
          Option.flatMap(({ content, version }) =>
            content === null || version === null ? Option.none() : Option.some({ content, version })
          )
        ),
        version: Effect.fn("SystemOwnedFile.version")(function* (version) {
          const found = yield* find
          if (Option.isNone(found)) return yield* versionNotFound
          return shownVersion(yield* versions.version(found.value.id, version))
        }),
        versions: Effect.fn("SystemOwnedFile.versions")(function* (before, limit) {
          const found = yield* find
          if (Option.isNone(found)) return { items: [], nextCursor: null }
          const newest = found.value.version ?? 0
          const items = yield* versions.versions(found.value.id, before ?? newest + 1, limit)
          const last = items.at(-1)
          const nextCursor = last === undefined || last.version === 1 ? null : last.version
          return { items: items.map(shownVersion), nextCursor }
        })
      }
    }

    return {
      file: (slug: string, name: string) =>
        Effect.map(Effect.orDie(applications.getBySlug(slug)), ({ id }) => fileOf(id, name))
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(
      Layer.mergeAll(ConfigurationRepository.layer, VersionRepository.layer, PlacementRepository.layer, Contents.layer)
    )
  )
}
