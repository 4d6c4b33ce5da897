import { Context, DateTime, Effect, Layer, Option } from "effect"
import { Audit } from "../../audit/log/service.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { Database } from "../../platform/database/database.ts"
import { databaseDeadline } from "../../platform/http/deadline.ts"
import { type FilesApi } from "../formats/files/files.ts"
import { type KeptRequest } from "../providers/provider.ts"
import { fileActions, type KeptFile } from "./domain.ts"
import { type KeptThing, KeptThings, notKept, reachable } from "./kept-things.ts"
import { BatchesRepository } from "./repository.ts"

const storeLate = "The store of files did not answer in time."
const what = "file"

/** A page of a list, which begins after a thing of it. */
export interface KeptPage {
  readonly after: string | undefined
  readonly limit: number
  readonly isUp: boolean
}

/** A page of a list of files. */
export interface FilesPage extends KeptPage {
  /** Where an earlier page ended, in the place of a file to begin after. */
  readonly cursor?: string | undefined
  readonly purpose?: string | undefined
  /** The files to list, by the ids that their caller has; all unless given. */
  readonly ids?: ReadonlyArray<string> | undefined
}

/** A request about a file: by which API its caller asks, and the headers that its provider gets. */
export interface FileRequest {
  readonly tenantId: TenantId
  readonly files: FilesApi
  readonly id: string
  readonly headers: KeptRequest["headers"]
}

const pathOf = ({ path }: FilesApi, { id }: KeptThing): string => `${path}/${encodeURIComponent(id)}`

/** Files of callers that providers keep. */
export class KeptFiles extends Context.Service<KeptFiles>()("app/gateway/KeptFiles", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const database = yield* Database
    const repository = yield* BatchesRepository
    const things = yield* KeptThings
    const inTime = yield* databaseDeadline(storeLate)

    const shown = ({
      answer,
      createdBy,
      provider,
      providerId,
      tenantId
    }: Pick<KeptFile, "answer" | "createdBy" | "provider" | "providerId" | "tenantId">) => ({
      ...answer,
      id: things.sealer(tenantId, createdBy, provider)(providerId)
    })

    /** The file that an id of the caller's names, if a provider of the API keeps it. */
    const open = Effect.fnUntraced(function* (tenantId: TenantId, { dialect }: FilesApi, id: string, param: string) {
      const thing = yield* things.open(tenantId, id, what, param)
      return thing.provider.speaks.dialect === dialect ? thing : yield* notKept(what, id, param)
    })

    /** What is stored of a file that was uploaded here; none of the results of a batch. */
    const stored = Effect.fnUntraced(function* (tenantId: TenantId, { id, provider }: KeptThing) {
      const at = { tenantId, createdBy: yield* reachable, provider: provider.id, providerId: id }
      return yield* inTime(database.read(tenantId, repository.file(at)))
    })

    const find = Effect.fnUntraced(function* (tenantId: TenantId, files: FilesApi, id: string, param: string) {
      const thing = yield* open(tenantId, files, id, param)
      return { thing, file: yield* stored(tenantId, thing) }
    })

    /** A file that its provider no longer has is listed no more. */
    const gone = Effect.fnUntraced(function* ({ id, tenantId }: FileRequest, thing: KeptThing) {
      const file = yield* stored(tenantId, thing)
      if (Option.isSome(file)) yield* inTime(database.transaction(tenantId, repository.removeFile(file.value)))
      return yield* notKept(what, id, "file_id")
    })

    /** What its provider says of a file. */
    const ask = (request: FileRequest, method: "GET" | "DELETE", thing: KeptThing) =>
      Effect.catchIf(
        things.ask(thing.provider, { method, path: pathOf(request.files, thing), headers: request.headers }),
        ({ error }) => error.status === 404,
        () => gone(request, thing)
      )

    /** Where a page begins: after a file of the list, or where another page ended. */
    const startOf = Effect.fnUntraced(function* (tenantId: TenantId, files: FilesApi, { after, cursor }: FilesPage) {
      if (after === undefined) return cursor ?? null
      const { file } = yield* find(tenantId, files, after, "after")
      return Option.isSome(file) ? file.value.id : yield* notKept(what, after, "after")
    })

    return {
      find,
      retrieve: Effect.fn("KeptFiles.retrieve")(function* (request: FileRequest) {
        const { files, id, tenantId } = request
        const answer = yield* ask(request, "GET", yield* open(tenantId, files, id, "file_id"))
        return { ...answer, id }
      }),
      /** The bytes of a file, as its provider sends them. */
      content: Effect.fn("KeptFiles.content")(function* ({ files, headers, id, tenantId }: FileRequest) {
        const thing = yield* open(tenantId, files, id, "file_id")
        return yield* things.send(thing.provider, {
          method: "GET",
          path: `${pathOf(files, thing)}/content`,
          headers,
          streams: true
        })
      }),
      /** A page of what was uploaded here, and where the next one begins. */
      list: Effect.fn("KeptFiles.list")(function* (tenantId: TenantId, files: FilesApi, page: FilesPage) {
        const owned = { tenantId, createdBy: yield* reachable }
        const ids = new Set(page.ids)
        const known = page.ids === undefined ? null : yield* things.opened(tenantId, page.ids)
        const rows = yield* inTime(
          database.read(
            tenantId,
            repository.files({
              ...owned,
              dialect: files.dialect,
              purpose: page.purpose ?? null,
              providerIds: known,
              now: yield* DateTime.now,
              after: yield* startOf(tenantId, files, page),
              isUp: page.isUp,
              limit: page.limit + 1
            })
          )
        )
        const found = rows.slice(0, page.limit)
        // Two providers may have given out one id.
        const items = found.map(shown).filter(({ id }) => known === null || ids.has(id))
        return { items, hasMore: rows.length > page.limit, cursor: found.at(-1)?.id }
      }),
      remove: Effect.fn("KeptFiles.remove")(function* (request: FileRequest) {
        const { files, id, tenantId } = request
        const { file, thing } = yield* find(tenantId, files, id, "file_id")
        const answer = yield* ask(request, "DELETE", thing)
        yield* inTime(
          audit.change(
            Effect.as(Option.isSome(file) ? repository.removeFile(file.value) : Effect.void, {
              value: undefined,
              entries: [{ action: fileActions.GatewayFileDeleted, entityId: id, tenantId }]
            })
          )
        )
        return { ...answer, id }
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
