import * as jose from "jose"
import * as crypto from "node:crypto"

type Body = Readonly<Record<string, unknown>>

/** The whole way of an agent: a key pair, registration, a token, acting on behalf of another, the end of it. */
export const agentToken = async (url: string, apiKey: string, say: (line: string) => void): Promise<void> => {
  const call = async (method: string, path: string, body?: Body, headers: Record<string, string> = {}) => {
    const answer = await fetch(`${url}${path}`, {
      method,
      headers: { "content-type": "application/json", ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
    return (text === "" ? {} : JSON.parse(text)) as Record<string, string>
  }
  const operator = { "x-api-key": apiKey }
  const { issuer = "" } = await call("GET", "/.well-known/oauth-authorization-server")

  /** Registers an agent with a key pair whose private half stays here; answers how it signs. */
  const register = async (name: string) => {
    const { privateKey, publicKey } = crypto.generateKeyPairSync("ed25519")
    const publicKeyPem = publicKey.export({ type: "spki", format: "pem" }).toString()
    const scopeCeiling = ["llm:complete", "agents:read"]
    const { id = "" } = await call("POST", "/api/agents", { name, scopeCeiling }, operator)
    await call("POST", `/api/agents/${id}/keys`, { kid: "1", algorithm: "EdDSA", publicKeyPem }, operator)
    const assertion = () =>
      new jose.SignJWT({ jti: crypto.randomUUID() })
        .setProtectedHeader({ alg: "EdDSA", kid: "1", typ: "client-authentication+jwt" })
        .setIssuer(id)
        .setSubject(id)
        .setAudience(issuer)
        .setIssuedAt()
        .setExpirationTime("1 minute")
        .sign(privateKey)
    return { id, assertion }
  }

  const suffix = crypto.randomUUID().slice(0, 8)
  const reader = await register(`reader-${suffix}`)
  const writer = await register(`writer-${suffix}`)
  say(`registered ${reader.id} and ${writer.id}`)

  const own = await call("POST", "/api/agents/token", { agentId: reader.id, clientAssertion: await reader.assertion() })
  const me = await call("GET", "/api/auth/me", undefined, { authorization: `Bearer ${own.accessToken}` })
  say(`the first authenticates as ${JSON.stringify(me)}`)

  const grant = { subject: reader.id, subjectType: "agent", scopes: ["llm:complete"] }
  await call("POST", `/api/agents/${writer.id}/delegations`, grant, operator)
  const delegated = await call("POST", "/api/agents/token/exchange", {
    agentId: writer.id,
    clientAssertion: await writer.assertion(),
    subjectToken: own.accessToken
  })
  const introspect = () =>
    call("POST", "/api/agents/introspect", { token: delegated.accessToken }, operator).then((told) =>
      JSON.stringify(told)
    )
  say(`the second acts on behalf of the first: ${await introspect()}`)

  await call("DELETE", `/api/agents/credentials/${own.credentialId}`, undefined, operator)
  say(`after the first's credential is revoked: ${await introspect()}`)
}

if (import.meta.main) {
  const { APPLICATION_MANAGER_API_KEY: key = "", APPLICATION_MANAGER_URL: url = "http://127.0.0.1:11402" } = process.env
  await agentToken(url, key, (line) => process.stdout.write(`${line}\n`))
}
