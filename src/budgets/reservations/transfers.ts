import { Context, Effect, Layer } from "effect"
import { Audit } from "../../audit/log/service.ts"
import { CurrentPrincipal, type Forbidden } from "../../kernel/authority/principal.ts"
import {
  type BudgetDenied,
  type PlanNotActive,
  type PlanNotFound,
  type ReservationManaged,
  type ReservationNotFound,
  type ReservationNotOpen,
  type ReservationTooSmall
} from "../ledger/domain.ts"
import { problemOfRefusal, refusalOf } from "../ledger/problems.ts"
import { type TransferItem, type TransferResult } from "../ledger/protocol-domain.ts"
import { Ledger } from "../ledger/service.ts"

export type TransferError =
  | BudgetDenied
  | Forbidden
  | PlanNotActive
  | PlanNotFound
  | ReservationManaged
  | ReservationNotFound
  | ReservationNotOpen
  | ReservationTooSmall

/** Prepared or approved reservations that a gateway call takes over. */
export class ReservationTransfers extends Context.Service<ReservationTransfers>()("app/budgets/ReservationTransfers", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const ledger = yield* Ledger
    return {
      /** Fails where the reservation is of another principal, agent or plan, or holds less than the call may cost. */
      transfer: Effect.fn("ReservationTransfers.transfer")(function* (
        transfer: Omit<TransferItem, "principal">
      ): Effect.fn.Return<Extract<TransferResult, { readonly verdict: "open" }>, TransferError> {
        const principal = yield* CurrentPrincipal
        const result = yield* ledger.transfer({ ...transfer, principal: principal.name })
        if (result.verdict === "denied") yield* audit.refused(refusalOf(transfer, result))
        return result.verdict === "open"
          ? result
          : yield* Effect.fail<TransferError>(problemOfRefusal(principal, result))
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
