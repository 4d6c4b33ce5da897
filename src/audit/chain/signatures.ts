import { Effect, Option, Result, Schema } from "effect"
import {
  type AuditCheckpoint,
  AuditEntryId,
  checkpointEvery,
  CheckpointStatement,
  checkpointType,
  type ProofFault,
  RetirementStatement,
  retirementType
} from "../log/domain.ts"
import { AttestationKeys } from "../signing-keys/service.ts"
import { CheckpointRepository } from "./checkpoint-repository.ts"
import { type LinkedRow, type Retirement } from "./proof-repository.ts"

const pageSize = 500
const readStatement = Schema.decodeUnknownOption(CheckpointStatement)
const readRetirement = Schema.decodeUnknownOption(RetirementStatement)

/** Reads what the service has signed about its log, and says what of it does not hold. */
export const makeSignatures = Effect.gen(function* () {
  const checkpoints = yield* CheckpointRepository
  const keys = yield* AttestationKeys

  const signatureFault = Effect.fnUntraced(function* (checkpoint: AuditCheckpoint) {
    const signed = yield* keys.verify("sign-statements", checkpointType, checkpoint.jws)
    const statement = Option.flatMap(Result.getSuccess(signed), readStatement)
    const { hash, sequence } = checkpoint
    if (Option.exists(statement, (says) => says.hash === hash && says.sequence === sequence)) return undefined
    const why = Result.isFailure(signed) ? signed.failure : "It signs another place"
    return badSignature(sequence, `The signature of the checkpoint at ${sequence} does not count: ${why}`)
  })

  /** Compares windows of links, which come in order, with the checkpoints from a sequence on. */
  const comparison = Effect.fnUntraced(function* (from: number) {
    let pending: ReadonlyArray<AuditCheckpoint> | undefined
    let newest: AuditCheckpoint | undefined
    let signedUpTo = (yield* checkpoints.list(from, 1))[0]?.sequence ?? 0

    const compare = Effect.fnUntraced(function* (rows: ReadonlyArray<LinkedRow>) {
      const faults: Array<ProofFault> = []
      const last = rows.at(-1)?.sequence ?? 0
      pending ??= yield* checkpoints.above(from - 1, pageSize)
      for (let next = pending[0]; next !== undefined && next.sequence <= last; next = pending[0]) {
        const checkpoint = next
        pending = pending.length > 1 ? pending.slice(1) : yield* checkpoints.above(checkpoint.sequence, pageSize)
        if (checkpoint.sequence - signedUpTo > checkpointEvery) faults.push(unsigned(signedUpTo, checkpoint.sequence))
        signedUpTo = checkpoint.sequence
        const row = rows.find(({ sequence }) => sequence === checkpoint.sequence)
        const broken = yield* signatureFault(checkpoint)
        if (broken !== undefined) faults.push(broken)
        else if (row !== undefined && row.hash !== checkpoint.hash) faults.push(rewritten(row))
        else newest = checkpoint
      }
      return faults
    })

    /** What is wrong with the end, when the links that were compared go to the head. */
    const close = (head: number): ReadonlyArray<ProofFault> =>
      head - signedUpTo >= checkpointEvery ? [unsigned(signedUpTo, head)] : []

    return { compare, close, newest: () => newest }
  })

  /** The runs of sequences that signed retirements took away, in the order of the chain. */
  const retiredRuns = Effect.fnUntraced(function* (retirements: ReadonlyArray<Retirement>) {
    const faults: Array<ProofFault> = []
    const runs = yield* Effect.forEach(retirements, ({ jws, lastSequence, month }) =>
      Effect.map(keys.verify("sign-statements", retirementType, jws), (signed) => {
        const statement = Option.flatMap(Result.getSuccess(signed), readRetirement)
        if (Option.isSome(statement) && statement.value.month === month) return statement.value.runs
        const why = Result.isFailure(signed) ? signed.failure : "It signs something else"
        faults.push(badSignature(lastSequence, `The signature of the retirement of ${month} does not count: ${why}`))
        return []
      })
    )
    return { runs: runs.flat().toSorted((a, b) => a.first - b.first), faults }
  })

  return { comparison, retiredRuns }
})

const badSignature = (sequence: number, detail: string): ProofFault => ({
  sequence,
  entryId: null,
  problem: "bad-signature",
  detail
})

/** An attacker who removes checkpoints could rewrite what they signed and have it signed again. */
const unsigned = (after: number, upTo: number): ProofFault => ({
  sequence: after + 1,
  entryId: null,
  problem: "missing",
  detail: `No checkpoint signs ${after + 1} to ${upTo}, though there is one every ${checkpointEvery} entries`
})

const rewritten = ({ entryId, sequence }: LinkedRow): ProofFault => ({
  sequence,
  entryId: AuditEntryId.make(entryId),
  problem: "changed",
  detail: "The signed checkpoint at this place has another hash: the chain was rewritten"
})
