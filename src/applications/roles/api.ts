import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { ApplicationId, ApplicationNotFound } from "../applications/domain.ts"
import { Access, requires } from "../../kernel/access.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { Created, LinkedArray } from "../../kernel/location.ts"
import { ArrayLimit, cursor } from "../../kernel/page.ts"
import { integerParameter } from "../../kernel/parameter.ts"
import { Role, RoleBuiltIn, RoleId, RoleInUse, RoleNameTaken, RoleNotFound, RolePatch } from "./domain.ts"

const read = requires("roles:read", { systemOnly: true })
const write = requires("roles:write", { systemOnly: true })

export class RolesApi extends HttpApiGroup.make("roles")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: {
        applicationId: Schema.optionalKey(integerParameter(ApplicationId)),
        limit: Schema.optionalKey(integerParameter(ArrayLimit)),
        cursor: Schema.optionalKey(cursor(RoleId))
      },
      success: LinkedArray(Role.json)
    })
      .annotateMerge(read)
      .annotateMerge(
        OpenApi.annotations({
          summary: "List roles",
          description: "In the order of their ids; `applicationId` leaves one application's."
        })
      ),
    HttpApiEndpoint.get("get", "/:id", {
      params: { id: integerParameter(RoleId) },
      success: Role.json,
      error: RoleNotFound
    })
      .annotateMerge(read)
      .annotateMerge(OpenApi.annotations({ summary: "Get a role", description: "One role by id." })),
    HttpApiEndpoint.post("create", "/", {
      payload: Role.jsonCreate,
      success: Created(Role.json),
      error: [ApplicationNotFound, RoleNameTaken]
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Create a role",
          description:
            "Applications name their capabilities themselves; repetitions are dropped. A role of the application " +
            "`application-manager` has capabilities of this service only, and the caller needs every one of them."
        })
      ),
    HttpApiEndpoint.patch("update", "/:id", {
      params: { id: integerParameter(RoleId) },
      payload: RolePatch,
      success: Role.json,
      error: [RoleNotFound, RoleNameTaken, RoleBuiltIn]
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Change a role",
          description:
            "Any subset of the members; `capabilities` are replaced as a whole. For a role of the application " +
            "`application-manager` the caller needs every capability that the role has before and after."
        })
      ),
    HttpApiEndpoint.delete("delete", "/:id", {
      params: { id: integerParameter(RoleId) },
      success: HttpApiSchema.NoContent,
      error: [RoleNotFound, RoleBuiltIn, RoleInUse]
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Delete a role",
          description:
            "Frees its name. For a role of the application `application-manager` the caller needs every capability of the role."
        })
      )
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/roles")
  .annotateMerge(OpenApi.annotations({ title: "Roles", description: "Lists of capabilities, per application." })) {}
