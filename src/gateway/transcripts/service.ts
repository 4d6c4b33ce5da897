import { Context, DateTime, Effect, Layer, Option, Redacted, Schema, type Stream } from "effect"
import { Audit } from "../../audit/log/service.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { Sealing } from "../../platform/crypto/sealing.ts"
import { Database } from "../../platform/database/database.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { contentActions, type GatewayContent, GatewayContentNotFound, Said } from "./domain.ts"
import { ContentsRepository } from "./repository.ts"
import { Transcript } from "./transcript.ts"

/** A call whose transcript may be stored. */
export interface SpokenCall {
  readonly reservationId: string
  readonly tenantId: TenantId
  readonly dialect: string
  readonly operation: string
  readonly request: Uint8Array
}

const textOf = Schema.encodeSync(Schema.fromJsonString(Said))
const decode = Schema.decodeUnknownEffect(Schema.fromJsonString(Said))

/** Transcripts of the gateway's calls: stored only if Llm:Gateway:LogContent is set, encrypted, and for a limited time. */
export class Transcripts extends Context.Service<
  Transcripts,
  {
    /** Whether transcripts are stored. */
    readonly isRecording: boolean
    /** Stores the transcript of a call; that of a stream when it ends, however it ends. */
    record<A extends Uint8Array | Stream.Stream<Uint8Array>>(call: SpokenCall, answer: A): Effect.Effect<A>
    get(reservationId: string): Effect.Effect<GatewayContent, GatewayContentNotFound>
  }
>()("app/gateway/GatewayContents") {
  static readonly layerNoDeps = Layer.effect(
    Transcripts,
    Effect.gen(function* () {
      const audit = yield* Audit
      const database = yield* Database
      const repository = yield* ContentsRepository
      const sealing = yield* Sealing
      const { llm } = yield* Settings
      const { logContent, logContentRetentionDays: days } = llm.gateway

      yield* DateTime.now.pipe(
        Effect.flatMap((now) => database.transaction("all", repository.purge(DateTime.subtract(now, { days })))),
        (purge) => repeatJob("remove old contents of gateway calls", "1 hour", purge)
      )

      const keep = Effect.fnUntraced(
        function* (call: SpokenCall, said: Transcript) {
          const { reservationId, tenantId } = call
          const secret = Redacted.make(new TextEncoder().encode(textOf(said.words(call))))
          const sealed = yield* sealing.seal(secret, belongsTo(reservationId))
          const createdAt = yield* DateTime.now
          yield* database.transaction(tenantId, repository.insert({ reservationId, tenantId, sealed, createdAt }))
          // A call does not fail because its transcript cannot be stored.
        },
        Effect.catchCause((cause) => Effect.logError("What was said in a call could not be kept", cause))
      )

      const get = Effect.fn("GatewayContents.get")(function* (reservationId: string) {
        const found = yield* audit.change(
          Effect.map(repository.find(reservationId), (value) => ({
            value,
            entries: Option.isNone(value)
              ? []
              : [{ action: contentActions.GatewayContentRead, entityId: reservationId, tenantId: value.value.tenantId }]
          }))
        )
        const { sealed, ...content } = yield* Effect.mapError(
          Effect.fromOption(found),
          () => new GatewayContentNotFound({})
        )
        const opened = yield* Effect.orDie(sealing.open(sealed, belongsTo(reservationId)))
        const said = yield* Effect.orDie(decode(new TextDecoder().decode(Redacted.value(opened))))
        return { ...content, ...said }
      })

      return Transcripts.of({
        isRecording: logContent,
        record: (call, answer) => Transcript.of(answer, (transcript) => keep(call, transcript)),
        get
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(ContentsRepository.layer))
}

const belongsTo = (reservationId: string): string => `gateway-content:${reservationId}`
