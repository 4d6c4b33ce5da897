import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { cursor, page, pageQuery } from "../../kernel/http/page.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { BrokenBound, BrokenBoundId, BrokenBoundNotFound, BrokenBoundPatch, BrokenBoundStatus } from "./domain.ts"

const admin = requires("llm:admin", { systemOnly: true })
const position = cursor(BrokenBoundId)

export class BrokenBoundsApi extends HttpApiGroup.make("brokenBounds")
  .add(
    endpoint.get("list", "/", {
      summary: "List targets that charged more than was held",
      description: "The newest first. While one is `over`, its target takes no such calls under hard caps.",
      access: admin,
      query: { status: Schema.optionalKey(BrokenBoundStatus), ...pageQuery(position) },
      success: page(BrokenBound, position)
    }),
    endpoint.get("get", "/:id", {
      summary: "Get a target that charged more than was held",
      description: "One of the list by its id.",
      access: admin,
      params: { id: BrokenBoundId },
      success: BrokenBound,
      error: BrokenBoundNotFound
    }),
    endpoint.patch("update", "/:id", {
      summary: "Acknowledge a charge above what was held",
      description:
        "With the status `acknowledged` and a reason: the target takes such calls again, here at once and on other replicas soon after.",
      access: admin,
      params: { id: BrokenBoundId },
      payload: BrokenBoundPatch,
      success: BrokenBound,
      error: [BrokenBoundNotFound, ValidationFailed]
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/llm/admin/broken-bounds")
  .annotateMerge(
    OpenApi.annotations({
      title: "Broken bounds",
      description: "Charges of the gateway that exceeded what was held for them under a hard cap."
    })
  ) {}
