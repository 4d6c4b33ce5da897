import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Created } from "../../kernel/http/location.ts"
import { page } from "../../kernel/http/page.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { AgentId, AgentNotActive, AgentNotFound } from "../agents/domain.ts"
import {
  agentKeyListing,
  AgentKeyId,
  AgentKeyLimit,
  AgentKeyNotFound,
  AgentKeyRegistration,
  AgentKeyTaken,
  AgentKeyUnusable,
  AgentKeyView
} from "./domain.ts"

const read = requires("agents:read")
const write = requires("agents:write")

export class AgentKeysApi extends HttpApiGroup.make("agentKeys")
  .add(
    endpoint.get("list", "/", {
      summary: "List an agent's keys",
      description: "With their status, revoked ones too.",
      access: read,
      params: { id: AgentId },
      query: agentKeyListing.query({}),
      success: page(AgentKeyView, agentKeyListing.position),
      error: AgentNotFound
    }),
    endpoint.post("register", "/", {
      summary: "Register an agent's public key",
      description:
        "One SPKI block in PEM that fits the algorithm: P-256, Ed25519, or RSA of 2,048 bits and more. Valid from now for a year by default; at most five active keys. The caller needs every scope of the agent's ceiling.",
      access: write,
      params: { id: AgentId },
      payload: AgentKeyRegistration,
      success: Created(AgentKeyView),
      error: [AgentNotFound, AgentNotActive, AgentKeyTaken, AgentKeyLimit, AgentKeyUnusable]
    }),
    endpoint.delete("revoke", "/:keyId", {
      summary: "Revoke an agent's key",
      description: "From then on it mints nothing, on any replica. Repeating it is 204.",
      access: write,
      params: { id: AgentId, keyId: AgentKeyId },
      query: {
        revokeCredentials: Schema.optionalKey(
          Schema.Literals(["true", "false"]).annotate({ description: "Whether what the key minted ends with it" })
        )
      },
      error: [AgentNotFound, AgentKeyNotFound]
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/agents/:id/keys")
  .annotateMerge(
    OpenApi.annotations({ title: "Agent keys", description: "Public keys that agents sign their assertions with." })
  ) {}
