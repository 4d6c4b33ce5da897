import { Context, Effect, Layer } from "effect"
import { Change } from "../../audit/log/domain.ts"
import { indexedText } from "../../platform/database/list.ts"
import { makeSlugInsert, makeTable, violations } from "../../platform/database/table.ts"
import {
  applicationListing,
  Application,
  type ApplicationId,
  ApplicationInUse,
  ApplicationNotFound,
  ApplicationSlugTaken
} from "./domain.ts"

export class ApplicationsRepository extends Context.Service<ApplicationsRepository>()(
  "app/applications/ApplicationsRepository",
  {
    make: Effect.gen(function* () {
      const table = yield* makeTable(Application, {
        name: "applications",
        spanPrefix: "ApplicationsRepository",
        notFound: ApplicationNotFound,
        permit: Change,
        list: { as: applicationListing, text: indexedText }
      })
      const insertUnderFree = yield* makeSlugInsert(Application, {
        name: "applications",
        spanPrefix: "ApplicationsRepository",
        taken: ApplicationSlugTaken,
        permit: Change
      })
      const slugTaken = violations({ applications_slug: ApplicationSlugTaken })
      return {
        ...table,
        insert: (application: typeof Application.insert.Type) => slugTaken(table.insert(application)),
        update: (application: typeof Application.update.Type) => slugTaken(table.update(application)),
        // Deleting a row can only violate the references to it.
        delete: (id: ApplicationId) => table.delete(id).pipe(violations({ "*": ApplicationInUse })),
        insertUnderFree
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
