import { Cache, Context, Effect, Exit, Layer } from "effect"
import { type TenantId } from "../kernel/identifier.ts"
import { Database } from "../platform/database.ts"
import { allTenants } from "./cap-domain.ts"
import { CapBook } from "./cap-book.ts"
import { CapsRepository } from "./cap-repository.ts"

/**
 * The caps of tenants, kept in memory. A copy may be old: the ledger's statement says so, since it compares versions, and
 * the copy is read again. So no decision is ever made by caps that are not the present ones.
 */
export class CapBooks extends Context.Service<
  CapBooks,
  {
    /** The caps of a tenant, or of all tenants together. */
    get(tenantId: TenantId): Effect.Effect<CapBook>
    /** Reads them again. */
    refresh(tenantIds: ReadonlyArray<TenantId>): Effect.Effect<void>
  }
>()("app/ledger/CapBooks") {
  static readonly layerNoDeps = Layer.effect(
    CapBooks,
    Effect.gen(function* () {
      const database = yield* Database
      const repository = yield* CapsRepository
      const books = yield* Cache.makeWith(
        (tenantId: TenantId) =>
          Effect.map(database.transaction("all", repository.book(tenantId)), (book) => new CapBook(book)),
        { capacity: 10_000, timeToLive: (exit) => (Exit.isSuccess(exit) ? "1 hour" : 0) }
      )
      return CapBooks.of({
        get: (tenantId) => Cache.get(books, tenantId),
        refresh: (tenantIds) =>
          Effect.forEach([...tenantIds, allTenants], (tenantId) => Cache.invalidate(books, tenantId), { discard: true })
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(CapsRepository.layer))
}
