import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Uuid } from "../../kernel/identifier.ts"
import { Origin, ReservationState } from "./domain.ts"
import { Amount, calling, Sum } from "./repository.ts"

const TransferOutcome = Schema.Struct({
  verdict: Schema.Literals([
    "open",
    "stale",
    "missing",
    "foreign",
    "managed",
    "held",
    "unopened",
    "other-plan",
    "too-small",
    "denied",
    "plan-suspended",
    "plan-completed",
    "plan-aborted",
    "plan-expired"
  ]),
  origin: Schema.optionalKey(Schema.NullOr(Origin)),
  state: Schema.optionalKey(Schema.NullOr(ReservationState)),
  /** What it holds, and what the caps in money leave beside it. */
  amount: Schema.optionalKey(Amount),
  tokens: Schema.optionalKey(Schema.Int),
  room: Schema.optionalKey(Schema.NullOr(Sum)),
  /** The counter that has no room. */
  cap: Schema.optionalKey(Uuid),
  key: Schema.optionalKey(Schema.String),
  limit: Schema.optionalKey(Sum),
  spent: Schema.optionalKey(Sum),
  reserved: Schema.optionalKey(Sum)
})
export type TransferOutcome = typeof TransferOutcome.Type

/** The statements of the ledger that are of the gateway's calls alone. */
export class CallsRepository extends Context.Service<
  CallsRepository,
  {
    /** Makes a prepared reservation that of a call. */
    adopt(request: object): Effect.Effect<TransferOutcome>
    /** Lets calls that still run live on; answers how many did. */
    renew(request: object): Effect.Effect<{ readonly renewed: number }>
    /** Makes a held call its caller's. */
    handOver(request: object): Effect.Effect<{ readonly handed: number }>
  }
>()("app/budgets/CallsRepository") {
  static readonly layer = Layer.effect(
    CallsRepository,
    Effect.gen(function* () {
      const call = calling(yield* SqlClient.SqlClient)
      return CallsRepository.of({
        adopt: call("budgets_adopt", TransferOutcome),
        renew: call("budgets_renew", Schema.Struct({ renewed: Schema.Int })),
        handOver: call("budgets_hand_over", Schema.Struct({ handed: Schema.Int }))
      })
    })
  )
}
