import { Context, DateTime, Effect, Layer, Option, Redacted } from "effect"
import { Digest, Mac, SecureRandom } from "effect/crypto"
import { asSystem, Audit } from "../audit/log/service.ts"
import { auditActions } from "../kernel/authority/audit-action.ts"
import { Settings } from "../platform/settings/settings.ts"
import { InstallationRepository } from "./repository.ts"

export const installationActions = auditActions("Installation", ["ServiceAccountKeyCreated"])

/** The key of the service account: set by `Api:ApiKey`, or made at the first start in Development. */
export class ServiceAccount extends Context.Service<
  ServiceAccount,
  {
    /** Whether a presented key is the service account's, compared in constant time. */
    owns(key: string): Effect.Effect<boolean>
    /**
     * The key of a fresh Development installation, made now and to be shown once; none when there is one. For the end of a
     * start: a start that fails before it would lose the key.
     */
    readonly firstKey: Effect.Effect<Option.Option<Redacted.Redacted>>
  }
>()("app/access/ServiceAccount") {
  static readonly layer = Layer.effect(
    ServiceAccount,
    Effect.gen(function* () {
      const settings = yield* Settings
      const digest = yield* Digest.Digest
      const utf8 = new TextEncoder()
      const digestOf = (key: string) => digest.digest(Digest.sha256, utf8.encode(key))

      const configured = settings.api.apiKey
      if (Option.isSome(configured) && Redacted.value(configured.value).length < 32) {
        yield* Effect.logWarning("Api:ApiKey is shorter than 32 characters; a longer one cannot be guessed")
      }
      const makesKey = Option.isNone(configured) && settings.environment === "Development"
      const repository = yield* InstallationRepository
      const context = yield* Effect.context<Audit | Digest.Digest | SecureRandom.SecureRandom>()
      const stored = Effect.map(
        repository.keyDigest,
        Option.map((hex) => new Uint8Array(Buffer.from(hex, "hex")))
      )
      let expected = Option.isSome(configured)
        ? Option.some(yield* digestOf(Redacted.value(configured.value)))
        : makesKey
          ? yield* stored
          : Option.none()

      // Issued keys have a form of their own, so they are not weighed against another one's digest on every request.
      const looksIssued = Option.exists(configured, (key) => Redacted.value(key).startsWith("amk_"))
      const no = Effect.succeed(false)
      return ServiceAccount.of({
        owns: (key) => {
          const own = Option.getOrUndefined(expected)
          return own === undefined || (key.startsWith("amk_") && !looksIssued)
            ? no
            : Effect.map(digestOf(key), (presented) => Mac.timingSafeEqual(own, presented))
        },
        firstKey: makesKey
          ? Effect.gen(function* () {
              const made = yield* makeOnce(repository)
              expected = yield* stored
              return made
            }).pipe(Effect.provide(context))
          : Effect.succeedNone
      })
    })
  ).pipe(Layer.provide(InstallationRepository.layer))
}

/** Makes the key of a fresh Development installation; only the replica that stored its digest learns it. */
const makeOnce = Effect.fnUntraced(function* (repository: InstallationRepository["Service"]) {
  if (Option.isSome(yield* repository.keyDigest)) return Option.none()
  const audit = yield* Audit
  const digest = yield* Digest.Digest
  const random = yield* SecureRandom.SecureRandom
  const key = `ams_${Buffer.from(yield* random.randomBytes(32)).toString("base64url")}`
  const digestHex = yield* digest.digestHex(Digest.sha256, new TextEncoder().encode(key))
  const stored = yield* Effect.gen(function* () {
    const first = yield* repository.storeKeyDigest(digestHex, yield* DateTime.now)
    return {
      value: first,
      entries: first ? [{ action: installationActions.ServiceAccountKeyCreated, entityId: "service-account" }] : []
    }
  }).pipe(audit.change, asSystem)
  return stored ? Option.some(Redacted.make(key, { label: "service-account-key" })) : Option.none()
})
