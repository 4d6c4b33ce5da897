import { Context, Effect, Layer } from "effect"
import { CurrentPrincipal } from "../../../kernel/authority/principal.ts"
import { Overloaded } from "../../../kernel/problems/problems.ts"
import { makeThread } from "../../../platform/runtime/thread.ts"
import { type DiffRequest, unifiedDiff } from "./unified-diff.ts"

const seconds = 30
const megabytes = 512
/** Contents of so many characters together are compared at once; more of them would hold up the service. */
const maxAtOnce = 32_768

/** Compares versions: large ones in a thread of its own. */
export class Diffs extends Context.Service<Diffs>()("app/configuration/Diffs", {
  make: Effect.gen(function* () {
    const ask = yield* makeThread<DiffRequest, string>({
      module: new URL("diff-worker.ts", import.meta.url),
      seconds,
      megabytes
    })
    return {
      unified: Effect.fn("Diffs.unified")((request: DiffRequest) =>
        request.before.content.length + request.after.content.length <= maxAtOnce
          ? Effect.sync(() => unifiedDiff(request))
          : Effect.flatMap(CurrentPrincipal, ({ name }) => ask(name, request)).pipe(
              Effect.catchTag("ThreadEnded", ({ reason }) =>
                Effect.fail(new Overloaded({ detail: `The versions could not be compared: ${reason}.` }))
              )
            )
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
