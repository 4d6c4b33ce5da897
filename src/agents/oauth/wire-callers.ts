import { Effect } from "effect"
import { type HttpServerRequest } from "effect/http"
import { bearerToken, keyInAuthorization } from "../../access/authorization-header.ts"
import { AgentTokenCheck, ApiKeyCheck } from "../../access/credential-checks.ts"
import { RateLimits } from "../../access/rate-limits.ts"
import { ServiceAccount } from "../../access/service-account.ts"
import { type Capability, covers } from "../../kernel/authority/capability.ts"
import { CurrentPrincipal, type Principal, serviceAccount } from "../../kernel/authority/principal.ts"
import { claimedAgent } from "../agent-credentials/assertion.ts"
import { AgentClients } from "../agent-credentials/clients.ts"
import { TokensRepository } from "../agent-credentials/repository.ts"
import { type Form, required } from "./form.ts"
import { OAuthError } from "./oauth-error.ts"

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

type Request = HttpServerRequest.HttpServerRequest
type Clients = AgentClients["Service"]

/** An invalid bearer token is answered as at any resource (RFC 7662 §2.3, RFC 6750 §3.1). */
const refuseBearer = (clients: Clients, reason: string) =>
  Effect.catchTag(clients.refuse("access-token", reason), "InvalidClient", () => {
    const code = "invalid_token"
    const description = "The access token is not accepted."
    return Effect.fail(
      new OAuthError({ code, description, status: 401, challenge: { scheme: "Bearer", isOfToken: true } })
    )
  })

const isBasic = ({ headers }: Request): boolean => /^basic(?: |$)/i.test(headers.authorization ?? "")
const hasAssertion = (form: Form): boolean => form.has("client_assertion") || form.has("client_assertion_type")

/** A client must not authenticate in several ways at once (RFC 6749 §2.3). */
const inOneWay = (...ways: ReadonlyArray<boolean>) =>
  ways.filter(Boolean).length > 1
    ? Effect.fail(new OAuthError({ code: "invalid_request", description: "Authenticate in one way, not in several." }))
    : Effect.void

/** Who calls introspection and revocation: a key, a bearer token of an agent, or an agent by its assertion. */
export const makeWireCallers = Effect.gen(function* () {
  const account = yield* ServiceAccount
  const clients = yield* AgentClients
  const keys = yield* ApiKeyCheck
  const limits = yield* RateLimits
  const repository = yield* TokensRepository
  const tokens = yield* AgentTokenCheck

  const byKey = (key: string) =>
    Effect.flatMap(account.owns(key), (owned) =>
      owned ? Effect.succeed(serviceAccount) : Effect.catch(keys.check(key), clients.reject)
    )

  /** Refuses a request without an assertion; an API key in its place is checked, so that a canary does not go unnoticed. */
  const refuseSecret = (secret: string | null, clientId: string) =>
    secret === null || !secret.startsWith("amk_")
      ? clients.refuse(clientId, "no-assertion")
      : Effect.matchEffect(keys.check(secret), {
          onFailure: clients.reject,
          onSuccess: () => clients.refuse(clientId, "no-assertion")
        })

  /** A failure of header authentication is answered with the scheme of that header (RFC 6749 §5.2). */
  const refuseBasic = ({ headers }: Request) =>
    Effect.catchTag(
      refuseSecret(keyInAuthorization(headers.authorization ?? "") ?? null, ""),
      "InvalidClient",
      ({ error: code, error_description: description }) =>
        Effect.fail(new OAuthError({ code, description, status: 401, challenge: { scheme: "Basic" } }))
    )

  /** The assertion of a form, and the agent that it is said to be from (RFC 7521 §4.2); the one way to authenticate. */
  const clientIn = Effect.fnUntraced(function* (request: Request, form: Form) {
    yield* inOneWay(isBasic(request), form.has("client_secret"), hasAssertion(form))
    if (isBasic(request)) return yield* refuseBasic(request)
    // No authentication at all is one that failed (RFC 6749 §5.2); half of one is a malformed request.
    if (!hasAssertion(form)) {
      return yield* refuseSecret(form.get("client_secret"), form.get("client_id") ?? "")
    }
    if ((yield* required(form, "client_assertion_type")) !== assertionType) {
      return yield* new OAuthError({
        code: "invalid_request",
        description: `client_assertion_type is not ${assertionType}.`
      })
    }
    const assertion = yield* required(form, "client_assertion")
    return { assertion, agentId: form.get("client_id") ?? claimedAgent(assertion) ?? "" }
  })

  // Accepted once, as everywhere: otherwise an intercepted assertion could be used again.
  const byAssertion = Effect.fnUntraced(function* (request: Request, form: Form, endpoint: string) {
    const { agentId, assertion } = yield* clientIn(request, form)
    const known = yield* clients.authenticate(agentId, assertion, endpoint, clients.find)
    const first = yield* repository.useAssertion(known.client.id, known.jti, known.assertionExpiresAt)
    return first ? known.principal : yield* clients.refuse(agentId, "replayed", known.client)
  })

  /** The caller; an agent may do this for itself, any other caller needs one of the capabilities. */
  const caller = Effect.fnUntraced(function* (
    request: Request,
    form: Form,
    endpoint: string,
    capabilities: ReadonlyArray<Capability>
  ) {
    const { authorization = "", "x-api-key": key = "" } = request.headers
    yield* inOneWay(key !== "", authorization !== "", form.has("client_secret"), hasAssertion(form))
    const bearer = bearerToken(authorization)
    const principal: Principal =
      key !== ""
        ? yield* byKey(key)
        : bearer !== undefined
          ? yield* Effect.catch(tokens.check(bearer), ({ reason }) => refuseBearer(clients, reason))
          : yield* byAssertion(request, form, endpoint)
    // An assertion is counted where it is checked.
    if (key !== "" || bearer !== undefined) yield* limits.principal(principal.name)
    const able = capabilities.some((needed) => principal.capabilities.some((held) => covers(held, needed)))
    if (principal.kind === "agent" || able) return principal
    return yield* new OAuthError({
      code: "insufficient_scope",
      description: `The caller lacks ${capabilities.join(" or ")}.`,
      status: 403,
      challenge: { scheme: "Bearer", scopes: capabilities.slice(0, 1) }
    })
  })

  return {
    clientIn,
    as: <A, E>(
      request: Request,
      form: Form,
      endpoint: string,
      capabilities: ReadonlyArray<Capability>,
      work: Effect.Effect<A, E>
    ) =>
      Effect.flatMap(caller(request, form, endpoint, capabilities), (principal) =>
        Effect.provideService(work, CurrentPrincipal, principal)
      )
  }
})
