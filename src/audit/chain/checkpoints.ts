import { DateTime, Duration, Effect, Option, Schema } from "effect"
import {
  AuditCheckpoint,
  checkpointActions,
  checkpointEvery,
  CheckpointStatement,
  checkpointType
} from "../log/domain.ts"
import { AuditRepository } from "../log/repository.ts"
import { asSystem, rowsOf } from "../log/service.ts"
import { AttestationKeys } from "../signing-keys/service.ts"
import { CheckpointRepository } from "./checkpoint-repository.ts"

const longest = Duration.hours(1)

/** The last checkpoint, as far as the next one's turn depends on it. */
export interface LastCheckpoint {
  readonly sequence: number
  readonly signedAt: DateTime.Utc | null
}

/**
 * Whether it is time to sign: the first links, a thousand of them, or an hour; what a checkpoint writes into the log
 * itself is no reason for another.
 */
export const isDue = (last: LastCheckpoint, headSequence: number, now: DateTime.Utc): boolean => {
  const behind = headSequence - last.sequence
  if (behind >= checkpointEvery) return true
  if (last.signedAt === null) return behind > 0
  // A clock that was set back must not keep the next one waiting until it has caught up.
  const since = Math.abs(last.signedAt.epochMilliseconds - now.epochMilliseconds)
  return behind > 1 && since >= Duration.toMillis(longest)
}

const statement = Schema.encodeSync(CheckpointStatement)
const snapshot = Schema.encodeSync(AuditCheckpoint)

/** Signs heads of the chain within the transaction that moves it there; a key that cannot be had costs the checkpoint only. */
export const makeCheckpoints = Effect.gen(function* () {
  const keys = yield* AttestationKeys
  const entries = yield* AuditRepository
  const repository = yield* CheckpointRepository

  const signer = yield* keys.signer("sign-statements").pipe(
    Effect.asSome,
    Effect.catchCause((cause) =>
      Effect.as(Effect.logError("The audit log gets no signed checkpoints: there is no key", cause), Option.none())
    ),
    Effect.cachedWithTTL("1 minute")
  )

  const sign = Effect.fn("AuditCheckpoints.sign")(function* (head: {
    readonly sequence: number
    readonly hash: string
  }) {
    const found = yield* signer
    if (Option.isNone(found)) return Option.none()
    const { keyId, sign } = found.value
    const signed = { sequence: head.sequence, hash: head.hash, signedAt: yield* DateTime.now }
    const checkpoint: AuditCheckpoint = { ...signed, keyId, jws: yield* sign(checkpointType, statement(signed)) }
    yield* repository.insert(checkpoint)
    const draft = {
      action: checkpointActions.AuditCheckpointSigned,
      entityId: checkpoint.sequence,
      after: snapshot(checkpoint)
    }
    yield* entries.insert(yield* asSystem(rowsOf([draft])))
    return Option.some<LastCheckpoint>(checkpoint)
  })

  const last: Effect.Effect<LastCheckpoint> = Effect.map(
    repository.latest,
    Option.getOrElse(() => ({ sequence: 0, signedAt: null }))
  )
  return { last, sign, prepare: Effect.asVoid(signer) }
})
