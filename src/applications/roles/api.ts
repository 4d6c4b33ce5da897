import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { ApplicationId, ApplicationNotFound } from "../applications/domain.ts"
import { Access, requires } from "../../kernel/authority/access.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { Created, LinkedArray } from "../../kernel/http/location.ts"
import { integerParameter } from "../../kernel/http/parameter.ts"
import { roleListing, Role, RoleBuiltIn, RoleId, RoleInUse, RoleNameTaken, RoleNotFound, RolePatch } from "./domain.ts"

const read = requires("roles:read", { systemOnly: true })
const write = requires("roles:write", { systemOnly: true })

export class RolesApi extends HttpApiGroup.make("roles")
  .add(
    endpoint.get("list", "/", {
      summary: "List roles",
      description: "In the order of their ids; `applicationId` leaves one application's.",
      access: read,
      query: roleListing.query({ applicationId: Schema.optionalKey(integerParameter(ApplicationId)) }),
      success: LinkedArray(Role.json)
    }),
    endpoint.get("get", "/:id", {
      summary: "Get a role",
      description: "One role by id.",
      access: read,
      params: { id: integerParameter(RoleId) },
      success: Role.json,
      error: RoleNotFound
    }),
    endpoint.post("create", "/", {
      summary: "Create a role",
      description:
        "Applications name their capabilities themselves; repetitions are dropped. A role of the application " +
        "`application-manager` has capabilities of this service only, and the caller needs every one of them.",
      access: write,
      payload: Role.jsonCreate,
      success: Created(Role.json),
      error: [ApplicationNotFound, RoleNameTaken]
    }),
    endpoint.patch("update", "/:id", {
      summary: "Change a role",
      description:
        "Any subset of the members; `capabilities` are replaced as a whole. For a role of the application " +
        "`application-manager` the caller needs every capability that the role has before and after.",
      access: write,
      params: { id: integerParameter(RoleId) },
      payload: RolePatch,
      success: Role.json,
      error: [RoleNotFound, RoleNameTaken, RoleBuiltIn]
    }),
    endpoint.delete("delete", "/:id", {
      summary: "Delete a role",
      description:
        "Frees its name. For a role of the application `application-manager` the caller needs every capability of the role.",
      access: write,
      params: { id: integerParameter(RoleId) },
      error: [RoleNotFound, RoleBuiltIn, RoleInUse]
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/roles")
  .annotateMerge(OpenApi.annotations({ title: "Roles", description: "Lists of capabilities, per application." })) {}
