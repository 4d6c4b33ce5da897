import { Context, DateTime, Effect, Layer, Option, type Redacted } from "effect"
import { Digest, SecureRandom } from "effect/crypto"
import { Model } from "effect/schema"
import { changesOf } from "../../audit/log/change-entries.ts"
import { Audit } from "../../audit/log/service.ts"
import { untilCallerEnds } from "../../kernel/authority/authority.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { withSpan } from "../../kernel/with-span.ts"
import { generate, sha256Of } from "../../platform/crypto/opaque-tokens.ts"
import {
  RegistrationToken,
  registrationTokenActions,
  type RegistrationTokenCreation,
  type RegistrationTokenId,
  RegistrationTokenView
} from "./domain.ts"
import { RegistrationTokensRepository } from "./repository.ts"

const lifetimeSecondsDefault = 86_400

/** Tokens that let an application register, each for a number of times. */
export class RegistrationTokens extends Context.Service<RegistrationTokens>()("app/agents/RegistrationTokens", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const digest = yield* Digest.Digest
    const random = yield* SecureRandom.SecureRandom
    const repository = yield* RegistrationTokensRepository

    const list = Effect.fn("RegistrationTokens.list")(function* (page: ListRequest<RegistrationTokenId>) {
      const { items, nextCursor } = yield* repository.list({}, page)
      return { items: items.map(toResponse), nextCursor }
    })

    const get = (id: RegistrationTokenId) => Effect.map(repository.get(id), toResponse)

    const create = Effect.fn("RegistrationTokens.create")(function* (input: RegistrationTokenCreation) {
      const now = yield* DateTime.now
      const token = yield* generate(random, "ami")
      const uses = input.uses ?? 1
      const made = yield* repository.insert(
        RegistrationToken.insert.make({
          tokenSha256: yield* sha256Of(digest, token),
          uses,
          remainingUses: uses,
          expiresAt: yield* untilCallerEnds(
            DateTime.add(now, { seconds: input.expiresInSeconds ?? lifetimeSecondsDefault })
          ),
          createdAt: Model.Override(now),
          createdBy: (yield* CurrentPrincipal).name
        })
      )
      const created = changes.created(registrationTokenActions.RegistrationTokenCreated, toResponse(made))
      return { ...created, value: { ...created.value, token } }
    }, audit.change)

    const remove = Effect.fn("RegistrationTokens.delete")(function* (id: RegistrationTokenId) {
      const before = yield* repository.lock({ id })
      yield* repository.delete(id)
      return changes.deleted(registrationTokenActions.RegistrationTokenDeleted, toResponse(before))
    }, audit.change)

    const isLive = Effect.fn("RegistrationTokens.isLive")(function* (token: Redacted.Redacted) {
      return Option.isSome(yield* repository.live(yield* sha256Of(digest, token), yield* DateTime.now))
    })

    const spend = Effect.fn("RegistrationTokens.spend")(function* (token: Redacted.Redacted) {
      const spent = yield* repository.spend(yield* sha256Of(digest, token), yield* DateTime.now)
      return Option.map(spent, (row) => {
        const after = toResponse(row)
        const before = { ...after, remainingUses: after.remainingUses + 1 }
        return changes.updated(registrationTokenActions.RegistrationTokenUsed, before, after)
      })
    })

    return {
      list,
      get: withSpan("RegistrationTokens.get", get),
      create,
      delete: remove,
      /** Whether a token can be used now; what counts is {@link spend}. */
      isLive,
      /** Takes one use of a token within the caller's change; none where it has none left. */
      spend
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)
  static readonly layer = this.layerNoDeps.pipe(Layer.provide(RegistrationTokensRepository.layer))
}

const changes = changesOf(RegistrationTokenView, ({ id }) => ({ entityId: id }))

const toResponse = (token: RegistrationToken): RegistrationTokenView => ({
  id: token.id,
  uses: token.uses,
  remainingUses: token.remainingUses,
  expiresAt: token.expiresAt,
  createdAt: token.createdAt,
  createdBy: token.createdBy
})
