import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { type Answer, type Call, type TestService } from "./service.ts"

type Service = TestService["Service"]

export const passphrase = "seven grey herons at dawn"
export const otherPassphrase = "nine brown otters at dusk"

let made = 0
/** An address that no account has yet. */
export const newEmail = (): string => `operator${(made += 1)}@example.org`

/** The id of a role of `application-manager` that gives these capabilities. */
export const makeOwnRole = Effect.fnUntraced(function* (service: Service, capabilities: ReadonlyArray<string>) {
  const { body } = yield* service.call("GET", "/api/applications?limit=200")
  const applications: ReadonlyArray<{ readonly id: number; readonly slug: string }> = body.items
  const applicationId = applications.find(({ slug }) => slug === "application-manager")?.id
  const answer = yield* service.call("POST", "/api/roles", {
    body: { name: `Role ${(made += 1)}`, applicationId, capabilities }
  })
  assert.strictEqual(answer.status, 201, answer.text)
  return answer.body.id as number
})

/** An account with a role of these capabilities, and how to sign in to it. */
export const makeAccount = Effect.fnUntraced(function* (
  service: Service,
  capabilities: ReadonlyArray<string> = [],
  members: Readonly<Record<string, unknown>> = {}
) {
  const roleIds = capabilities.length === 0 ? [] : [yield* makeOwnRole(service, capabilities)]
  const body = { email: newEmail(), name: "Ada Lovelace", password: passphrase, roleIds, ...members }
  const answer = yield* service.call("POST", "/api/accounts", { body })
  assert.strictEqual(answer.status, 201, answer.text)
  return { id: answer.body.id as string, email: body.email, password: body.password, roleIds }
})

/** For a service whose callers come from an address each, so that none has to wait for what another tried. */
export const behindProxy = { Api__TrustedProxies__0: "127.0.0.1/32" }

const ownAddress = () => ({ "x-forwarded-for": `10.1.${Math.floor((made += 1) / 256)}.${made % 256}` })

export const login = (
  service: Service,
  { email, password }: { readonly email: string; readonly password: string },
  headers: Record<string, string> = {}
): Effect.Effect<Answer> =>
  service.call("POST", "/api/auth/login", {
    key: null,
    body: { email, password },
    headers: { ...ownAddress(), ...headers }
  })

/** Signs in and answers the token. */
export const signIn = (service: Service, account: { readonly email: string; readonly password: string }) =>
  Effect.map(login(service, account), (answer) => {
    assert.strictEqual(answer.status, 200, answer.text)
    return answer.body.token as string
  })

/** What is called with a session token. */
export const bearer = (token: string, call: Call = {}): Call => ({
  ...call,
  key: null,
  headers: { ...call.headers, authorization: `Bearer ${token}` }
})

/** What a browser sends: the cookie of an answer that set one. */
export const cookieOf = (answer: Answer): string => /^[^;]+/.exec(answer.headers.get("set-cookie") ?? "")?.[0] ?? ""

export const withCookie = (cookie: string, call: Call = {}): Call => ({
  ...call,
  key: null,
  headers: { ...call.headers, cookie }
})

/** Whether a token lets its bearer in. */
export const works = (service: Service, token: string): Effect.Effect<boolean> =>
  Effect.map(service.call("GET", "/api/auth/me", bearer(token)), ({ status }) => status === 200)
