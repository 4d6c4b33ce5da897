import { Context, DateTime, Effect, Layer, Option } from "effect"
import { Audit } from "../../audit/log/service.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { slice } from "../../kernel/http/page.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { scopeOf, Database } from "../../platform/database/database.ts"
import { type CapId, type StoredCap, tenantIdOf } from "../ledger/domain.ts"
import { amountOf, quantityFault, quantityOf } from "../ledger/quantity-domain.ts"
import { type Grant, grantActions, type GrantCreation, type GrantId, GrantNotFound } from "./domain.ts"
import { GrantsRepository, type StoredGrant } from "./grant-repository.ts"
import { AgentCapPolicy, BudgetCaps } from "./service.ts"

/** Grants: temporary raises of caps. */
export class Grants extends Context.Service<Grants>()("app/budgets/Grants", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const caps = yield* BudgetCaps
    const database = yield* Database
    const repository = yield* GrantsRepository

    const list = Effect.fn("Grants.list")(function* (capId: CapId, after: GrantId | undefined, limit: number) {
      const cap = yield* caps.find(capId)
      const rows = yield* database.read(scopeOf(yield* CurrentPrincipal), repository.list(cap, after, limit + 1))
      return slice(
        rows.map((grant) => toGrant(cap, grant)),
        limit,
        ({ id }) => id
      )
    })

    const get = Effect.fn("Grants.get")(function* (capId: CapId, id: GrantId) {
      const cap = yield* caps.find(capId)
      const found = yield* database.read(scopeOf(yield* CurrentPrincipal), repository.find(cap, id))
      return Option.isNone(found) ? yield* new GrantNotFound({}) : toGrant(cap, found.value)
    })

    const create = Effect.fn("Grants.create")(function* (capId: CapId, input: GrantCreation) {
      const cap = yield* caps.take(capId)
      yield* AgentCapPolicy.requireLoosening
      const now = yield* DateTime.now
      const faults = faultsOf(cap, input, now)
      if (faults.length > 0) return yield* new ValidationFailed({ errors: faults })
      const grant = yield* repository.insert(cap, {
        amount: amountOf(cap.unit, input.amount),
        reason: input.reason,
        expiresAt: input.expiresAt ?? null,
        createdAt: now,
        createdBy: (yield* CurrentPrincipal).name
      })
      const after = toGrant(cap, grant)
      const entry = { action: grantActions.BudgetGrantCreated, entityId: grant.id, tenantId: tenantIdOf(cap) }
      return { value: after, entries: [{ ...entry, after }] }
    }, audit.change)

    /** Ends a grant; again does nothing. */
    const end = Effect.fn("Grants.end")(function* (capId: CapId, id: GrantId) {
      const cap = yield* caps.take(capId)
      yield* AgentCapPolicy.requireOwn(cap.scope)
      const found = yield* repository.end(cap, id, yield* DateTime.now)
      if (Option.isNone(found)) return yield* new GrantNotFound({})
      if (found.value.endedAt !== null) return { value: undefined, entries: [] }
      const entry = { action: grantActions.BudgetGrantEnded, entityId: id, tenantId: tenantIdOf(cap) }
      return { value: undefined, entries: [{ ...entry, before: toGrant(cap, found.value) }] }
    }, audit.change)

    return { list, get, create, end }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(GrantsRepository.layer))
}

const faultsOf = ({ unit }: StoredCap, { amount, expiresAt }: GrantCreation, now: DateTime.Utc) => {
  const amountFault = amount === 0 ? "Expected more than 0" : quantityFault(unit, amount)
  return [
    ...(amountFault === undefined ? [] : [{ path: ["payload", "amount"], message: amountFault }]),
    ...(expiresAt !== undefined && expiresAt !== null && DateTime.isLessThanOrEqualTo(expiresAt, now)
      ? [{ path: ["payload", "expiresAt"], message: "Expected a moment in the future" }]
      : [])
  ]
}

const toGrant = ({ unit }: StoredCap, { amount, ...grant }: StoredGrant): Grant => ({
  ...grant,
  amount: quantityOf(unit, amount)
})
