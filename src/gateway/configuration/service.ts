import { Context, Effect, Layer, Option, Schedule, Schema, Semaphore } from "effect"
import { SqlClient } from "effect/sql"
import { type SystemOwnedContent, SystemOwnedFiles } from "../../applications/configuration/files/system-owned-files.ts"
import { type ConfigurationVersionNotFound, type ShownVersion } from "../../applications/configuration/model/domain.ts"
import { asSystem, Audit } from "../../audit/log/service.ts"
import { type Slice } from "../../kernel/http/page.ts"
import { type VersionMismatch } from "../../kernel/http/precondition.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import { type PayloadTooLarge, ValidationFailed } from "../../kernel/problems/problems.ts"
import { Notifications } from "../../platform/database/notifications.ts"
import { type CatalogueDocument } from "../catalog/catalogue-domain.ts"
import { otherThanHosts } from "../credentials/registry/vendor-hosts.ts"
import { CredentialAddresses } from "../credentials/vendor-exchange.ts"
import {
  configurationActions,
  type ConfiguredProvider,
  GatewayDocument,
  type GatewayReload
} from "./configuration-domain.ts"
import { ConfigurationSeed } from "./configuration-seed.ts"
import { Connections } from "./connections.ts"
import { type GatewaySnapshot, gatewaySnapshot } from "./gateway-snapshot.ts"
import { ProviderKeys } from "./provider-keys.ts"
import { StoredCatalogue, topic as catalogueTopic, type VersionedCatalogue } from "./stored-catalogue.ts"
import { credentialsOf, faultsIn, referenceOf, withCredentials } from "./validate.ts"

const topic = "gateway_configuration"
const resyncEvery = "15 seconds"

/** A configuration and its version. */
export interface VersionedDocument {
  readonly version: number | null
  readonly document: GatewayDocument
}

type Unwriteable = PayloadTooLarge | ValidationFailed | VersionMismatch

/** The gateway's configuration: one document, all of its versions, and the one active in this replica. */
export class GatewayConfiguration extends Context.Service<
  GatewayConfiguration,
  {
    /** The active configuration; every call reads it. */
    readonly snapshot: () => GatewaySnapshot
    readonly get: Effect.Effect<VersionedDocument>
    put(document: GatewayDocument): Effect.Effect<VersionedDocument, Unwriteable>
    versions(before: number | undefined, limit: number): Effect.Effect<Slice<ShownVersion, number>>
    rollback(version: number): Effect.Effect<VersionedDocument, Unwriteable | ConfigurationVersionNotFound>
    readonly catalogue: Effect.Effect<VersionedCatalogue>
    putCatalogue(document: CatalogueDocument): Effect.Effect<VersionedCatalogue, Unwriteable>
    catalogueVersions(before: number | undefined, limit: number): Effect.Effect<Slice<ShownVersion, number>>
    /** Reads the configuration and all keys again, in every replica. */
    readonly reload: Effect.Effect<GatewayReload, PayloadTooLarge | ValidationFailed>
  }
