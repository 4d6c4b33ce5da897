import { Array, Cache, Context, DateTime, Effect, Exit, Layer, Schema } from "effect"
import { Model } from "effect/schema"
import { type AuditDraft, type Change } from "../../audit/log/domain.ts"
import { asSystem, Audit } from "../../audit/log/service.ts"
import { type Slice, slice } from "../../kernel/page.ts"
import { given } from "../../kernel/server-set.ts"
import { numbered, slugFrom } from "../../kernel/slug.ts"
import { withSpan } from "../../kernel/with-span.ts"
import {
  Application,
  applicationActions,
  ApplicationBuiltIn,
  type ApplicationId,
  type ApplicationInUse,
  type ApplicationNotFound,
  type ApplicationPatch,
  type ApplicationSlugTaken,
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

export class Applications extends Context.Service<
  Applications,
  {
    list(
      status: ApplicationStatus | undefined,
      after: ApplicationId | undefined,
      limit: number
    ): Effect.Effect<Slice<Application, ApplicationId>>
    get(id: ApplicationId): Effect.Effect<Application, ApplicationNotFound>
    getBySlug(slug: string): Effect.Effect<Application, ApplicationNotFound>
    create(input: typeof Application.jsonCreate.Type): Effect.Effect<Application, ApplicationSlugTaken>
    update(
      id: ApplicationId,
      patch: ApplicationPatch
    ): Effect.Effect<Application, ApplicationNotFound | ApplicationSlugTaken | ApplicationBuiltIn>
    delete(id: ApplicationId): Effect.Effect<void, ApplicationNotFound | ApplicationInUse | ApplicationBuiltIn>
    /** Whether there is such an application, as it was a second ago at most. */
    known(id: ApplicationId): Effect.Effect<void, ApplicationNotFound>
    /** The application, locked FOR SHARE until the transaction of the change ends. */
    lockShared(id: ApplicationId): Effect.Effect<Application, ApplicationNotFound, Change>
  }
>()("app/applications/Applications") {
  /** Creates the missing built-in applications before the first request. */
  static readonly layerNoDeps = Layer.effect(
    Applications,
    Effect.gen(function* () {
      const audit = yield* Audit
      const repository = yield* ApplicationsRepository
      const softDelete = yield* ApplicationConfiguration

      const known = yield* Cache.makeWith((id: ApplicationId) => Effect.asVoid(repository.get(id)), {
        capacity: 10_000,
        timeToLive: (exit) => (Exit.isSuccess(exit) ? "1 second" : 0)
      })

      const list = Effect.fn("Applications.list")(function* (
        status: ApplicationStatus | undefined,
        after: ApplicationId | undefined,
        limit: number
      ) {
        return slice(yield* repository.list(status, after, limit + 1), limit, (application) => application.id)
      })

      const create = Effect.fn("Applications.create")(function* (input: typeof Application.jsonCreate.Type) {
        const slug = input.slug ?? slugFrom(input.name, "application")
        const wanted = Application.insert.make({
          name: input.name,
          slug,
          description: input.description ?? "",
          status: "active",
          builtIn: false
        })
        const application = yield* input.slug === undefined
          ? repository.insertUnderFree(wanted, numbered(slug))
          : repository.insert(wanted)
        return { value: application, entries: [createdEntry(application)] }
      }, audit.change)

      const update = Effect.fn("Applications.update")(function* (id: ApplicationId, patch: ApplicationPatch) {
        const before = yield* repository.lock(id, "UPDATE")
        const wanted = { ...before, ...given(patch, changeable) }
        if (changeable.every((key) => before[key] === wanted[key])) return { value: before, entries: [] }
        if (before.builtIn && (wanted.slug !== before.slug || wanted.status !== before.status)) {
          return yield* new ApplicationBuiltIn({})
        }
        const after = yield* repository.update({ ...wanted, updatedAt: Model.Override(yield* DateTime.now) })
        return {
          value: after,
          entries: [
            {
              action: applicationActions.ApplicationUpdated,
              entityId: id,
              applicationId: id,
              before: snapshot(before),
              after: snapshot(after)
            }
          ]
        }
      }, audit.change)

      const remove = Effect.fn("Applications.delete")(function* (id: ApplicationId) {
        const before = yield* repository.lock(id, "UPDATE")
        if (before.builtIn) return yield* new ApplicationBuiltIn({})
        const purged = yield* softDelete.emptyOf(id)
        yield* repository.delete(id)
        return {
          value: undefined,
          entries: [
            {
              action: applicationActions.ApplicationDeleted,
              entityId: id,
              applicationId: id,
              before: snapshot(before)
            },
            ...purged
          ]
        }
      }, audit.change)

      const makeBuiltIn = Effect.fnUntraced(function* (application: (typeof builtInApplications)[number]) {
        const made = yield* repository
          .insertUnderFree(Application.insert.make({ ...application, status: "active", builtIn: true }), [
            application.slug
          ])
          .pipe(Effect.option)
        return { value: undefined, entries: Array.fromOption(made).map(createdEntry) }
      }, audit.change)
      yield* Effect.forEach(builtInApplications, makeBuiltIn, { discard: true }).pipe(
        asSystem,
        Effect.withSpan("Applications.makeBuiltIn")
      )

      return Applications.of({
        list,
        create,
        update,
        delete: (id) => Effect.tap(remove(id), Cache.invalidate(known, id)),
        get: withSpan("Applications.get", repository.get),
        getBySlug: withSpan("Applications.getBySlug", repository.getBySlug),
        known: (id) => Cache.get(known, id),
        lockShared: (id) => repository.lock(id, "SHARE")
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(ApplicationsRepository.layer))
}

const changeable = ["name", "slug", "description", "status"] as const

const snapshot = Schema.encodeSync(Application.json)

const createdEntry = (application: Application) => ({
  action: applicationActions.ApplicationCreated,
  entityId: application.id,
  applicationId: application.id,
  after: snapshot(application)
})
