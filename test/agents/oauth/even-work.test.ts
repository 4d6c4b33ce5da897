import { assert, it } from "@effect/vitest"
import { Effect, Tracer } from "effect"
import * as crypto from "node:crypto"
import { makeAgent, makeKeyPair, sign, tokenOf } from "../../support/agents.ts"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { makeDatabase } from "../../support/database.ts"
import { startService } from "../../support/service.ts"
import { makeSpans } from "../../support/spans.ts"
import { asSuperuser } from "../../support/statements.ts"

/** What takes time: checks of a signature and looks into the database. Which keys are ours is no secret, and may be looked up. */
const costly = (work: ReadonlyArray<string>) =>
  work.filter((name) => name === "AttestationKeys.checkSignature" || name.startsWith("TokensRepository."))

it.live("RFC7662 §4 introspection does the same for a foreign, revoked, expired, forged and malformed token", () =>
  Effect.gen(function* () {
    const { tracer, workOf } = makeSpans()
    const service = yield* Effect.flatMap(makeDatabase, startService).pipe(Effect.provideService(Tracer.Tracer, tracer))
    const tenantId = yield* makeTenant(service.database)
    const { key } = yield* makeKey(service, ["agents:introspect"], { tenantId })
    const agent = yield* makeAgent(service)
    const own = yield* makeAgent(service, { tenantId })
    const foreign = yield* tokenOf(service, agent)
    const revoked = yield* tokenOf(service, own)
    const expired = yield* tokenOf(service, own)
    const forged = yield* tokenOf(service, own)
    yield* service.call("DELETE", `/api/agents/credentials/${revoked.credentialId}`)
    yield* asSuperuser(
      service.database,
      (sql) => sql`UPDATE agent_credentials SET expires_at = now() WHERE id = ${expired.credentialId}`
    )
    const [header = "", payload = "", signature = ""] = forged.accessToken.split(".")
    const other = makeKeyPair("EdDSA")
    const presented: Readonly<Record<string, string>> = {
      foreign: foreign.accessToken,
      revoked: revoked.accessToken,
      expired: expired.accessToken,
      "with another signature": `${header}.${payload}.${signature.startsWith("A") ? "B" : "A"}${signature.slice(1)}`,
      "signed by somebody else": yield* sign(other, { jti: crypto.randomUUID() }, { typ: "at+jwt" }),
      "of three parts": "a.b.c",
      "one word": "malformed",
      empty: "",
      "too long": "x".repeat(9000)
    }
    // The key of the caller is looked up once a second, by whoever comes first.
    const warm = () => service.call("GET", "/api/auth/me", { key })
    const works: Record<string, ReadonlyArray<string>> = {}
    for (const [what, token] of Object.entries(presented)) {
      yield* warm()
      const { answer, work } = yield* workOf(service, "POST", "/api/agents/introspect", { key, body: { token } })
      assert.strictEqual(answer.text, '{"active":false}', what)
      works[what] = costly(work)
    }
    for (const [what, work] of Object.entries(works)) assert.deepStrictEqual(work, works.foreign, what)
    assert.deepStrictEqual(works.foreign, ["AttestationKeys.checkSignature", "TokensRepository.state"])
  })
)