>()("app/gateway/GatewayConfiguration") {
  static readonly layerNoDeps = Layer.effect(
    GatewayConfiguration,
    Effect.gen(function* () {
      const audit = yield* Audit
      const catalogues = yield* StoredCatalogue
      const connections = yield* Connections
      const keys = yield* ProviderKeys
      const notifications = yield* Notifications
      const seed = yield* ConfigurationSeed
      const file = yield* (yield* SystemOwnedFiles).file("llm-gateway", "gateway.json")
      const one = yield* Semaphore.make(1)
      const { loopback } = connections
      const sql = yield* SqlClient.SqlClient
      const { isTrusted } = yield* CredentialAddresses
      let snapshot = gatewaySnapshot({}, null, loopback, [], [])
      let catalogueVersion: number | null = null

      const current = Effect.map(
        file.current,
        Option.match({ onNone: () => ({ version: null, document: seed.withoutConfiguration }), onSome: versioned })
      )

      /** Activates the stored configuration; with `always` even if it is active already, so that keys are read again. */
      const take = Effect.fnUntraced(function* (always: boolean) {
        const stored = yield* current
        const { catalogue, version } = yield* catalogues.current
        if (!always && stored.version === snapshot.version && version === catalogueVersion) return
        const { providers, warnings } = yield* connections.open(stored.document)
        snapshot = gatewaySnapshot(stored.document, stored.version, loopback, providers, warnings, catalogue)
        catalogueVersion = version
      }, one.withPermit)

      const resync = Effect.catchCause(take(false), (cause) =>
        Effect.logWarning("Could not read the gateway's configuration", cause)
      )

      /** Every error of a document, including those of key references. */
      const check = Effect.fnUntraced(function* (document: GatewayDocument) {
        const errors: Array<Fault> = [...faultsIn(document)]
        for (const [index, provider] of (document.providers ?? []).entries()) {
          const { credential: changing } = provider
          const url = new URL(provider.baseUrl)
          const hosts = changing === undefined || isTrusted(url) ? undefined : otherThanHosts(changing, url)
          if (hosts !== undefined) {
            const message = `Expected https and one of the hosts that the credential may be sent to: ${hosts.join(", ")}`
            errors.push({ path: ["payload", "providers", index, "baseUrl"], message })
          }
          const keyFile = changing?.type === "google" ? changing.keyFile : undefined
          if (keyFile !== undefined) {
            const read = yield* keys.read(keyFile, provider.baseUrl, "document")
            const path = ["payload", "providers", index, "credential", "keyFile"]
            if (read.key === undefined) errors.push({ path, message: read.warning })
          }
          for (const [place, credential, baseUrl] of credentialsOf(provider)) {
            const reference = referenceOf(credential)
            const path = ["payload", "providers", index, ...place]
            if (reference.kind === "literal" || errors.some((fault) => fault.path.join() === path.join())) continue
            const read = yield* keys.read(credential, baseUrl)
            if (read.key === undefined) errors.push({ path, message: read.warning })
          }
        }
        if (errors.length > 0) return yield* new ValidationFailed({ errors })
      })

      const kept = (credential: string, baseUrl: string) =>
        referenceOf(credential).kind === "literal" ? keys.keep(credential, baseUrl) : Effect.succeed(credential)
      const withKeptKeys = (provider: ConfiguredProvider) =>
        Effect.map(
          Effect.forEach(credentialsOf(provider), ([path, reference, baseUrl]) =>
            Effect.map(kept(reference, baseUrl), (reference) => [path, reference] as const)
          ),
          (references) => withCredentials(provider, references)
        )

      const write = Effect.fnUntraced(function* (given: GatewayDocument, restoredFrom: number | undefined) {
        const document =
          given.providers === undefined
            ? given
            : { ...given, providers: yield* Effect.forEach(given.providers, withKeptKeys) }
        const { after, before, version } = yield* file.write(textOf(document), restoredFrom)
        yield* notifications.notify(topic, String(version))
        // Others may wait for a connection in their turn to activate, so no transaction waits for a turn.
        yield* sql.afterCommit(resync)
        const action =
          restoredFrom === undefined
            ? configurationActions.GatewayConfigurationUpdated
            : configurationActions.GatewayConfigurationRolledBack
        return { value: { version, document }, entries: [{ action, entityId: "llm-gateway", before, after }] }
      }, audit.change)

      const put = Effect.fn("GatewayConfiguration.put")(function* (document: GatewayDocument) {
        yield* check(document)
        return yield* write(document, undefined)
      })

      const rollback = Effect.fn("GatewayConfiguration.rollback")(function* (version: number) {
        const { content } = yield* file.version(version)
        const { document } = versioned({ content, version })
        yield* check(document)
        return yield* write(document, version)
      })

      /** Imports the file of `Llm:ConfigFile` if it is to be imported and differs from the stored configuration. */
      const takeSeed = Effect.fnUntraced(function* () {
        const stored = yield* current
        const seeded = yield* seed.read(stored.version !== null)
        if (Option.isNone(seeded)) return
        if (stored.version !== null && textOf(seeded.value) === textOf(stored.document)) return
        yield* check(seeded.value)
        // A write without a precondition cannot fail with VersionMismatch.
        yield* Effect.catchTag(write(seeded.value, undefined), "VersionMismatch", Effect.die)
      }, asSystem)

      const reload = Effect.gen(function* () {
        yield* catalogues.takeFile
        yield* takeSeed()
        yield* take(true)
        yield* notifications.send(topic, "reload")
        const { models, providers, version, warnings } = snapshot
        return { version, providers: [...providers.keys()], models: models.map(({ id }) => id), warnings }
      }).pipe(Effect.withSpan("GatewayConfiguration.reload"))

      yield* Effect.catch(catalogues.takeFile, (problem) => seed.failed(problem, "Llm:CatalogueFile"))
      yield* Effect.catch(takeSeed(), (problem) => seed.failed(problem, "Llm:ConfigFile"))
      yield* take(true)
      yield* notifications.subscribe(topic, {
        onMessage: (payload) => (payload === "reload" ? take(true) : resync),
        onGap: resync
      })
      yield* notifications.subscribe(catalogueTopic, { onMessage: () => resync, onGap: resync })
      yield* resync.pipe(Effect.repeat(Schedule.spaced(resyncEvery)), Effect.forkScoped)

      return GatewayConfiguration.of({
        snapshot: () => snapshot,
        get: current,
        put,
        versions: Effect.fn("GatewayConfiguration.versions")(file.versions),
        rollback,
        catalogue: catalogues.get,
        putCatalogue: (document) => catalogues.put(document, resync),
        catalogueVersions: catalogues.versions,
        reload
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(
      Layer.mergeAll(
        Connections.layer,
        ProviderKeys.layer,
        ConfigurationSeed.layer,
        SystemOwnedFiles.layer,
        StoredCatalogue.layer
      )
    )
  )
}

const fromText = Schema.fromJsonString(GatewayDocument)
const decode = Schema.decodeUnknownSync(fromText)
const encode = Schema.encodeSync(GatewayDocument)

/** Only validated documents are stored, and a later release can read those of an earlier one. */
const versioned = ({ content, version }: SystemOwnedContent): VersionedDocument => ({
  version,
  document: decode(content)
})

const textOf = (document: GatewayDocument): string => `${JSON.stringify(encode(document), undefined, 2)}\n`
