import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/access.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { Created } from "../../kernel/location.ts"
import { cursor, page, PageLimit } from "../../kernel/page.ts"
import { integerParameter } from "../../kernel/parameter.ts"
import { ValidationFailed } from "../../kernel/problems.ts"
import {
  AttestationKeyEnding,
  AttestationKeyId,
  AttestationKeyNotFound,
  AttestationKeyReplaced,
  AttestationKeyRotation,
  AttestationKeyView,
  PublicKeys
} from "../signing-keys/domain.ts"

const read = requires("attestation:read", { systemOnly: true })
const write = requires("attestation:write", { systemOnly: true })
const position = cursor(AttestationKeyId)

/** The keys that the service signs with, for whoever runs it. */
export class AttestationKeysApi extends HttpApiGroup.make("attestationKeys")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: {
        limit: Schema.optionalKey(integerParameter(PageLimit)),
        cursor: Schema.optionalKey(position)
      },
      success: page(AttestationKeyView, position)
    })
      .annotateMerge(read)
      .annotateMerge(
        OpenApi.annotations({
          summary: "List attestation keys",
          description: "The keys that the service signs with, or signed with; never a private half."
        })
      ),
    HttpApiEndpoint.get("get", "/:id", {
      params: { id: AttestationKeyId },
      success: AttestationKeyView,
      error: AttestationKeyNotFound
    })
      .annotateMerge(read)
      .annotateMerge(OpenApi.annotations({ summary: "Get an attestation key", description: "One key by id." })),
    HttpApiEndpoint.post("rotate", "/:id/rotate", {
      params: { id: AttestationKeyId },
      payload: AttestationKeyRotation,
      success: Created(AttestationKeyView),
      error: [AttestationKeyNotFound, AttestationKeyReplaced]
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Rotate an attestation key",
          description:
            "Answers the key that takes its place: published at once, and signing ten minutes later, when nobody keeps an older set of keys. The old one stays published for `overlapSeconds` after that; tokens that it signed are refused from then on. Tokens get a new key by themselves every `Security:TokenKeyDays`."
        })
      ),
    HttpApiEndpoint.delete("end", "/:id", {
      params: { id: AttestationKeyId },
      payload: AttestationKeyEnding,
      success: HttpApiSchema.NoContent,
      error: [AttestationKeyNotFound, ValidationFailed]
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "End an attestation key",
          description:
            "At once and for good, with no overlap; if it signed, another key does from now on. Its tokens are refused on every replica within a second. Statements that a superseded key signed stand; of a compromised one nothing does, and verification of the audit log says so of the checkpoints that it signed. Again is 204."
        })
      )
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/attestation/keys")
  .annotateMerge(
    OpenApi.annotations({
      title: "Attestation keys",
      description: "What the service signs tokens and statements with."
    })
  ) {}

export class AttestationApi extends HttpApiGroup.make("attestation")
  .add(
    HttpApiEndpoint.get("publicKeys", "/.well-known/attestation-keys.json", { success: PublicKeys }).annotateMerge(
      OpenApi.annotations({
        summary: "Get the public keys",
        description:
          "The keys that audit checkpoints are signed with, as a JWK set; an exported log is verified with them. No credential."
      })
    )
  )
  .annotateMerge(OpenApi.annotations({ title: "Attestation", description: "Keys that the service signs with." })) {}
