import { Context, Effect, Layer } from "effect"
import { Change } from "../../audit/log/domain.ts"
import { indexedText } from "../../platform/database/list.ts"
import { makeSlugInsert, makeTable } from "../../platform/database/table.ts"
import {
  applicationListing,
  Application,
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
        list: { as: applicationListing, text: indexedText },
        violations: {
          insert: { applications_slug: ApplicationSlugTaken },
          update: { applications_slug: ApplicationSlugTaken },
          // Deleting a row can only violate the references to it.
          delete: { "*": ApplicationInUse }
        }
      })
      const insertUnderFree = yield* makeSlugInsert(Application, {
        name: "applications",
        spanPrefix: "ApplicationsRepository",
        taken: ApplicationSlugTaken,
        permit: Change
      })
      return { ...table, insertUnderFree }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
