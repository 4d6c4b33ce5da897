import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/access.ts"
import { endpoint } from "../../kernel/endpoint.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { Created } from "../../kernel/location.ts"
import { cursor, page, pageQuery } from "../../kernel/page.ts"
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
    endpoint.get("list", "/", {
      summary: "List attestation keys",
      description: "The keys that the service signs with, or signed with; never a private half.",
      access: read,
      query: {
        ...pageQuery(position)
      },
      success: page(AttestationKeyView, position)
    }),
    endpoint.get("get", "/:id", {
      summary: "Get an attestation key",
      description: "One key by id.",
      access: read,
      params: { id: AttestationKeyId },
      success: AttestationKeyView,
      error: AttestationKeyNotFound
    }),
    endpoint.post("rotate", "/:id/rotate", {
      summary: "Rotate an attestation key",
      description:
        "Answers the key that takes its place: published at once, and signing ten minutes later, when nobody keeps an older set of keys. The old one stays published for `overlapSeconds` after that; tokens that it signed are refused from then on. Tokens get a new key by themselves every `Security:TokenKeyDays`.",
      access: write,
      params: { id: AttestationKeyId },
      payload: AttestationKeyRotation,
      success: Created(AttestationKeyView),
      error: [AttestationKeyNotFound, AttestationKeyReplaced]
    }),
    endpoint.delete("end", "/:id", {
      summary: "End an attestation key",
      description:
        "At once and for good, with no overlap; if it signed, another key does from now on. Its tokens are refused on every replica within a second. Statements that a superseded key signed stand; of a compromised one nothing does, and verification of the audit log says so of the checkpoints that it signed. Again is 204.",
      access: write,
      params: { id: AttestationKeyId },
      payload: AttestationKeyEnding,
      error: [AttestationKeyNotFound, ValidationFailed]
    })
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
    endpoint.get("publicKeys", "/.well-known/attestation-keys.json", {
      summary: "Get the public keys",
      description:
        "The keys that audit checkpoints are signed with, as a JWK set; an exported log is verified with them. No credential.",
      success: PublicKeys
    })
  )
  .annotateMerge(OpenApi.annotations({ title: "Attestation", description: "Keys that the service signs with." })) {}
