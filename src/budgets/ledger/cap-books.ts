import { Cache, Context, Effect, Exit, Layer } from "effect"
import { type TenantId } from "../../kernel/identifier.ts"
import { Database } from "../../platform/database/database.ts"
import { allTenants } from "./cap-domain.ts"
import { CapIndex } from "./cap-index.ts"
import { CapsRepository } from "./cap-repository.ts"

const mostBooks = 10_000

/**
 * The caps of tenants, kept in memory. A copy may be old: the ledger's statement says so, since it compares versions, and
 * the copy is read again. So no decision is ever made by caps that are not the present ones.
 */
export class CapIndexes extends Context.Service<
  CapIndexes,
  {
    /** The caps of tenants, and those of all tenants together. */
    get(tenantIds: Iterable<TenantId>): Effect.Effect<ReadonlyMap<TenantId, CapIndex>>
    /** Reads them again. */
    refresh(tenantIds: ReadonlyArray<TenantId>): Effect.Effect<void>
  }
>()("app/budgets/CapIndexes") {
  static readonly layerNoDeps = Layer.effect(
    CapIndexes,
    Effect.gen(function* () {
      const database = yield* Database
      const repository = yield* CapsRepository
      const books = yield* Cache.makeWith(
        (tenantId: TenantId) =>
          Effect.map(database.transaction("all", repository.book(tenantId)), (book) => new CapIndex(book)),
        { capacity: mostBooks, timeToLive: (exit) => (Exit.isSuccess(exit) ? "1 hour" : 0) }
      )
      // What is there already is found without an effect; a call looks twice.
      const present = new Map<TenantId, CapIndex>()
      const getOne = (tenantId: TenantId) => {
        const book = present.get(tenantId)
        if (book !== undefined) return Effect.succeed(book)
        return Effect.tap(Cache.get(books, tenantId), (read) =>
          Effect.sync(() => {
            if (present.size === mostBooks) present.clear()
            present.set(tenantId, read)
          })
        )
      }
      const get = (tenantIds: Iterable<TenantId>): Effect.Effect<ReadonlyMap<TenantId, CapIndex>> => {
        const found = new Map<TenantId, CapIndex>()
        const wanted = [...new Set([...tenantIds, allTenants])]
        for (const tenantId of wanted) {
          const book = present.get(tenantId)
          if (book !== undefined) found.set(tenantId, book)
        }
        if (found.size === wanted.length) return Effect.succeed(found)
        return Effect.map(
          Effect.forEach(wanted, (tenantId) => Effect.map(getOne(tenantId), (book) => [tenantId, book] as const)),
          (all) => new Map(all)
        )
      }
      return CapIndexes.of({
        get,
        refresh: (tenantIds) =>
          Effect.forEach(
            [...tenantIds, allTenants],
            (tenantId) => {
              present.delete(tenantId)
              return Cache.invalidate(books, tenantId)
            },
            { discard: true }
          )
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(CapsRepository.layer))
}
