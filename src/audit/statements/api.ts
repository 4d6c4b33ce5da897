import { HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { Statement, StatementEnvelope, StatementToVerify, StatementVerdict } from "./domain.ts"

/** Lets operators have statements signed and verified. */
export class StatementsApi extends HttpApiGroup.make("statements")
  .add(
    endpoint
      .post("sign", "/statements", {
        summary: "Sign a statement",
        description:
          "Returns an in-toto statement (version 1) in a DSSE envelope, signed with the installation's key for statements. The time of signing is recorded.",
        access: requires("attestation:write", { systemOnly: true }),
        payload: Statement,
        success: StatementEnvelope.pipe(HttpApiSchema.status(201)),
        error: ValidationFailed
      })
      .middleware(Idempotency),
    endpoint.post("verify", "/verify", {
      summary: "Verify a statement",
      description:
        "200 also when it is not verified, with the reason. One valid signature is enough. A signature of the installation counts if its key was valid at the recorded time of signing, one of a trusted key (purpose `verify`) if that key is valid now; none of a compromised key counts.",
      access: requires("attestation:read", { systemOnly: true }),
      payload: StatementToVerify,
      success: StatementVerdict,
      error: ValidationFailed
    })
  )
  .middleware(Access)
  .prefix("/api/attestation")
  .annotateMerge(
    OpenApi.annotations({ title: "Statements", description: "Signed statements about files and reports." })
  ) {}
