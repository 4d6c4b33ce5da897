import { Effect, Layer } from "effect"
import { asSystem } from "../../../src/audit/log/service.ts"
import { Grants } from "../../../src/budgets/caps/grants.ts"
import { BudgetCaps } from "../../../src/budgets/caps/service.ts"
import { CapUtilizations } from "../../../src/budgets/caps/utilization.ts"
import { type CapId } from "../../../src/budgets/ledger/domain.ts"
import { Tenants } from "../../../src/tenants/service.ts"
import { ledgerLayer, makeCap, makeTenant, utilizationOf } from "../../support/ledger.ts"
import { conforms, LedgerWorld } from "./conformance.ts"
import { modelLayer } from "./model-engine.ts"

const PostgresWorld = Layer.effect(
  LedgerWorld,
  Effect.gen(function* () {
    const caps = yield* BudgetCaps
    const grants = yield* Grants
    const utilizations = yield* CapUtilizations
    const tenants = yield* Tenants
    return LedgerWorld.of({
      makeTenant: Effect.provideService(makeTenant, Tenants, tenants),
      makeCap: (tenantId, members) =>
        makeCap(tenantId, members).pipe(
          Effect.map(({ id }) => id),
          Effect.provideService(BudgetCaps, caps)
        ),
      changeCap: (id, members) =>
        caps.update(id, { name: "changed", ...members }).pipe(Effect.orDie, asSystem, Effect.asVoid),
      grant: (id, amount) => grants.create(id, { amount, reason: "more" }).pipe(Effect.orDie, asSystem, Effect.asVoid),
      utilization: (id: CapId) =>
        utilizationOf(id).pipe(
          Effect.map(([utilization]) => ({ spent: utilization?.spent ?? 0, reserved: utilization?.reserved ?? 0 })),
          Effect.provideService(CapUtilizations, utilizations)
        )
    })
  })
)

conforms("PostgreSQL", PostgresWorld.pipe(Layer.provideMerge(ledgerLayer())))
conforms("the model", modelLayer)
