import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiSchema } from "effect/http-api"
import { entityTag } from "../../../kernel/precondition.ts"
import { prefers } from "../../../platform/http/negotiation.ts"
import { type ConfigurationDiff, type ConfigurationFile } from "../model/domain.ts"

const headersOf = ({ version }: ConfigurationFile) => (version === null ? {} : { etag: entityTag(version) })

/** Answers a node, a file with its tag. */
export const tagged = (body: ConfigurationFile) => HttpApiSchema.withHeaders({ body, headers: headersOf(body) })

/** Answers a new node with its address, a file with its tag. */
export const createdFile = (body: ConfigurationFile) =>
  HttpApiSchema.withHeaders({
    body,
    headers: { location: `/api/configuration/${body.id}`, ...headersOf(body) }
  })

/** Answers a diff as text, or as JSON where the caller prefers it. */
export const diffFor = (request: HttpServerRequest.HttpServerRequest) => (diff: ConfigurationDiff) =>
  prefers(request, "application/json", "text/x-diff")
    ? diff
    : HttpServerResponse.text(diff.diff, { contentType: "text/x-diff; charset=utf-8" })

/** The export format that the Accept header requests. */
export const exportFormatFor = (request: HttpServerRequest.HttpServerRequest) =>
  prefers(request, "application/zip", "application/json") ? "zip" : "json"
