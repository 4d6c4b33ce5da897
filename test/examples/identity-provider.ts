import { Effect } from "effect"
import * as jose from "jose"
import * as crypto from "node:crypto"
import { makeIssuer } from "../support/issuer.ts"
import { makeProvider, visit } from "../support/openid-provider.ts"

type Body = Readonly<Record<string, unknown>>

/** A person signs in with a provider of OpenID Connect, and an agent acts for a workload of another issuer. */
export const identityProvider = Effect.fnUntraced(function* (url: string, apiKey: string, say: (line: string) => void) {
  const send = (method: string, path: string, body?: Body, headers: Record<string, string> = { "x-api-key": apiKey }) =>
    Effect.promise(async () => {
      const answer = await fetch(`${url}${path}`, {
        method,
        redirect: "manual",
        headers: { "content-type": "application/json", ...headers },
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      })
      const text = await answer.text()
      if (answer.status >= 400) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
      const told = (text === "" ? {} : JSON.parse(text)) as Record<string, string>
      const cookies = answer.headers.getSetCookie().map((set) => /^[^;]+/.exec(set)?.[0] ?? "")
      const answered: Record<string, string> & { readonly location: string; readonly cookie: string } = {
        ...told,
        location: answer.headers.get("location") ?? "",
        cookie: cookies.join("; ")
      }
      return answered
    })

  const provider = yield* makeProvider
  const login = yield* send("POST", "/api/identity-providers", {
    kind: "login",
    issuer: provider.issuer,
    ...provider.client,
    domains: ["example.com"],
    defaultRoleIds: [3]
  })
  const { redirectUri = "" } = yield* send("POST", `/api/identity-providers/${login.id}/test`)
  provider.allowRedirect(redirectUri)
  say(`registered ${login.id}, which sends browsers back to ${new URL(redirectUri).pathname}`)

  const name = `ada-${crypto.randomUUID().slice(0, 8)}`
  provider.user = { sub: name, email: `${name}@example.com`, email_verified: true, name: "Ada Lovelace" }
  const begun = yield* send("GET", `/api/auth/oidc/${login.id}/start`, undefined, {})
  const back = new URL(yield* Effect.promise(() => visit(provider, begun.location)))
  say(`the provider answers with ${[...back.searchParams.keys()].toSorted().join(", ")}`)
  const { cookie, location } = yield* send("GET", `${back.pathname}${back.search}`, undefined, { cookie: begun.cookie })
  const { capabilities, kind } = yield* send("GET", "/api/auth/me", undefined, { cookie })
  say(`signed in, and sent to ${location}: ${JSON.stringify({ kind, capabilities })}`)

  const issuer = yield* makeIssuer
  const sub = "repo:acme/shop:ref:refs/heads/main"
  const workload = { kind: "workload", issuer: issuer.issuer, subjects: [sub] }
  const { id: providerId } = yield* send("POST", "/api/identity-providers", workload)
  const { id: agentId = "" } = yield* send("POST", "/api/agents", {
    name: `deployer-${name}`,
    scopeCeiling: ["llm:complete"]
  })
  const { privateKey, publicKey } = crypto.generateKeyPairSync("ed25519")
  const publicKeyPem = publicKey.export({ type: "spki", format: "pem" }).toString()
  yield* send("POST", `/api/agents/${agentId}/keys`, { kid: "1", algorithm: "EdDSA", publicKeyPem })
  const grant = { subject: `${issuer.issuer}|${sub}`, subjectType: "external", scopes: ["llm:complete"] }
  yield* send("POST", `/api/agents/${agentId}/delegations`, grant)
  const { issuer: audience = "" } = yield* send("GET", "/.well-known/oauth-authorization-server")
  const clientAssertion = yield* Effect.promise(() =>
    new jose.SignJWT({ jti: crypto.randomUUID() })
      .setProtectedHeader({ alg: "EdDSA", kid: "1" })
      .setIssuer(agentId)
      .setSubject(agentId)
      .setAudience(audience)
      .setIssuedAt()
      .setExpirationTime("1 minute")
      .sign(privateKey)
  )
  const subjectToken = yield* Effect.promise(() => issuer.sign({ sub, aud: audience }))
  const exchanged = yield* send("POST", "/api/agents/token/exchange", { agentId, clientAssertion, subjectToken })
  const claims = jose.decodeJwt(exchanged.accessToken ?? "")
  say(`the agent acts for the workload: ${JSON.stringify({ sub: claims.sub, scope: claims.scope, act: claims.act })}`)
  yield* send("PATCH", `/api/identity-providers/${providerId}`, { subjects: [] })
  const { active } = yield* send("POST", "/api/agents/introspect", { token: exchanged.accessToken })
  say(`after its subject is no longer listed: ${JSON.stringify({ active })}`)
})

if (import.meta.main) {
  const { APPLICATION_MANAGER_API_KEY: key = "", APPLICATION_MANAGER_URL: url = "http://127.0.0.1:11402" } = process.env
  await Effect.runPromise(Effect.scoped(identityProvider(url, key, (line) => void process.stdout.write(`${line}\n`))))
  // The provider keeps timers of its own.
  process.exit()
}
