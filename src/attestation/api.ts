import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { PublicKeys } from "./domain.ts"

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
