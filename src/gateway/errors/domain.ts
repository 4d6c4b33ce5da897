import { Uuid } from "../../kernel/identifier.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { UsdOrZero } from "../../kernel/usd.ts"

export class AlreadyCompleted extends Problem<AlreadyCompleted>()(
  "AlreadyCompleted",
  {
    slug: "already-completed",
    status: 409,
    meaning: "A call with this Idempotency-Key was made and charged; what was said in it is not kept."
  },
  { reservationId: Uuid, costUsd: UsdOrZero }
) {}
