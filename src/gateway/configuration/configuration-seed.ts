import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { Context, Effect, FileSystem, Layer, Option, Schema } from "effect"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { faultsOf } from "../../platform/http/validation.ts"
import { SettingsError } from "../../platform/settings/settings-reader.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { GatewayDocument } from "./configuration-domain.ts"

/** Providers for which a key in the environment is enough. */
const accounts = [
  { id: "openai", dialect: "openai", baseUrl: "https://api.openai.com/v1", variable: "OPENAI_API_KEY" },
  { id: "anthropic", dialect: "anthropic", baseUrl: "https://api.anthropic.com", variable: "ANTHROPIC_API_KEY" }
] as const

const strict = { errors: "all", onExcessProperty: "error" } as const
const decode = Schema.decodeUnknownEffect(Schema.fromJsonString(GatewayDocument), strict)

/** Configurations that are not saved through the API: the environment, or a file that is managed elsewhere (GitOps). */
export class ConfigurationSeed extends Context.Service<
  ConfigurationSeed,
  {
    /** The configuration that applies until one is saved. */
    readonly withoutConfiguration: GatewayDocument
    /** The document of `Llm:ConfigFile`, if it is to be imported. */
    read(isWritten: boolean): Effect.Effect<Option.Option<GatewayDocument>, ValidationFailed>
    /** Aborts the start if the file of a setting cannot be imported. */
    failed(
      problem: { readonly detail: string; readonly errors?: ValidationFailed["errors"] },
      setting: "Llm:CatalogueFile" | "Llm:ConfigFile"
    ): Effect.Effect<never, SettingsError>
  }
>()("app/gateway/ConfigurationSeed") {
  static readonly layer = Layer.effect(
    ConfigurationSeed,
    Effect.gen(function* () {
      const files = yield* FileSystem.FileSystem
      const { llm, sources } = yield* Settings

      const read = Effect.fn("ConfigurationSeed.read")(function* (isWritten: boolean) {
        if (Option.isNone(llm.configFile) || (isWritten && !llm.configFileWins)) return Option.none()
        const text = yield* files.readFileString(llm.configFile.value).pipe(
          Effect.mapError(
            ({ reason }) =>
              new ValidationFailed({
                errors: [{ path: ["file"], message: `Cannot be read (${reason._tag})` }],
                detail: "The file of Llm:ConfigFile cannot be taken on."
              })
          )
        )
        return Option.some(
          yield* Effect.mapError(
            decode(text),
            (error) =>
              new ValidationFailed({
                errors: faultsOf("file", error),
                detail: "The file of Llm:ConfigFile cannot be taken on."
              })
          )
        )
      })

      return ConfigurationSeed.of({
        read,
        withoutConfiguration: {
          providers: accounts.flatMap(({ variable, ...account }) =>
            (process.env[variable] ?? "") === "" || !llm.environmentKeys.includes(variable)
              ? []
              : [{ ...account, apiKey: `env:${variable}` }]
          )
        },
        failed: ({ detail, errors = [] }, setting) =>
          Effect.fail(
            new SettingsError({
              faults: [
                {
                  name: setting,
                  source: sources.get(setting) ?? "default",
                  reason: [detail, ...errors.map(({ message, path }) => `${path.join(".")}: ${message}`)].join(" ")
                }
              ]
            })
          )
      })
    })
  ).pipe(Layer.provide(NodeFileSystem.layer))
}
