import { Effect, type FileSystem, Redacted } from "effect"
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
}

/** What reads the references of a configuration. */
export type ReadSecret = (
  reference: string
) => Effect.Effect<{ readonly key: Redacted.Redacted | undefined; readonly warning?: string }>

const longestToken = 65_536

/** The sources of a provider's credential; `issue` makes a token of the gateway's own issuer. */
export const credentialSources = (
  files: FileSystem.FileSystem,
  read: ReadSecret,
  issue: (audience: string) => Effect.Effect<Redacted.Redacted, CredentialUnavailable>
): CredentialSources => {
  const secret = (reference: string) =>
    Effect.flatMap(read(reference), ({ key, warning = "It cannot be read." }) =>
      key === undefined ? Effect.fail(new CredentialUnavailable({ detail: warning })) : Effect.succeed(key)
    )
  return {
    environment: (name) => {
      const value = process.env[name]
      return value === "" ? undefined : value
    },
    secret,
    assertion: (from, audience) => (from === "issuer" ? issue(audience) : secret(from)),
    tokenFile: (path) =>
      files.readFileString(path).pipe(
        Effect.mapError(
          ({ reason }) => new CredentialUnavailable({ detail: `${path} cannot be read (${reason._tag})` })
        ),
        Effect.flatMap((text) => {
          const token = text.trim()
          return token.length <= longestToken && /^[\x21-\x7e]+$/.test(token)
            ? Effect.succeed(Redacted.make(token))
            : Effect.fail(new CredentialUnavailable({ detail: `${path} holds no token` }))
        })
      )
  }
}
