import { Effect } from "effect"
import { makeKey, makeTenant } from "../support/authority.ts"
import { type TestService } from "../support/service.ts"
import { anonymousOperations, type Operation, ownOperations } from "./document.ts"
import { type KnownValues } from "./known-values.ts"

/** Somebody who calls, and what must never succeed for it. */
export interface Caller {
  readonly name: string
  readonly headers: Readonly<Record<string, string>>
  mayCall(operation: Operation): boolean
}

const isAnonymous = ({ operationId }: Operation): boolean => anonymousOperations.includes(operationId)

/** About the caller itself, whoever that is. */
const isOwn = (operation: Operation): boolean =>
  ownOperations.includes(operation.operationId) && operation["x-accounts-only"] !== true

const caller = (name: string, key: string | undefined, mayCall: Caller["mayCall"]): Caller => ({
  name,
  headers: key === undefined ? {} : { "x-api-key": key },
  mayCall: (operation) => isAnonymous(operation) || mayCall(operation)
})

const never = () => false

const narrowScope = "dashboard:read"

/** The service account, and everybody who may do less; their credentials are withheld from generated requests. */
export const makeCallers = Effect.fnUntraced(function* (service: TestService["Service"], known: KnownValues) {
  const tenantId = yield* makeTenant(service.database)
  const make = Effect.fnUntraced(function* (
    scopes: ReadonlyArray<string>,
    members: { readonly tenantId?: string } = {}
  ) {
    const made = yield* makeKey(service, scopes, members)
    known.withhold(made.id)
    return made
  })
  known.withhold(tenantId)
  const system = yield* make(["*:*"])
  const narrow = yield* make([narrowScope])
  const tenant = yield* make(["*:*"], { tenantId })
  const revoked = yield* make(["*:*"])
  yield* service.call("DELETE", `/api/api-keys/${revoked.id}`)

  return {
    service: caller("service account", service.serviceKey, () => true),
    others: [
      caller("system key", system.key, () => true),
      caller(
        "narrow key",
        narrow.key,
        (operation) => operation["x-required-capability"] === narrowScope || isOwn(operation)
      ),
      caller("tenant key", tenant.key, (operation) => operation["x-system-only"] !== true),
      caller("revoked key", revoked.key, never),
      caller("nobody", undefined, never),
      caller("empty key", "", never),
      caller("wrong secret", `${tenant.key.slice(0, -7)}0000000`, never),
      caller("long key", `amk_${"0".repeat(5000)}`, never),
      caller("odd key", "\t'; -- é", never)
    ] as const
  }
})
