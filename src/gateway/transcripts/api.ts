import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/access.ts"
import { Uuid } from "../../kernel/identifier.ts"
import { GatewayContent, GatewayContentNotFound } from "./domain.ts"

export class GatewayContentsApi extends HttpApiGroup.make("gatewayContents")
  .add(
    HttpApiEndpoint.get("get", "/:id", { params: { id: Uuid }, success: GatewayContent, error: GatewayContentNotFound })
      .annotateMerge(requires("llm:admin", { systemOnly: true }))
      .annotateMerge(
        OpenApi.annotations({
          summary: "Read what was said in a call",
          description:
            "By the id of the call's reservation. Kept only while Llm:Gateway:LogContent is on, for Llm:Gateway:LogContentRetentionDays, encrypted; each reading is an audit entry."
        })
      )
  )
  .middleware(Access)
  .prefix("/api/llm/admin/contents")
  .annotateMerge(
    OpenApi.annotations({ title: "Contents of LLM calls", description: "What was said, where that is kept." })
  ) {}
