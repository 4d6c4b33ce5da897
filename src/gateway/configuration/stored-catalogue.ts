import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { Context, Effect, FileSystem, Layer, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { type SystemOwnedContent, SystemOwnedFiles } from "../../applications/configuration/files/system-owned-files.ts"
import { type ShownVersion } from "../../applications/configuration/model/domain.ts"
import { asSystem, Audit } from "../../audit/log/service.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type Slice } from "../../kernel/http/page.ts"
import { type VersionMismatch } from "../../kernel/http/precondition.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import { type PayloadTooLarge, ValidationFailed } from "../../kernel/problems/problems.ts"
import { Notifications } from "../../platform/database/notifications.ts"
import { faultsOf } from "../../platform/http/validation.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { CatalogueDocument } from "../catalog/catalogue-domain.ts"
import { builtInCatalogue, builtInDocument, type Catalogue, catalogueOf } from "../catalog/catalogue.ts"
import { catalogueActions } from "./configuration-domain.ts"

/** A catalogue and its version; the built-in one has none. */
export interface VersionedCatalogue {
  readonly version: number | null
  readonly document: CatalogueDocument
}

type Unwriteable = PayloadTooLarge | ValidationFailed | VersionMismatch

/** The operator's catalogue: one document with all of its versions, beside the gateway's configuration. */
export class StoredCatalogue extends Context.Service<
  StoredCatalogue,
  {
    /** The document that was written last, or the built-in one. */
    readonly get: Effect.Effect<VersionedCatalogue>
    /** The catalogue that calls are priced by, and its version. */
    readonly current: Effect.Effect<{ readonly version: number | null; readonly catalogue: Catalogue }>
    /** Writes a document; `committed` runs here when it is stored, and every replica is notified. */
    put(document: CatalogueDocument, committed: Effect.Effect<void>): Effect.Effect<VersionedCatalogue, Unwriteable>
    versions(before: number | undefined, limit: number): Effect.Effect<Slice<ShownVersion, number>>
    /** Imports the file of `Llm:CatalogueFile` if it has changed. */
    readonly takeFile: Effect.Effect<void, PayloadTooLarge | ValidationFailed>
  }
>()("app/gateway/StoredCatalogue") {
  static readonly layerNoDeps = Layer.effect(
    StoredCatalogue,
    Effect.gen(function* () {
      const audit = yield* Audit
      const file = yield* (yield* SystemOwnedFiles).file("llm-gateway", "catalogue.json")
      const files = yield* FileSystem.FileSystem
      const notifications = yield* Notifications
      const sql = yield* SqlClient.SqlClient
      const { llm } = yield* Settings
      let known: { readonly version: number | null; readonly catalogue: Catalogue } = {
        version: null,
        catalogue: builtInCatalogue
      }

      const current = Effect.map(file.current, (stored) => {
        const version = Option.match(stored, { onNone: () => null, onSome: (found) => found.version })
        // A catalogue is large, so it is read once.
        if (version !== known.version) {
          const own = Option.map(stored, ({ content }) => decode(content))
          known = { version, catalogue: catalogueOf(Option.getOrUndefined(own), version ?? undefined) }
        }
        return known
      })

      const get = Effect.map(
        file.current,
        Option.match({ onNone: () => ({ version: null, document: builtInDocument }), onSome: versioned })
      )

      const write = Effect.fnUntraced(function* (document: CatalogueDocument, committed: Effect.Effect<void>) {
        const { after, before, version } = yield* file.write(encode(document))
        yield* notifications.notify(topic, String(version))
        yield* sql.afterCommit(committed)
        const action = catalogueActions.GatewayCatalogueUpdated
        return { value: { version, document }, entries: [{ action, entityId: "llm-gateway", before, after }] }
      }, audit.change)

      const put = Effect.fn("StoredCatalogue.put")(function* (
        document: CatalogueDocument,
        committed: Effect.Effect<void>
      ) {
        const errors = faultsIn(document)
        if (errors.length > 0) return yield* new ValidationFailed({ errors })
        return yield* write(document, committed)
      })

      const detail = "The file of Llm:CatalogueFile cannot be taken on."

      /** Whether the file goes before the stored document: not before one that was written through the API. */
      const isFileFirst = Effect.fnUntraced(function* (stored: Option.Option<SystemOwnedContent>) {
        if (Option.isNone(stored) || llm.configFileWins) return true
        const { createdBy } = yield* Effect.orDie(file.version(stored.value.version))
        return createdBy === (yield* CurrentPrincipal).name
      })

      const takeFile = Effect.fn("StoredCatalogue.takeFile")(function* () {
        if (Option.isNone(llm.catalogueFile)) return
        const text = yield* files.readFileString(llm.catalogueFile.value).pipe(
          Effect.mapError(({ reason }) => {
            const errors = [{ path: ["file"], message: `Cannot be read (${reason._tag})` }]
            return new ValidationFailed({ errors, detail })
          })
        )
        const document = yield* Effect.mapError(
          decodeFile(text),
          (error) => new ValidationFailed({ errors: faultsOf("file", error), detail })
        )
        const stored = yield* file.current
        const isStored = Option.exists(stored, ({ content }) => content === encode(document))
        if (isStored || !(yield* isFileFirst(stored))) return
        // A write without a precondition cannot fail with VersionMismatch.
        yield* Effect.catchTag(put(document, Effect.void), "VersionMismatch", Effect.die)
      }, asSystem)

      return StoredCatalogue.of({
        get,
        current,
        put,
        versions: Effect.fn("StoredCatalogue.versions")(file.versions),
        takeFile: takeFile()
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(Layer.merge(SystemOwnedFiles.layer, NodeFileSystem.layer))
  )
}

/** The notifications of a change, which carry the version. */
export const topic = "gateway_catalogue"

const fromText = Schema.fromJsonString(CatalogueDocument)
const decode = Schema.decodeUnknownSync(fromText)
const decodeFile = Schema.decodeUnknownEffect(fromText, { errors: "all", onExcessProperty: "error" })
const encode = Schema.encodeSync(fromText)

const versioned = ({ content, version }: SystemOwnedContent): VersionedCatalogue => ({
  version,
  document: decode(content)
})

/** Validates a catalogue beyond the form of its members; returns every error with its path. */
const faultsIn = ({ betas = [], models, tools = [] }: CatalogueDocument): ReadonlyArray<Fault> => {
  const faults: Array<Fault> = []
  const names = new Set<string>()
  for (const [index, { model, provider }] of models.entries()) {
    const name = `${provider}/${model}`
    if (names.has(name)) {
      faults.push({
        path: ["payload", "models", index, "model"],
        message: "This model of this provider is there twice"
      })
    }
    names.add(name)
  }
  const providers = new Set<string>()
  for (const [index, { provider }] of tools.entries()) {
    if (providers.has(provider)) {
      faults.push({ path: ["payload", "tools", index, "provider"], message: "This provider is there twice" })
    }
    providers.add(provider)
  }
  const values = new Set<string>()
  for (const [index, { beta, provider }] of betas.entries()) {
    const name = `${provider}/${beta}`
    if (values.has(name)) {
      faults.push({ path: ["payload", "betas", index, "beta"], message: "This value of this provider is there twice" })
    }
    values.add(name)
  }
  return faults
}
