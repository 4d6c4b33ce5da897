import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Uuid } from "../../kernel/identifier.ts"
import { GatewayContent, GatewayContentNotFound } from "./domain.ts"

export class TranscriptsApi extends HttpApiGroup.make("gatewayContents")
  .add(
    endpoint.get("get", "/:id", {
      summary: "Read the transcript of a call",
      description:
        "By the id of the call's reservation. Kept only while Llm:Gateway:LogContent is on, for Llm:Gateway:LogContentRetentionDays, encrypted; each reading is an audit entry.",
      access: requires("llm:admin", { systemOnly: true }),
      params: { id: Uuid },
      success: GatewayContent,
      error: GatewayContentNotFound
    })
  )
  .middleware(Access)
  .prefix("/api/llm/admin/contents")
  .annotateMerge(
    OpenApi.annotations({
      title: "Contents of LLM calls",
      description: "Stored prompts and completions; off by default."
    })
  ) {}
