import { Context, Effect, Layer, Option, Semaphore, Stream } from "effect"
import { slice } from "../../kernel/http/page.ts"
import { nilUuid } from "../../kernel/identifier.ts"
import { Database } from "../../platform/database/database.ts"
import { withoutDeadline } from "../../platform/http/deadline.ts"
import { type AuditCheckpoint } from "../log/domain.ts"
import { makeChainReader } from "./chain-reader.ts"
import { ChainWalk } from "./chain-walk.ts"
import { CheckpointRepository } from "./checkpoint-repository.ts"
import { type EntryPlace, ProofRepository, type Retirement } from "./proof-repository.ts"
import { makeSignatures } from "./signatures.ts"

const windowSize = 2500
const maxAtOnce = 2
const strangersAtOnce = 20_000

/** The links to verify, both ends included; all that are left where an end is not given. */
export interface VerificationRange {
  readonly from?: number | undefined
  readonly to?: number | undefined
}

/** Proves the log, or a range of it, against its links, its signed checkpoints and its head. */
export class AuditVerification extends Context.Service<AuditVerification>()("app/audit/AuditVerification", {
  make: Effect.gen(function* () {
    const database = yield* Database
    const checkpoints = yield* CheckpointRepository
    const proof = yield* ProofRepository
    const readChain = yield* makeChainReader
    const signatures = yield* makeSignatures
    const everywhere = <A>(read: Effect.Effect<A>) => database.transaction("all", read)

    const strangerBetween = Effect.fnUntraced(function* (since: string, until: string, linked: string) {
      let place = Option.some<EntryPlace>({ occurredAt: since, id: nilUuid })
      while (Option.isSome(place)) {
        const found = yield* everywhere(proof.strangers(place.value, until, linked, strangersAtOnce))
        if (found.stranger !== null) return found.stranger
        place = found.last
      }
      return undefined
    })

    /** The first entry that no link names: looked for when there are more entries than links, or in the time of a range. */
    const strangerIn = Effect.fnUntraced(function* (
      { from, to }: VerificationRange,
      head: { readonly sequence: number; readonly linked: string },
      walk: ChainWalk
    ) {
      const isWhole = from === undefined && to === undefined
      if (isWhole && (yield* everywhere(proof.countAt(head))) === walk.found) return undefined
      const since = from === undefined ? Option.none() : yield* proof.timeOf(from)
      const until = to === undefined ? Option.none() : yield* proof.timeOf(to)
      return yield* strangerBetween(
        Option.getOrElse(since, () => "-infinity"),
        Option.getOrElse(until, () => "infinity"),
        head.linked
      )
    })

    /** An entry whose time was changed, or that was swapped with another's, lies elsewhere: it is not gone. */
    const lookElsewhere = Effect.fnUntraced(function* (walk: ChainWalk) {
      for (const entryId of walk.astray()) {
        const entry = yield* everywhere(proof.entryOf(entryId))
        if (Option.isSome(entry)) walk.foundElsewhere(entryId, entry.value)
      }
    })

    const verifyAt = Effect.fnUntraced(function* (range: VerificationRange, retirements: ReadonlyArray<Retirement>) {
      // A checkpoint is signed with its head, so one that is read before the head is never ahead of it.
      const signedUpTo = Option.match(yield* checkpoints.latest, {
        onNone: () => 0,
        onSome: ({ sequence }) => sequence
      })
      const head = yield* proof.head
      const from = range.from ?? 1
      const to = Math.min(range.to ?? head.sequence, head.sequence)
      const retired = yield* signatures.retiredRuns(retirements)
      const [before] = from === 1 ? [] : yield* everywhere(proof.links(from - 2, from - 1))
      const walk = new ChainWalk(from, before?.hash ?? null, retired.runs)
      retired.faults.forEach((fault) => walk.add(fault))

      const { close, compare, newest } = yield* signatures.comparison(from)
      yield* readChain(walk.sequence, to, windowSize).pipe(
        Stream.runForEach((rows) => {
          for (const row of rows) walk.next(row)
          return Effect.map(compare(rows), (faults) => faults.forEach((fault) => walk.add(fault)))
        })
      )
      walk.end(to)
      if (range.to === undefined) {
        walk.closes(head, signedUpTo)
        close(head.sequence).forEach((fault) => walk.add(fault))
      }

      const stranger = yield* strangerIn(range, head, walk)
      if (stranger !== undefined) {
        const detail = "The entry has no link: it did not come through the service"
        walk.add({ sequence: null, entryId: stranger, problem: "inserted", detail })
      }
      yield* lookElsewhere(walk)
      const firstBad = walk.firstBad()
      const checkpoint = newest()
      return {
        ok: firstBad === null,
        checked: walk.checked,
        firstBad,
        head: { sequence: head.sequence, hash: head.hash },
        checkpoint: checkpoint === undefined ? null : withoutSignature(checkpoint)
      }
    })

    const turns = yield* Semaphore.make(maxAtOnce)
    const verify = Effect.fn("AuditVerification.verify")(
      function* (range: VerificationRange) {
        let retirements = yield* proof.retirements
        while (true) {
          const found = yield* verifyAt(range, retirements)
          if (found.ok) return found
          // A month that was retired meanwhile seems gone, so it is looked at again.
          const later = yield* proof.retirements
          if (later.length === retirements.length) return found
          retirements = later
        }
      },
      withoutDeadline,
      turns.withPermits(1)
    )

    const list = Effect.fn("AuditVerification.checkpoints")(function* (below: number | undefined, limit: number) {
      const rows = yield* checkpoints.list(below ?? Number.MAX_SAFE_INTEGER, limit + 1)
      return slice(rows, limit, ({ sequence }) => sequence)
    })

    const backlog = Effect.gen(function* () {
      const { sequence } = yield* proof.head
      const checkpoint = Option.getOrNull(Option.map(yield* checkpoints.latest, (latest) => latest.sequence))
      return { sequence, checkpoint, waitingSeconds: yield* everywhere(proof.waitingSeconds) }
    }).pipe(Effect.withSpan("AuditVerification.backlog"))

    return {
      /** Two at a time, since each takes all that one processor has; others wait their turn. */
      verify,
      /** Signed checkpoints below a sequence, the newest first. */
      checkpoints: list,
      /** How far the chain has come, how far it is signed, and how long the next entry has waited for its link. */
      backlog
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(Layer.merge(ProofRepository.layer, CheckpointRepository.layer))
  )
}

const withoutSignature = ({ hash, keyId, sequence, signedAt }: AuditCheckpoint) => ({ sequence, hash, signedAt, keyId })
