import { Context, Effect, Layer } from "effect"
import { CurrentPrincipal } from "../../../kernel/authority/principal.ts"
import { Overloaded } from "../../../kernel/problems/problems.ts"
import { makeWorkerProcess } from "../../../platform/runtime/worker-process.ts"
import { type DiffRequest, lineCountOf, unifiedDiff } from "./unified-diff.ts"

const seconds = 30
const megabytes = 512
/** Contents of so few characters and lines together are compared at once: the work grows with the square of the lines. */
const maxAtOnce = { characters: 32_768, lines: 300 } as const

const isSmall = (request: DiffRequest): boolean =>
  request.before.content.length + request.after.content.length <= maxAtOnce.characters &&
  lineCountOf(request) <= maxAtOnce.lines

/** Compares versions: all but small ones in a process of its own. */
export class Diffs extends Context.Service<Diffs>()("app/applications/Diffs", {
  make: Effect.gen(function* () {
    const ask = yield* makeWorkerProcess<DiffRequest, string>({
      module: new URL("diff-worker.ts", import.meta.url),
      seconds,
      megabytes
    })
    return {
      unified: Effect.fn("Diffs.unified")((request: DiffRequest) =>
        isSmall(request)
          ? Effect.sync(() => unifiedDiff(request))
          : Effect.flatMap(CurrentPrincipal, ({ name }) => ask(name, request)).pipe(
              Effect.catchTag("WorkerProcessEnded", ({ reason }) =>
                Effect.fail(new Overloaded({ detail: `The versions could not be compared: ${reason}.` }))
              )
            )
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
