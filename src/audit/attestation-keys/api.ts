import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { crudEndpoints } from "../../kernel/http/crud-endpoints.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Created } from "../../kernel/http/location.ts"
import { cursor, page, pageQuery } from "../../kernel/http/page.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import {
  AttestationKeyCreation,
  AttestationKeyEnding,
  AttestationKeyExists,
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
const attestationKeys = crudEndpoints("an attestation key", {
  read,
  write,
  id: AttestationKeyId,
  view: AttestationKeyView,
  notFound: AttestationKeyNotFound
})

/** Lets operators list and manage the keys that the service signs with. */
export class AttestationKeysApi extends HttpApiGroup.make("attestationKeys")
  .add(
    attestationKeys.list({
      description:
        "The keys that the service signs with or signed with, and those that it trusts; never a private half.",
      query: {
        ...pageQuery(position)
      },
      success: page(AttestationKeyView, position)
    }),
    attestationKeys.create({
      description:
        "A key to sign with is generated here, and its private half never leaves; it is published at once, and signs ten minutes later (of assertions two days) in the place of the one before, which stays valid. With the purpose `verify`, a public key of another party is trusted, and statements signed with it are verified.",
      payload: AttestationKeyCreation,
      error: [AttestationKeyExists, ValidationFailed]
    }),
    attestationKeys.get({ description: "One key by id." }),
    endpoint.post("rotate", "/:id/rotate", {
      summary: "Rotate an attestation key",
      description:
        "Returns the new key: published at once, and signing ten minutes later, of assertions two days, when every cached key set includes it. The old key stays published for `overlapSeconds` after that; then the tokens that it signed are refused. The keys of tokens and assertions rotate by themselves every `Security:TokenKeyDays`.",
      access: write,
      params: { id: AttestationKeyId },
      payload: AttestationKeyRotation,
      success: Created(AttestationKeyView),
      error: [AttestationKeyNotFound, AttestationKeyReplaced]
    }),
    endpoint.delete("end", "/:id", {
      summary: "End an attestation key",
      description:
        "Immediate and permanent, without an overlap; another key signs in its place. Its tokens are refused on every replica within a second. What a superseded key signed stays valid; what a compromised key signed does not, and verification of the audit log reports its checkpoints. Repeating it is 204.",
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
        "The keys that tokens, audit checkpoints and statements are signed with, as a JWK set; an exported log is verified with them. No credential.",
      success: PublicKeys
    })
  )
  .annotateMerge(OpenApi.annotations({ title: "Attestation", description: "Keys that the service signs with." })) {}
