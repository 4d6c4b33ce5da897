import { Cache, Context, DateTime, Effect, Exit, Layer, Option } from "effect"
import { Model } from "effect/schema"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { changesOf, unchanged } from "../../audit/log/change-entries.ts"
import { type AuditDraft, type Change } from "../../audit/log/domain.ts"
import { asSystem, Audit } from "../../audit/log/service.ts"
import { patched } from "../../kernel/http/server-set.ts"
import { numbered, slugFrom } from "../../kernel/slug.ts"
import { withSpan } from "../../kernel/with-span.ts"
import {
  Application,
  applicationActions,
  ApplicationBuiltIn,
  type ApplicationId,
  type ApplicationPatch,
  type ApplicationStatus,
  builtInApplications
} from "./domain.ts"
import { ApplicationsRepository } from "./repository.ts"

/** What happens to an application's configuration when the application goes; provided by the configuration. */
export class ApplicationConfiguration extends Context.Service<
  ApplicationConfiguration,
  {
    /** Removes the soft-deleted configuration of an application within the caller's change, and answers the entries that record it. */
    emptyOf(applicationId: ApplicationId): Effect.Effect<ReadonlyArray<AuditDraft>, never, Change>
  }
>()("app/applications/ApplicationConfiguration") {}

export class Applications extends Context.Service<Applications>()("app/applications/Applications", {
  /** Creates the missing built-in applications before the first request. */
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const authCaches = yield* AuthCacheInvalidation
    const repository = yield* ApplicationsRepository
    const softDelete = yield* ApplicationConfiguration

    const known = yield* Cache.makeWith((id: ApplicationId) => Effect.asVoid(repository.get(id)), {
      capacity: 10_000,
      timeToLive: (exit) => (Exit.isSuccess(exit) ? "1 second" : 0)
    })

    const create = Effect.fn("Applications.create")(function* (input: typeof Application.jsonCreate.Type) {
      const slug = input.slug ?? slugFrom(input.name, "application")
      const wanted = Application.insert.make({ description: "", ...input, slug, status: "active", builtIn: false })
      const application = yield* input.slug === undefined
        ? repository.insertUnderFree(wanted, numbered(slug))
        : repository.insert(wanted)
      return changes.created(applicationActions.ApplicationCreated, application)
    }, audit.change)

    /** Stores an application; its keys work as its status says. */
    const store = Effect.fnUntraced(function* (before: Application, wanted: Application) {
      if (wanted.status !== before.status) yield* authCaches.announce
      return yield* repository.update({ ...wanted, updatedAt: Model.Override(yield* DateTime.now) })
    })

    const update = Effect.fn("Applications.update")(function* (id: ApplicationId, patch: ApplicationPatch) {
      const before = yield* repository.lock({ id })
      const wanted = patched(before, patch, ["name", "slug", "description", "status"])
      if (wanted === before) return unchanged(before)
      if (before.builtIn && (wanted.slug !== before.slug || wanted.status !== before.status)) {
        return yield* new ApplicationBuiltIn({})
      }
      const after = yield* store(before, wanted)
      return changes.updated(applicationActions.ApplicationUpdated, before, after)
    }, audit.change)

    const remove = Effect.fn("Applications.delete")(function* (id: ApplicationId) {
      const before = yield* repository.lock({ id })
      if (before.builtIn) return yield* new ApplicationBuiltIn({})
      const purged = yield* softDelete.emptyOf(id)
      yield* repository.delete(id)
      return changes.deleted(applicationActions.ApplicationDeleted, before, purged)
    }, audit.change)

    const createBuiltIn = Effect.fnUntraced(function* (application: (typeof builtInApplications)[number]) {
      const wanted = Application.insert.make({ ...application, status: "active", builtIn: true })
      const created = yield* Effect.option(repository.insertUnderFree(wanted, [application.slug]))
      return Option.isNone(created)
        ? unchanged(undefined)
        : changes.created(applicationActions.ApplicationCreated, created.value)
    }, audit.change)
    yield* Effect.forEach(builtInApplications, createBuiltIn, { discard: true }).pipe(
      asSystem,
      Effect.withSpan("Applications.createBuiltIn")
    )

    const insertPending = Effect.fnUntraced(function* (name: string, slug: string) {
      const wanted = Application.insert.make({ name, slug, description: "", status: "pending", builtIn: false })
      return yield* repository.insert(wanted)
    })

    const amend = Effect.fnUntraced(function* (
      before: Application,
      patch: { readonly name?: string; readonly status?: ApplicationStatus }
    ) {
      const wanted = patched(before, patch, ["name", "status"])
      return wanted === before ? before : yield* Effect.orDie(store(before, wanted))
    })

    return {
      list: withSpan("Applications.list", repository.list),
      create,
      update,
      delete: (id: ApplicationId) => Effect.tap(remove(id), Cache.invalidate(known, id)),
      get: withSpan("Applications.get", repository.get),
      getBySlug: withSpan("Applications.getBySlug", (slug: string) => repository.getBy({ slug })),
      /** Whether there is such an application, as it was a second ago at most. */
      known: (id: ApplicationId) => Cache.get(known, id),
      /** The application, locked FOR SHARE until the transaction of the change ends. */
      lockShared: (id: ApplicationId) => repository.lock({ id }, "SHARE"),
      /** The application, locked for a change. */
      lock: (id: ApplicationId) => repository.lock({ id }),
      /** A new application that waits for an approval; the caller's change records it. */
      insertPending,
      /** Changes a locked application; the caller's change records it. */
      amend
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)
  static readonly layer = this.layerNoDeps.pipe(Layer.provide(ApplicationsRepository.layer))
}

const changes = changesOf(Application.json, ({ id }) => ({ entityId: id, applicationId: id }))
