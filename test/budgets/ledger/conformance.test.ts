import { Effect, Layer } from "effect"
import { asSystem } from "../../../src/audit/log/service.ts"
import { type CapId } from "../../../src/budgets/ledger/cap-domain.ts"
import { BudgetCaps } from "../../../src/budgets/caps/service.ts"
import { Grants } from "../../../src/budgets/caps/grants.ts"
import { CapStandings } from "../../../src/budgets/caps/utilization.ts"
import { Tenants } from "../../../src/identity/tenants/service.ts"
import { ledgerLayer, makeCap, makeTenant, standingOf } from "../../support/ledger.ts"
import { conforms, LedgerWorld } from "./conformance.ts"
import { modelLayer } from "./model-engine.ts"

const PostgresWorld = Layer.effect(
  LedgerWorld,
  Effect.gen(function* () {
    const caps = yield* BudgetCaps
    const grants = yield* Grants
    const standings = yield* CapStandings
    const tenants = yield* Tenants
    return LedgerWorld.of({
      makeTenant: Effect.provideService(makeTenant, Tenants, tenants),
      makeCap: (tenantId, members) =>
        makeCap(tenantId, members).pipe(
          Effect.map(({ id }) => id),
          Effect.provideService(BudgetCaps, caps)
        ),
      changeCap: (id, members) =>
        caps.update(id, { name: "changed", ...members }, undefined).pipe(Effect.orDie, asSystem, Effect.asVoid),
      grant: (id, amount) => grants.create(id, { amount, reason: "more" }).pipe(Effect.orDie, asSystem, Effect.asVoid),
      standing: (id: CapId) =>
        standingOf(id).pipe(
          Effect.map(([standing]) => ({ spent: standing?.spent ?? 0, reserved: standing?.reserved ?? 0 })),
          Effect.provideService(CapStandings, standings)
        )
    })
  })
)

conforms("PostgreSQL", PostgresWorld.pipe(Layer.provideMerge(ledgerLayer())))
conforms("the model", modelLayer)
