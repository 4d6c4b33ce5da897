import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { type Answer, type TestService } from "./service.ts"

type Service = TestService["Service"]

export const registerPath = "/api/applications/register"
export const tokensPath = "/api/applications/registration-tokens"

export const makeRegistrationToken = Effect.fnUntraced(function* (service: Service, body: object = {}) {
  const answer = yield* service.call("POST", tokensPath, { body })
  assert.strictEqual(answer.status, 201, answer.text)
  return answer.body as { readonly id: string; readonly token: string }
})

/** A request to register, with a token or with none. */
export const register = (service: Service, token: string | undefined, body: unknown): Effect.Effect<Answer> =>
  service.call("POST", registerPath, { key: null, body, headers: bearer(token) })

export const bearer = (token: string | undefined): Record<string, string> =>
  token === undefined ? {} : { authorization: `Bearer ${token}` }

/** An application that registered and waits, and what it does with its registration. */
export const makeRegistration = Effect.fnUntraced(function* (
  service: Service,
  scopes: ReadonlyArray<string>,
  metadata: object = {}
) {
  const { token } = yield* makeRegistrationToken(service)
  const body = { client_name: "Billing agent", scope: scopes.join(" "), ...metadata }
  const answer = yield* register(service, token, body)
  assert.strictEqual(answer.status, 201, answer.text)
  return withToken(service, answer)
})

/** What the holder of a registration's token can do with it. */
export const withToken = (service: Service, { body }: Answer) => {
  const { client_id, registration_access_token } = body as {
    readonly client_id: string
    readonly registration_access_token: string
  }
  const path = `${registerPath}/${client_id}`
  const call = (method: string, sent?: unknown) =>
    service.call(method, path, {
      key: null,
      headers: bearer(registration_access_token),
      ...(sent === undefined ? {} : { body: sent })
    })
  return {
    client_id,
    registration_access_token,
    path,
    get: call("GET"),
    head: call("HEAD"),
    put: (sent: unknown) => call("PUT", sent),
    delete: call("DELETE")
  }
}
