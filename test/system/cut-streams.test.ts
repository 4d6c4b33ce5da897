import { layer } from "@effect/vitest"
import { Effect } from "effect"
import { checkCut, CutStream, setUpCuts, ways } from "../support/cut-streams.ts"
import { serviceLayer } from "../support/service.ts"

layer(serviceLayer(), { excludeTestServices: true, timeout: "120 seconds" })(
  "streams that are cut at any byte",
  (it) => {
    for (const [name, way] of Object.entries(ways)) {
      it.effect.prop(
        `of ${name}, are charged once, by what their provider sent`,
        [CutStream],
        ([stream]) => Effect.flatMap(setUpCuts, (standIn) => checkCut(standIn, way, stream)).pipe(Effect.scoped),
        { arbitrary: { runs: 100 } }
      )
    }
  }
)
