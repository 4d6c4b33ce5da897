import { Effect, type FileSystem, Redacted } from "effect"
import { isJson, type Json, parsedJson } from "../../kernel/json/parsed-json.ts"
import { CredentialUnavailable } from "./token-source.ts"

/** What a credential of a provider is made from. */
export interface CredentialSources {
  /** A variable of the process's environment, where it is set. */
  environment(name: string): string | undefined
  /** What a reference of the configuration leads to, as a provider's `apiKey` has it; read again each time. */
  secret(reference: string): Effect.Effect<Redacted.Redacted, CredentialUnavailable>
  /** A token of the gateway's own issuer for an audience, or what a file below Llm:SecretsDirectory has now. */
  assertion(from: string, audience: string): Effect.Effect<Redacted.Redacted, CredentialUnavailable>
  /** The token in a file that the platform names in the environment and renews. */
  tokenFile(path: string): Effect.Effect<Redacted.Redacted, CredentialUnavailable>
  /** The JSON object in a file below Llm:SecretsDirectory (`file:NAME`), or in one that the platform names by its path. */
  document(from: string): Effect.Effect<Redacted.Redacted<Json>, CredentialUnavailable>
}

/** What reads the references of a configuration. */
export type ReadSecret = (
  reference: string,
  holds?: "document"
) => Effect.Effect<{ readonly key: Redacted.Redacted | undefined; readonly warning?: string }>

const longestToken = 65_536
const longestDocument = 1_048_576

/** The sources of a provider's credential; `issue` makes a token of the gateway's own issuer. */
export const credentialSources = (
  files: FileSystem.FileSystem,
  read: ReadSecret,
  issue: (audience: string) => Effect.Effect<Redacted.Redacted, CredentialUnavailable>
): CredentialSources => {
  const secret = (reference: string, holds?: "document") =>
    Effect.flatMap(read(reference, holds), ({ key, warning = "It cannot be read." }) =>
      key === undefined ? Effect.fail(new CredentialUnavailable({ detail: warning })) : Effect.succeed(key)
    )
  const textOf = (path: string) =>
    files
      .readFileString(path)
      .pipe(
        Effect.mapError(
          ({ reason }) => new CredentialUnavailable({ detail: `${path} cannot be read (${reason._tag})` })
        )
      )
  return {
    environment: (name) => {
      const value = process.env[name]
      return value === "" ? undefined : value
    },
    secret: (reference) => secret(reference),
    assertion: (from, audience) => (from === "issuer" ? issue(audience) : secret(from)),
    tokenFile: (path) =>
      Effect.flatMap(textOf(path), (text) => {
        const token = text.trim()
        return token.length <= longestToken && /^[\x21-\x7e]+$/.test(token)
          ? Effect.succeed(Redacted.make(token))
          : Effect.fail(new CredentialUnavailable({ detail: `${path} holds no token` }))
      }),
    document: (from) =>
      Effect.flatMap(
        from.startsWith("file:") ? Effect.map(secret(from, "document"), (text) => Redacted.value(text)) : textOf(from),
        (text) => {
          const value = text.length <= longestDocument ? parsedJson(text) : undefined
          return isJson(value)
            ? Effect.succeed(Redacted.make(value))
            : Effect.fail(new CredentialUnavailable({ detail: `${from} holds no JSON object` }))
        }
      )
  }
}
