import { Context, Effect, FileSystem, Layer, Option, Path, Redacted } from "effect"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { Change } from "../../audit/log/domain.ts"
import { CurrentPrincipal } from "../../kernel/principal.ts"
import { Sealing } from "../../platform/crypto/sealing.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { type KeyReference, referenceOf } from "./validate.ts"
import { SecretId } from "./configuration-domain.ts"
import { SecretRepository } from "./secret-repository.ts"

/** A key, or the reason why it is missing. */
export type ReadKey =
  | { readonly key: Redacted.Redacted<string> }
  | { readonly key: undefined; readonly warning: string }

const missing = (warning: string): ReadKey => ({ key: undefined, warning })

/** The keys of providers, wherever they are stored. */
export class ProviderKeys extends Context.Service<
  ProviderKeys,
  {
    /** Reads the key that a reference in the configuration points to. */
    read(apiKey: string): Effect.Effect<ReadKey>
    /** Stores a key within the current transaction; returns the reference that replaces it. */
    keep(key: string): Effect.Effect<string, never, Change>
    isKept(id: string): Effect.Effect<boolean>
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

      const inFile = Effect.fnUntraced(function* (name: string) {
        if (Option.isNone(llm.secretsDirectory)) return missing("Llm:SecretsDirectory is not set.")
        const directory = yield* files.realPath(llm.secretsDirectory.value)
        const file = yield* files.realPath(path.join(directory, name))
        // A symbolic link may lead out of the directory, which the file name does not show.
        if (!file.startsWith(`${directory}${path.sep}`)) return missing(`The file ${name} lies outside.`)
        const text = (yield* files.readFileString(file)).trim()
        return /^[\x21-\x7e]+$/.test(text) ? { key: Redacted.make(text) } : missing(`The file ${name} holds no key.`)
      })

      const sealed = Effect.fnUntraced(function* (id: SecretId) {
        const found = yield* repository.find(id)
        if (Option.isNone(found)) return missing("The saved key is gone.")
        const opened = yield* sealing.open(found.value, placeOf(id))
        return { key: Redacted.make(new TextDecoder().decode(Redacted.value(opened))) }
      })

      const resolve = (reference: KeyReference): Effect.Effect<ReadKey> => {
        switch (reference.kind) {
          case "environment": {
            const value = process.env[reference.name] ?? ""
            return Effect.succeed(
              value === ""
                ? missing(`The environment variable ${reference.name} is not set.`)
                : { key: Redacted.make(value) }
            )
          }
          case "file":
            return inFile(reference.name).pipe(
              Effect.catch(({ reason }) =>
                Effect.succeed(missing(`The file ${reference.name} cannot be read (${reason._tag}).`))
              )
            )
          case "secret":
            return sealed(SecretId.make(reference.id)).pipe(
              Effect.catch(({ message }) => Effect.succeed(missing(`The saved key stays closed: ${message}.`)))
            )
          case "literal":
            return Effect.succeed({ key: Redacted.make(reference.key) })
        }
      }

      return ProviderKeys.of({
        read: (apiKey) => resolve(referenceOf(apiKey)),
        keep: Effect.fn("ProviderKeys.keep")(function* (key) {
          const { occurredAt } = yield* Change
          const { name } = yield* CurrentPrincipal
          const id = yield* repository.nextId
          const closed = yield* sealing.seal(Redacted.make(new TextEncoder().encode(key)), placeOf(id))
          yield* repository.insert({ id, sealed: closed, at: occurredAt, by: name })
          return `secret:${id}`
        }),
        isKept: (id) => Effect.map(repository.find(SecretId.make(id)), Option.isSome)
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(Layer.mergeAll(SecretRepository.layer, NodeFileSystem.layer, NodePath.layer))
  )
}

const placeOf = (id: SecretId) => `gateway-secret:${id}`
