import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { crudEndpoints } from "../../kernel/http/crud-endpoints.ts"
import { LinkedArray } from "../../kernel/http/location.ts"
import { integerParameter } from "../../kernel/http/parameter.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { ApplicationId, ApplicationNotFound } from "../applications/domain.ts"
import { roleListing, Role, RoleBuiltIn, RoleId, RoleInUse, RoleNameTaken, RoleNotFound, RolePatch } from "./domain.ts"

const read = requires("roles:read", { systemOnly: true })
const write = requires("roles:write", { systemOnly: true })
const roles = crudEndpoints("a role", {
  read,
  write,
  id: integerParameter(RoleId),
  view: Role.json,
  notFound: RoleNotFound
})

export class RolesApi extends HttpApiGroup.make("roles")
  .add(
    roles.list({
      description: "In the order of their ids; `applicationId` leaves one application's.",
      query: roleListing.query({ applicationId: Schema.optionalKey(integerParameter(ApplicationId)) }),
      success: LinkedArray(Role.json)
    }),
    roles.get({ description: "One role by id." }),
    roles.create({
      description:
        "Applications name their capabilities themselves; repetitions are dropped. A role of the application " +
        "`application-manager` has capabilities of this service only, and the caller needs every one of them.",
      payload: Role.jsonCreate,
      error: [ApplicationNotFound, RoleNameTaken]
    }),
    roles.update({
      description:
        "Any subset of the members; `capabilities` are replaced as a whole. For a role of the application " +
        "`application-manager` the caller needs every capability that the role has before and after.",
      payload: RolePatch,
      error: [RoleNameTaken, RoleBuiltIn]
    }),
    roles.delete({
      description:
        "Frees its name. For a role of the application `application-manager` the caller needs every capability of the role.",
      error: [RoleBuiltIn, RoleInUse]
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/roles")
  .annotateMerge(OpenApi.annotations({ title: "Roles", description: "Lists of capabilities, per application." })) {}
