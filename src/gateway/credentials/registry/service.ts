import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { Clock, Context, Effect, FileSystem, Layer, Redacted, Scope } from "effect"
import { type Credential, noCredential, unusedCredential } from "../../providers/credential.ts"
import { awsServiceOf } from "../aws/hosts.ts"
import { awsKeys } from "../aws/keys.ts"
import { awsSigner, makeAwsClock } from "../aws/signer.ts"
import { type ConfiguredCredential } from "../domain.ts"
import { WorkloadIssuer } from "../issuer/workload-issuer.ts"
import { credentialSources, type CredentialSources, type ReadSecret } from "../sources.ts"
import { CredentialUnavailable, makeTokenSource, type Obtained, type TokenSource } from "../token-source.ts"
import { makeCredentialHttp } from "../vendor-exchange.ts"
import { entraToken } from "../vendors/entra.ts"
import { anthropicOauthBeta, federatedToken } from "../vendors/federation.ts"
import { googleToken } from "../vendors/google.ts"
import { credentialSeen } from "./credential-metrics.ts"

/** A credential that changes: not a key, which is sent as it is. */
export type ChangingCredential = Exclude<ConfiguredCredential, { readonly type: "key" }>

/** A provider whose credential is to be opened. */
export interface CredentialOwner {
  readonly id: string
  readonly baseUrl: string
  readonly credential: ChangingCredential
  /** Whether its requests go to deployments by `api-version`. */
  readonly isDeployment: boolean
}

/** The credentials of the configured providers. One that is configured as before keeps what it holds. */
export class Credentials extends Context.Service<
  Credentials,
  {
    open(owner: CredentialOwner, read: ReadSecret): Effect.Effect<Credential>
    /** Forgets those of all other providers. */
    keepOnly(providers: ReadonlyArray<string>): Effect.Effect<void>
  }
>()("app/gateway/Credentials") {
  static readonly layerNoDeps = Layer.effect(
    Credentials,
    Effect.gen(function* () {
      const files = yield* FileSystem.FileSystem
      const http = yield* makeCredentialHttp
      const issuer = yield* WorkloadIssuer
      const scope = yield* Effect.scope
      const opened = new Map<string, { readonly as: string; readonly credential: Credential }>()

      const made = Effect.fnUntraced(function* (
        { baseUrl, credential, id, isDeployment }: CredentialOwner,
        sources: CredentialSources
      ): Effect.fn.Return<Credential, never, Scope.Scope> {
        switch (credential.type) {
          case "aws": {
            const service = awsServiceOf(baseUrl, credential)
            const clock = makeAwsClock(yield* Clock.Clock)
            const keys =
              service === undefined
                ? Effect.fail(noService)
                : awsKeys(http, sources, credential, { region: service.region, clock })
            return awsSigner(yield* sourceOf(id, keys), service ?? nowhere, clock)
          }
          case "entra": {
            const resource = isDeployment ? "cognitiveservices" : "ai"
            const scope = `https://${resource}.azure.com/.default`
            return bearer(yield* sourceOf(id, entraToken(http, sources, credential, scope)))
          }
          case "google":
            return bearer(yield* sourceOf(id, googleToken(http, sources, credential)))
          case "federation":
            return bearer(
              yield* sourceOf(id, federatedToken(http, sources, credential)),
              credential.vendor === "anthropic" ? anthropicOauthBeta : undefined
            )
        }
      })

      const open = Effect.fn("Credentials.open")(function* (owner: CredentialOwner, read: ReadSecret) {
        const as = JSON.stringify(owner)
        const known = opened.get(owner.id)
        if (known?.as === as) return known.credential
        const sources = credentialSources(files, read, (audience) => issuer.issue(owner.id, audience))
        // Calls that began before go on with what they have, so that nothing of theirs ends here.
        const credential = yield* Scope.provide(made(owner, sources), scope)
        opened.set(owner.id, { as, credential })
        return credential
      })

      return Credentials.of({
        open,
        keepOnly: (providers) =>
          Effect.sync(() => {
            for (const id of opened.keys()) {
              if (providers.includes(id)) continue
              opened.delete(id)
              // An alert about one that is gone would never end.
              credentialSeen(id, unusedCredential)
            }
          })
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(Layer.merge(WorkloadIssuer.layer, NodeFileSystem.layer)))
}

const sourceOf = <A>(id: string, obtain: Effect.Effect<Obtained<A>, CredentialUnavailable>) =>
  makeTokenSource(
    Effect.tapError(obtain, ({ detail }) =>
      Effect.logWarning(`The credential of the provider ${id} could not be obtained: ${detail}`)
    ),
    (state) => credentialSeen(id, state)
  )

const nowhere = { service: "", region: "" }
const noService = new CredentialUnavailable({ detail: "The host names no region, and no other is given" })

const authorizationOf = (token: Redacted.Redacted) => `Bearer ${Redacted.value(token)}`

/** A credential that is a bearer token (RFC 6750), with a beta of Anthropic's API that its requests need. */
const bearer = (source: TokenSource<Redacted.Redacted>, beta?: string): Credential => ({
  authorize: ({ headers }) =>
    source.get.pipe(
      Effect.map((value) => ({
        authorization: authorizationOf(value),
        ...(beta === undefined ? {} : { "anthropic-beta": [headers["anthropic-beta"], beta].filter(Boolean).join(",") })
      })),
      Effect.mapError(() => noCredential)
    ),
  refused: ({ status }, sent) =>
    status === 401 ? source.giveUp((value) => authorizationOf(value) === sent.authorization) : Effect.succeed(false),
  secrets: () => {
    const held = source.held()
    return held === undefined ? [] : [Redacted.value(held)]
  },
  state: source.state
})
