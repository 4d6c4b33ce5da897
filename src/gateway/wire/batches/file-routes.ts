import { Effect, Layer, type Scope } from "effect"
import { type HttpServerRequest } from "effect/http"
import { uuidIn } from "../../../kernel/identifier.ts"
import { type Json } from "../../../kernel/json/parsed-json.ts"
import { RouteNotFound } from "../../../kernel/problems/problems.ts"
import { headersOf, textOfHeader } from "../../../platform/http/request.ts"
import { FileUploads } from "../../batches/file-uploads.ts"
import { type FileRequest, KeptFiles, type FilesPage } from "../../batches/files.ts"
import { gatewayError, GatewayError, type GatewayProblem, invalidMember } from "../../errors/gateway-error.ts"
import { type Dialect } from "../../formats/domain.ts"
import { type FilesApi } from "../../formats/files/files.ts"
import { batchApis } from "../../formats/registry/batches.ts"
import { filesApis } from "../../formats/registry/files.ts"
import { dialectOf } from "../../formats/registry/formats.ts"
import { asBytes, type Asked, asJson, eitherWay, listed, makeKeptRoutes, type Making, pageIn } from "./kept-routes.ts"

type Request = HttpServerRequest.HttpServerRequest
type Failure = GatewayError<GatewayProblem>

interface FoundFiles {
  readonly items: ReadonlyArray<Json>
  readonly hasMore: boolean
  readonly cursor: string | undefined
}

/** How a client of a vendor lists files. */
interface FileList {
  readonly asked: (query: URLSearchParams) => FilesPage | Failure
  readonly written: (found: FoundFiles, page: FilesPage) => object
}

const mostListed = 1000

const ofOpenAi: FileList = {
  asked: (query) => ({ ...pageIn(query, "after", mostListed), purpose: query.get("purpose") ?? undefined }),
  written: (found) => ({ object: "list", ...listed(found) })
}

/** As Anthropic had it in its beta, with a member for either direction. */
const ofAnthropicBeta: FileList = {
  asked: (query) => eitherWay(query, mostListed),
  written: ({ hasMore, items }, { isUp }) => listed({ hasMore, items: isUp ? items.toReversed() : items })
}

const mostIds = 100
const cursorForm = /^page_(.+)$/
const noCursor = invalidMember("page", "page: Expected the next_page of another page")
const noSessions = invalidMember("scope_id", "scope_id: The gateway serves no sessions, and no files of any")
const tooManyIds = invalidMember("ids", `ids: Expected up to ${mostIds} ids, and neither page nor limit`)

/** As Anthropic has it: with a mark of its own where the next page begins, or by ids. */
const ofAnthropic: FileList = {
  asked: (query) => {
    if (query.has("scope_id")) return noSessions
    const ids = [...query.getAll("ids"), ...query.getAll("ids[]")]
    const page = query.get("page") ?? ""
    if (ids.length > 0) {
      const isAlone = page === "" && !query.has("limit") && new Set(ids).size <= mostIds
      return isAlone ? { after: undefined, limit: mostIds, isUp: false, ids } : tooManyIds
    }
    const cursor = uuidIn(cursorForm.exec(page)?.[1] ?? "")
    if (page !== "" && cursor === undefined) return noCursor
    return { ...pageIn(query, "", mostListed), isUp: false, cursor }
  },
  written: ({ cursor, hasMore, items }) => ({
    data: items,
    next_page: hasMore && cursor !== undefined ? `page_${cursor}` : null
  })
}

const anthropicBeta = /(?:^|,)\s*files-api-2025-04-14\s*(?:,|$)/

/** How the client of a request lists files; the beta of Anthropic's API has lists of another form. */
const listOf = ({ dialect }: FilesApi, request: Request): FileList => {
  const { "anthropic-beta": betas = "" } = headersOf(request)
  const lists: Readonly<Partial<Record<Dialect, FileList>>> = {
    anthropic: anthropicBeta.test(betas) ? ofAnthropicBeta : ofAnthropic
  }
  return lists[dialect] ?? ofOpenAi
}

const noFiles = gatewayError(
  new RouteNotFound({ detail: "The gateway serves files of the APIs of OpenAI and of Anthropic alone." })
)

/** The files of the client of a request. */
const filesOf = (request: Request): Effect.Effect<FilesApi, Failure> => {
  const files = filesApis[dialectOf(request).dialect]
  return files === undefined ? Effect.fail(noFiles) : Effect.succeed(files)
}

/** `/v1/files`, as the SDKs of OpenAI and Anthropic call it: `anthropic-version` tells which one does. */
export const FilesLayer = Layer.unwrap(
  Effect.gen(function* () {
    const { about, making } = yield* makeKeptRoutes
    const files = yield* KeptFiles
    const uploads = yield* FileUploads

    const aboutOne = <A>(
      method: "GET" | "DELETE",
      below: "" | "/content",
      work: (request: FileRequest) => Effect.Effect<A, Failure, Scope.Scope>,
      write: Parameters<typeof about<A>>[3]
    ) =>
      about(
        method,
        `/v1/files/:id${below}`,
        ({ headers, id, tenantId }, request) =>
          Effect.flatMap(filesOf(request), (api) => work({ files: api, headers, id, tenantId })),
        write
      )

    const upload = Effect.fnUntraced(function* (request: Request, by: Making) {
      const api = yield* filesOf(request)
      const batches = batchApis[api.dialect]
      const { "x-model": model } = headersOf(request)
      const answer = yield* uploads.upload(request, {
        ...by,
        files: api,
        api: batches?.hasFiles === true ? batches : undefined,
        model: model === undefined ? undefined : textOfHeader(model)
      })
      return { answer }
    })

    const list = Effect.fnUntraced(function* ({ query, tenantId }: Asked, request: Request) {
      const api = yield* filesOf(request)
      const form = listOf(api, request)
      const page = form.asked(query)
      if (page instanceof GatewayError) return yield* page
      return form.written(yield* files.list(tenantId, api, page), page)
    })

    return Layer.mergeAll(
      making("/v1/files", "rate", upload),
      about("GET", "/v1/files", list, asJson),
      aboutOne("GET", "", files.retrieve, asJson),
      aboutOne("DELETE", "", files.remove, asJson),
      aboutOne("GET", "/content", files.content, asBytes)
    )
  })
)
