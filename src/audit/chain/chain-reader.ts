import { Effect, Option, Stream } from "effect"
import { Database } from "../../platform/database/database.ts"
import { ProofRepository } from "./proof-repository.ts"

/** How many reads are under way at a time: one is awaited while another is worked on. */
const readers = 2

/** Reads links with their entries in the order of the chain, by at most so many at once; what is gone is passed over. */
export const makeChainReader = Effect.gen(function* () {
  const database = yield* Database
  const proof = yield* ProofRepository

  return (behind: number, upTo: number, atOnce: number) =>
    Stream.paginate(behind, (after) =>
      Effect.map(proof.next(after), (first) => {
        if (first === undefined || first > upTo) return [[], Option.none<number>()]
        const window = { behind: first - 1, last: Math.min(first - 1 + atOnce, upTo) }
        return [[window], Option.some(window.last)]
      })
    ).pipe(
      Stream.mapEffect(({ behind, last }) => database.read("all", proof.links(behind, last)), {
        concurrency: readers
      })
    )
})
