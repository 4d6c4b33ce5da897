import { Context, Data, DateTime, Effect, Layer, Option, Redacted, Schema } from "effect"
import { Digest, Mac, SecureRandom } from "effect/crypto"
import { Model } from "effect/schema"
import { RateLimits } from "../../access/rate-limits.ts"
import { type Application, ApplicationId, type ApplicationStatus } from "../../applications/applications/domain.ts"
import { Applications } from "../../applications/applications/service.ts"
import { changesOf } from "../../audit/log/change-entries.ts"
import { type AuditDraft, type AuditOrigin } from "../../audit/log/domain.ts"
import { asSystem, Audit, auditOrigin } from "../../audit/log/service.ts"
import { callerBounds } from "../../kernel/authority/authority.ts"
import { type Capability, distinct, missing } from "../../kernel/authority/capability.ts"
import { requireSeen } from "../../kernel/http/precondition.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { slugFrom } from "../../kernel/slug.ts"
import { generate, sha256Of } from "../../platform/crypto/opaque-tokens.ts"
import { Sealing } from "../../platform/crypto/sealing.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { Tenants } from "../../tenants/service.ts"
import { type ApiKeyId, type ApiKeyView } from "../api-keys/domain.ts"
import { ApiKeys } from "../api-keys/service.ts"
import { OAuthError } from "../oauth/oauth-error.ts"
import { RegistrationTokens } from "../registration-tokens/service.ts"
import {
  ApplicationNotPending,
  noGrants,
  Registration,
  registrationActions,
  type RegistrationApproval,
  RegistrationView
} from "./domain.ts"
import { type Described, invalidMetadata, readMetadata } from "./metadata.ts"
import { RegistrationsRepository } from "./repository.ts"

/** What is known of a registration at one time. */
interface State {
  readonly registration: Registration
  readonly status: ApplicationStatus
  /** The key that the approval issued and those that took its place, the newest last. */
  readonly keys: ReadonlyArray<ApiKeyView>
}

