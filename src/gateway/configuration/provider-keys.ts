import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { Context, Effect, FileSystem, Layer, Option, Path, Redacted } from "effect"
import { Change } from "../../audit/log/domain.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { Sealing } from "../../platform/crypto/sealing.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { SecretId } from "./configuration-domain.ts"
import { SecretRepository } from "./secret-repository.ts"
import { type KeyReference, referenceOf } from "./validate.ts"

/** A key, or the reason why it is missing. */
export type ReadKey =
  | { readonly key: Redacted.Redacted<string> }
  | { readonly key: undefined; readonly warning: string }

const missing = (warning: string): ReadKey => ({ key: undefined, warning })

/** The keys of providers, wherever they are stored. */
export class ProviderKeys extends Context.Service<
  ProviderKeys,
  {
    /**
     * Reads the key that a reference in the configuration points to, for a provider at `baseUrl`; of a file also a document, whose
     * text may have blanks and lines.
     */
    read(apiKey: string, baseUrl: string, holds?: "document"): Effect.Effect<ReadKey>
    /** Stores a key within the current transaction, for the origin of `baseUrl` alone; returns its reference. */
    keep(key: string, baseUrl: string): Effect.Effect<string, never, Change>
  }
>()("app/gateway/ProviderKeys") {
  static readonly layerNoDeps = Layer.effect(
    ProviderKeys,
    Effect.gen(function* () {
      const files = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const repository = yield* SecretRepository
      const sealing = yield* Sealing
      const { llm } = yield* Settings

      const inFile = Effect.fnUntraced(function* (name: string, holds: "document" | undefined) {
        if (Option.isNone(llm.secretsDirectory)) return missing("Llm:SecretsDirectory is not set.")
        const directory = yield* files.realPath(llm.secretsDirectory.value)
        const file = yield* files.realPath(path.join(directory, name))
        // A symbolic link may lead out of the directory, which the file name does not show.
        if (!file.startsWith(`${directory}${path.sep}`))
          return missing(`The file ${name} lies outside Llm:SecretsDirectory.`)
        const text = (yield* files.readFileString(file)).trim()
        return holds === "document" || /^[\x21-\x7e]+$/.test(text)
          ? { key: Redacted.make(text) }
          : missing(`The file ${name} holds no key.`)
      })

      // The origin is part of what a key is sealed under, so that at another one it cannot be opened.
      const sealed = Effect.fnUntraced(function* (id: SecretId, baseUrl: string) {
        const found = yield* repository.find(id)
        if (Option.isNone(found)) return missing("No saved key has this id.")
        const opened = yield* sealing.open(found.value, placeOf(id, baseUrl))
        return { key: Redacted.make(new TextDecoder().decode(Redacted.value(opened))) }
      })

      const resolve = (reference: KeyReference, baseUrl: string, holds?: "document"): Effect.Effect<ReadKey> => {
        switch (reference.kind) {
          case "environment": {
            if (!llm.environmentKeys.includes(reference.name)) {
              return Effect.succeed(
                missing(`The environment variable ${reference.name} is not on the list Llm:EnvironmentKeys.`)
              )
            }
            const value = process.env[reference.name] ?? ""
            return Effect.succeed(
              value === ""
                ? missing(`The environment variable ${reference.name} is not set.`)
                : { key: Redacted.make(value) }
            )
          }
          case "file":
            return inFile(reference.name, holds).pipe(
              Effect.catch(({ reason }) =>
                Effect.succeed(missing(`The file ${reference.name} cannot be read (${reason._tag}).`))
              )
            )
          case "secret":
            return sealed(SecretId.make(reference.id), baseUrl).pipe(
              Effect.catch(({ reason }) =>
                Effect.succeed(
                  missing(
                    reason === "damaged"
                      ? `The saved key was stored for another origin than ${originOf(baseUrl)}; give the key itself.`
                      : "The saved key was encrypted under another Security:EncryptionKey."
                  )
                )
              )
            )
          case "literal":
            return Effect.succeed({ key: Redacted.make(reference.key) })
        }
      }

      return ProviderKeys.of({
        read: (apiKey, baseUrl, holds) => resolve(referenceOf(apiKey), baseUrl, holds),
        keep: Effect.fn("ProviderKeys.keep")(function* (key, baseUrl) {
          const { occurredAt } = yield* Change
          const { name } = yield* CurrentPrincipal
          const id = yield* repository.nextId
          const closed = yield* sealing.seal(Redacted.make(new TextEncoder().encode(key)), placeOf(id, baseUrl))
          yield* repository.insert({ id, sealed: closed, at: occurredAt, by: name })
          return `secret:${id}`
        })
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(Layer.mergeAll(SecretRepository.layer, NodeFileSystem.layer, NodePath.layer))
  )
}

const originOf = (baseUrl: string) => URL.parse(baseUrl)?.origin ?? ""
const placeOf = (id: SecretId, baseUrl: string) => `gateway-secret:${id}:${originOf(baseUrl)}`
