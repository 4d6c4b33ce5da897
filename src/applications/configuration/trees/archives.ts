import { Context, DateTime, Effect, Layer, Stream } from "effect"
import { Zip } from "effect/encoding"
import { type Download } from "../../../platform/http/downloads.ts"
import { type ApplicationId, type ApplicationNotFound } from "../../applications/domain.ts"
import { Applications } from "../../applications/service.ts"
import { ConfigurationNotPortable } from "../model/domain.ts"
import { inBatchesOf, type StandingNode } from "../model/row-domain.ts"
import { type ArchiveNode } from "./domain.ts"
import { TreeRepository } from "./repository.ts"
import { isPortable, manifestName, nodesOfZip } from "./zip-archive.ts"

/** Whole trees as one document: JSON or a zip archive. */
export class ConfigurationArchives extends Context.Service<ConfigurationArchives>()(
  "app/applications/ConfigurationArchives",
  {
    make: Effect.gen(function* () {
      const applications = yield* Applications
      const trees = yield* TreeRepository

      /** The nodes with their contents: versions never change, so what was listed at one moment is read as it was then. */
      const archived = (nodes: ReadonlyArray<StandingNode>): Stream.Stream<ArchiveNode> => {
        const paths = new Map(nodes.map(({ id, path }) => [id, path]))
        return Stream.fromIterable(inBatchesOf(nodes, ({ size }) => size ?? 0)).pipe(
          Stream.mapEffect((batch) =>
            Effect.flatMap(
              trees.contents(batch.flatMap(({ id, version }) => (version === null ? [] : [{ id, version }]))),
              (rows) => {
                const contents = new Map(rows.map(({ content, id }) => [id, content]))
                // The answer has begun, so all that can be done for a tree that is removed meanwhile is to break it off.
                if (batch.some(({ id, type }) => type === "file" && !contents.has(id))) {
                  return Effect.die(new Error("A file was removed for good while it was exported"))
                }
                return Effect.succeed(
                  batch.map(({ id, path, schemaId, type }): ArchiveNode => {
                    if (type === "folder") return { path, type }
                    const schema = schemaId === null ? undefined : paths.get(schemaId)
                    return { path, type, content: contents.get(id) ?? "", ...(schema === undefined ? {} : { schema }) }
                  })
                )
              }
            )
          ),
          Stream.flattenIterable
        )
      }

      const exported = Effect.fn("ConfigurationArchives.exported")(function* (
        applicationId: ApplicationId,
        format: "json" | "zip"
      ): Effect.fn.Return<Download, ApplicationNotFound | ConfigurationNotPortable> {
        const { slug } = yield* applications.get(applicationId)
        const nodes = yield* trees.standing(applicationId)
        const fileName = `${slug}-configuration.${format}`
        if (format === "zip") {
          const paths = nodes.flatMap(({ path }) => (isPortable(path) ? [] : [path]))
          if (paths.length > 0) return yield* new ConfigurationNotPortable({ paths: paths.slice(0, maxNamed) })
          return { fileName, contentType: "application/zip", content: Stream.orDie(zipped(nodes, archived(nodes))) }
        }
        const head = JSON.stringify({ applicationId, exportedAt: DateTime.formatIso(yield* DateTime.now) })
        const items = Stream.zipWithIndex(archived(nodes)).pipe(
          Stream.map(([node, index]) => `${index === 0 ? "" : ","}${JSON.stringify(node)}`)
        )
        const text = Stream.make(`${head.slice(0, -1)},"nodes":[`).pipe(
          Stream.concat(items),
          Stream.concat(Stream.make("]}"))
        )
        return { fileName, contentType: "application/json", content: Stream.encodeText(text) }
      })

      return {
        /** The tree as it is at this moment, sent while its contents are read. */
        exported,
        /** The files and folders of a zip archive. */
        readZip: Effect.fn("ConfigurationArchives.readZip")(nodesOfZip)
      }
    })
  }
) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(TreeRepository.layer))
}

const maxNamed = 20

const zipped = (standing: ReadonlyArray<StandingNode>, nodes: Stream.Stream<ArchiveNode>) => {
  const paths = new Map(standing.map(({ id, path }) => [id, path]))
  const bound = standing.flatMap(({ path, schemaId }) =>
    schemaId === null ? [] : [[path, paths.get(schemaId) ?? null] as const]
  )
  const manifest =
    bound.length === 0
      ? Stream.empty
      : Stream.make(Zip.file(manifestName, JSON.stringify({ schemas: Object.fromEntries(bound) })))
  const entries = Stream.map(nodes, ({ content = "", path, type }) =>
    type === "folder" ? Zip.directory(`${path.slice(1)}/`) : Zip.file(path.slice(1), content)
  )
  return Stream.concat(manifest, entries).pipe(Stream.pipeThroughChannel(Zip.encode()))
}