/** Applications that register themselves (RFC 7591, RFC 7592), and get an API key once they are approved. */
export class Registrations extends Context.Service<Registrations>()("app/agents/Registrations", {
  make: Effect.gen(function* () {
    const apiKeys = yield* ApiKeys
    const applications = yield* Applications
    const audit = yield* Audit
    const digest = yield* Digest.Digest
    const limits = yield* RateLimits
    const random = yield* SecureRandom.SecureRandom
    const repository = yield* RegistrationsRepository
    const sealing = yield* Sealing
    const tenants = yield* Tenants
    const tokens = yield* RegistrationTokens
    const { api, applications: settings } = yield* Settings

    /** One answer for an unknown client and for a wrong token, so that none learns which clients there are. */
    const refuse = (target: string, reason: string) =>
      audit
        .refused({ action: registrationActions.ApplicationRegistrationRefused, target, reason })
        .pipe(Effect.andThen(Effect.fail(reason === "no-token" ? noToken : invalidToken)))

    const keysOf = (id: ApiKeyId | null) => (id === null ? Effect.succeed([]) : asSystem(apiKeys.rotations(id)))

    const stateOf = Effect.fnUntraced(function* (registration: Registration, { status }: Application) {
      const state: State = { registration, status, keys: yield* keysOf(registration.apiKeyId) }
      return state
    })

    /** What a client reads of its own registration (RFC 7591 §3.2.1), with the token that it presented. */
    const answerOf = (
      { keys, registration: row, status }: State,
      accessToken: Redacted.Redacted,
      secret?: { readonly key: Redacted.Redacted; readonly expiresAt: DateTime.Utc | null }
    ): Readonly<Record<string, unknown>> =>
      withoutNulls({
        client_id: String(row.id),
        client_id_issued_at: secondsOf(row.createdAt),
        registration_access_token: Redacted.value(accessToken),
        registration_client_uri: `${api.publicUrl}/api/applications/register/${row.id}`,
        status,
        client_secret: secret === undefined ? null : Redacted.value(secret.key),
        client_secret_expires_at:
          secret === undefined ? null : secret.expiresAt === null ? 0 : secondsOf(secret.expiresAt),
        client_name: row.clientName,
        client_uri: row.clientUri,
        redirect_uris: row.redirectUris,
        jwks: row.jwks,
        jwks_uri: row.jwksUri,
        scope: row.requestedScopes.join(" "),
        granted_scope: grantedIn(keys).join(" "),
        contacts: row.contacts,
        software_id: row.softwareId,
        software_version: row.softwareVersion,
        ...noGrants
      })

    const register = Effect.fn("Registrations.register")(function* <R>(
      body: Effect.Effect<unknown, OAuthError, R>,
      token: Redacted.Redacted | undefined
    ) {
      yield* limits.anonymous
      if (token === undefined && !settings.openRegistration) return yield* refuse("application", "no-token")
      if (token !== undefined && !(yield* tokens.isLive(token))) return yield* refuse("application", "token-not-live")
      const described = yield* readMetadata(yield* body)
      const accessToken = yield* generate(random, "amr")
      const suffix = Buffer.from(yield* random.randomBytes(4)).toString("hex")
      const origin = yield* auditOrigin
      const registered = Effect.gen(function* () {
        const spent = token === undefined ? Option.none() : yield* tokens.spend(token)
        if (token !== undefined && Option.isNone(spent)) return yield* new TokenSpent()
        if (
          token === undefined &&
          (yield* repository.waiting(settings.maxOpenRegistrations)) >= settings.maxOpenRegistrations
        ) {
          return yield* tooManyWait
        }
        const name = described.clientName ?? "Unnamed application"
        // A stranger must not take the slug that an administrator would give an application.
        const slug = `${slugFrom(name, "application").slice(0, 54)}-${suffix}`
        const application = yield* Effect.orDie(applications.insertPending(name, slug))
        const now = Model.Override(yield* DateTime.now)
        const registration = yield* repository.insert(
          Registration.insert.make({
            ...described,
            id: application.id,
            accessTokenSha256: yield* sha256Of(digest, accessToken),
            apiKeyId: null,
            sealedSecret: null,
            registrationTokenId: Option.match(spent, { onNone: () => null, onSome: ({ value }) => value.id }),
            createdAt: now,
            updatedAt: now
          })
        )
        const state = yield* stateOf(registration, application)
        const used = Option.match(spent, { onNone: () => [], onSome: ({ entries }) => entries })
        const { entries } = changes.created(registrationActions.ApplicationRegistered, toView(state), used)
        return { value: state, entries: from(origin, entries) }
      })
      const state = yield* registered.pipe(
        audit.change,
        asSystem,
        Effect.catchTag("TokenSpent", () => refuse("application", "token-not-live"))
      )
      return answerOf(state, accessToken)
    })

    /** The registration whose token a client presents; an unknown client takes the same work. */
    const authorized = Effect.fn("Registrations.authorized")(function* (
      clientId: string,
      token: Redacted.Redacted | undefined
    ) {
      yield* limits.anonymous
      const id = Option.getOrElse(decodeClientId(clientId), () => noApplication)
      const presented = yield* sha256Of(digest, token ?? nothing)
      const found = Option.getOrUndefined(yield* Effect.option(repository.get(id)))
      const same = Mac.timingSafeEqual(found?.accessTokenSha256 ?? dummy, presented)
      if (token === undefined) return yield* refuse("application", "no-token")
      if (found === undefined) return yield* refuse("application", "unknown-client")
      return same ? found : yield* refuse(String(id), "wrong-token")
    })

    /** Takes application and registration for a change, in the order in which a deletion does. */
    const take = Effect.fnUntraced(function* (id: ApplicationId) {
      const application = yield* applications.lock(id)
      const registration = yield* repository.lock({ id })
      return { application, registration, state: yield* stateOf(registration, application) }
    })

    /** The same for the client itself, which learns nothing of what was deleted meanwhile. */
    const takeOwn = (id: ApplicationId) =>
      Effect.catchTags(take(id), {
        ApplicationNotFound: () => Effect.fail(invalidToken),
        RegistrationNotFound: () => Effect.fail(invalidToken)
      })

    const deliver = Effect.fn("Registrations.deliver")(function* (id: ApplicationId, origin: AuditOrigin) {
      const { registration, state } = yield* takeOwn(id)
      const [issued] = state.keys
      const { sealedSecret } = registration
      if (sealedSecret === null || issued === undefined) return { value: { state, secret: undefined }, entries: [] }
      const opened = yield* Effect.orDie(sealing.open(sealedSecret, placeOf(id)))
      const after = yield* repository.update({
        ...registration,
        sealedSecret: null,
        updatedAt: Model.Override(registration.updatedAt)
      })
      const key = Redacted.make(new TextDecoder().decode(Redacted.value(opened)), { label: "api-key" })
      const secret = issued.status === "active" ? { key, expiresAt: issued.expiresAt } : undefined
      const entry = { action: registrationActions.ApplicationSecretDelivered, entityId: id, applicationId: id }
      return { value: { state: { ...state, registration: after }, secret }, entries: from(origin, [entry]) }
    }, audit.change)

    const read = Effect.fn("Registrations.read")(function* (
      clientId: string,
      token: Redacted.Redacted | undefined,
      /** Whether the client reads the body of the answer. */
      isRead: boolean
    ) {
      const registration = yield* authorized(clientId, token)
      const accessToken = token ?? nothing
      if (registration.sealedSecret === null || !isRead) {
        const application = yield* Effect.mapError(applications.get(registration.id), () => invalidToken)
        return answerOf(yield* stateOf(registration, application), accessToken)
      }
      const { secret, state } = yield* asClient((origin) => deliver(registration.id, origin))
      return answerOf(state, accessToken, secret)
    })

    /** Takes from the keys of an application what it does not request any more. */
    const narrow = (keys: ReadonlyArray<ApiKeyView>, to: ReadonlyArray<Capability>) =>
      Effect.forEach(
        keys.filter(({ status }) => status === "active"),
        ({ id }) => Effect.orDie(apiKeys.narrow(id, to)),
        { discard: true }
      )

    const change = Effect.fn("Registrations.change")(function* (
      id: ApplicationId,
      described: Described,
      origin: AuditOrigin
    ) {
      const { application, registration, state } = yield* takeOwn(id)
      if (application.status === "rejected" || application.status === "suspended") return yield* notNow
      const widens = missing(grantedIn(state.keys), described.requestedScopes).length > 0
      const isApproved = registration.apiKeyId !== null
      if (isApproved && !widens) yield* narrow(state.keys, described.requestedScopes)
      const changed = yield* applications.amend(application, {
        status: isApproved && !widens ? "active" : "pending",
        // What was approved under a name keeps it.
        ...(isApproved || described.clientName === null ? {} : { name: described.clientName })
      })
      const now = Model.Override(yield* DateTime.now)
      const updated = yield* repository.update({ ...registration, ...described, updatedAt: now })
      const after = yield* stateOf(updated, changed)
      const { entries } = changes.updated(
        registrationActions.ApplicationRegistrationUpdated,
        toView(state),
        toView(after)
      )
      return { value: after, entries: from(origin, entries) }
    }, audit.change)

    const update = Effect.fn("Registrations.update")(function* <R>(
      clientId: string,
      body: Effect.Effect<unknown, OAuthError, R>,
      token: Redacted.Redacted | undefined
    ) {
      const { id } = yield* authorized(clientId, token)
      const presented = yield* body
      const named = Option.getOrUndefined(decodeNamed(presented))
      if (named !== undefined && named.client_id !== String(id)) {
        return yield* invalidMetadata("client_id: Expected the client_id that was issued")
      }
      const described = yield* readMetadata(presented)
      return answerOf(yield* asClient((origin) => change(id, described, origin)), token ?? nothing)
    })

    const revoke = (keys: ReadonlyArray<ApiKeyView>) =>
      Effect.forEach(keys, (key) => Effect.orDie(apiKeys.revoke(key.id)), { discard: true })

    const end = Effect.fn("Registrations.end")(function* (id: ApplicationId, origin: AuditOrigin) {
      const { application, state } = yield* takeOwn(id)
      yield* revoke(state.keys)
      yield* repository.delete(id)
      // What belongs to the application is the administrators', and stays.
      yield* applications.delete(id).pipe(
        Effect.catchTags({
          ApplicationBuiltIn: Effect.die,
          ApplicationNotFound: Effect.die,
          ApplicationInUse: () => Effect.asVoid(applications.amend(application, { status: "suspended" }))
        })
      )
      const { entries } = changes.deleted(registrationActions.ApplicationDeregistered, toView(state))
      return { value: undefined, entries: from(origin, entries) }
    }, audit.change)

    const remove = Effect.fn("Registrations.delete")(function* (
      clientId: string,
      token: Redacted.Redacted | undefined
    ) {
      const { id } = yield* authorized(clientId, token)
      yield* asClient((origin) => end(id, origin))
    })

    const get = Effect.fn("Registrations.get")(function* (id: ApplicationId) {
      const application = yield* applications.get(id)
      return toView(yield* stateOf(yield* repository.get(id), application))
    })

    /** Takes an application that waits for a decision. */
    const takePending = Effect.fnUntraced(function* (id: ApplicationId) {
      const taken = yield* take(id)
      return taken.application.status === "pending" ? taken : yield* new ApplicationNotPending({})
    })

    /** Issues the key of an application, sealed until it is read. */
    const issue = Effect.fnUntraced(function* (
      application: Application,
      scopes: ReadonlyArray<Capability>,
      { tenantId }: RegistrationApproval
    ) {
      const { expiresAt } = yield* callerBounds
      const { id, key } = yield* apiKeys
        .create({
          name: application.name,
          scopes,
          tenantId: yield* tenants.forCreation(tenantId),
          applicationId: application.id,
          expiresAt
        })
        .pipe(Effect.catchTag("ExpiresInThePast", Effect.die))
      const secret = new TextEncoder().encode(Redacted.value(key))
      const sealedSecret = yield* sealing.seal(Redacted.make(secret), placeOf(application.id))
      return { apiKeyId: id, sealedSecret }
    })

    const approve = Effect.fn("Registrations.approve")(function* (id: ApplicationId, input: RegistrationApproval) {
      const { application, registration, state } = yield* takePending(id)
      // The client may have asked for more since the caller looked.
      if (input.scopes === undefined) yield* requireSeen
      const scopes = distinct(input.scopes ?? registration.requestedScopes)
      const current = state.keys.at(-1)
      const isWidened = current !== undefined && current.status === "active"
      if (isWidened && input.tenantId !== undefined && input.tenantId !== current.tenantId) return yield* otherTenant
      if (isWidened) yield* narrow(state.keys.slice(0, -1), scopes)
      const issued = isWidened
        ? yield* Effect.as(
            apiKeys
              .update(current.id, { scopes })
              .pipe(Effect.catchTag(["ApiKeyNotFound", "ApiKeySynthetic", "ExpiresInThePast"], Effect.die)),
            {}
          )
        : // Keys whose time runs out after a rotation are none of those that follow the new one.
          yield* Effect.andThen(revoke(state.keys), issue(application, scopes, input))
      const approved = yield* applications.amend(application, { status: "active" })
      const now = Model.Override(yield* DateTime.now)
      const updated = yield* repository.update({ ...registration, ...issued, requestedScopes: scopes, updatedAt: now })
      const after = yield* stateOf(updated, approved)
      return changes.updated(registrationActions.ApplicationApproved, toView(state), toView(after))
    }, audit.change)

    const reject = Effect.fn("Registrations.reject")(function* (id: ApplicationId) {
      const { application, registration, state } = yield* takePending(id)
      const granted = grantedIn(state.keys)
      const isApproved = registration.apiKeyId !== null
      const rejected = yield* applications.amend(application, {
        status: isApproved ? "active" : "rejected"
      })
      const now = Model.Override(yield* DateTime.now)
      const updated = yield* repository.update({
        ...registration,
        requestedScopes: isApproved ? granted : registration.requestedScopes,
        updatedAt: now
      })
      const after = yield* stateOf(updated, rejected)
      return changes.updated(registrationActions.ApplicationRejected, toView(state), toView(after))
    }, audit.change)

    return {
      /** Registers an application, with a token or openly; answers what RFC 7591 says. */
      register,
      /** What a client may read of its registration; its secret once. */
      read,
      /** Replaces what a client said of itself. */
      update,
      /** Ends a registration and the keys that it led to. */
      delete: remove,
      get,
      approve,
      reject
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)
  static readonly layer = this.layerNoDeps.pipe(Layer.provide(RegistrationsRepository.layer))
}

const changes = changesOf(RegistrationView, ({ id }) => ({ entityId: id, applicationId: id }))

/** A registration token whose last use another request took meanwhile. */
class TokenSpent extends Data.TaggedError("TokenSpent") {}

const refusedToken = (isOfToken: boolean) =>
  new OAuthError({
    code: "invalid_token",
    description: "The token is not accepted.",
    status: 401,
    challenge: { scheme: "Bearer", isOfToken }
  })
const invalidToken = refusedToken(true)
const noToken = refusedToken(false)
const tooManyWait = new OAuthError({
  code: "temporarily_unavailable",
  description: "Too many applications wait for an approval; try again later, or with a registration token.",
  status: 503
})
const notNow = new OAuthError({
  code: "access_denied",
  description: "The application was rejected or suspended; its registration can be read and deleted, but not changed.",
  status: 403
})
const otherTenant = new ValidationFailed({
  errors: [{ path: ["payload", "tenantId"], message: "Expected the tenant of the key that the application has" }],
  detail: "payload.tenantId: Expected the tenant of the key that the application has"
})

/** Compared where there is no registration, so that an unknown client takes as long as a wrong token. */
const dummy = new Uint8Array(32)
const nothing = Redacted.make("")
const noApplication = 0 as ApplicationId
const decodeClientId = (text: string) =>
  /^[1-9]\d{0,9}$/.test(text) ? Schema.decodeUnknownOption(ApplicationId)(Number(text)) : Option.none()
const decodeNamed = Schema.decodeUnknownOption(Schema.Struct({ client_id: Schema.Unknown }))

const placeOf = (id: ApplicationId) => `application-secret:${id}`
const secondsOf = (moment: DateTime.Utc): number => Math.floor(moment.epochMilliseconds / 1000)

/** Runs a change of a client, whose entries name no account. */
const asClient = <A, E, R>(work: (origin: AuditOrigin) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(auditOrigin, (origin) => asSystem(work(origin)))

/** The entries of a change in the name of another origin than the principal that makes it. */
const from = (origin: AuditOrigin, entries: ReadonlyArray<AuditDraft>): ReadonlyArray<AuditDraft> =>
  entries.map((entry) => ({ ...entry, origin }))

const withoutNulls = (members: Readonly<Record<string, unknown>>) =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null))

/** What the newest key may do now. */
const grantedIn = (keys: ReadonlyArray<ApiKeyView>): ReadonlyArray<Capability> => {
  const newest = keys.at(-1)
  return newest?.status === "active" ? newest.scopes : []
}

const toView = ({ keys, registration: row, status }: State): RegistrationView => ({
  id: row.id,
  status,
  clientName: row.clientName,
  clientUri: row.clientUri,
  redirectUris: row.redirectUris,
  jwks: row.jwks,
  jwksUri: row.jwksUri,
  contacts: row.contacts,
  softwareId: row.softwareId,
  softwareVersion: row.softwareVersion,
  requestedScopes: row.requestedScopes,
  grantedScopes: grantedIn(keys),
  apiKeyId: row.apiKeyId,
  registrationTokenId: row.registrationTokenId,
  createdAt: row.createdAt,
  updatedAt: row.updatedAt
})
