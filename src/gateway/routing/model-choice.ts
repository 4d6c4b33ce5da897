import { Effect } from "effect"
import { type Operation } from "../providers/provider.ts"
import { type GatewayError, refused } from "../errors/gateway-error.ts"
import { type GatewaySnapshot, type ServedModel } from "../configuration/gateway-snapshot.ts"

/** The model that a call asks for by its name, where it does what is asked. */
export const modelFor = (
  gateway: GatewaySnapshot,
  name: unknown,
  operation: Operation
): Effect.Effect<ServedModel, GatewayError> => {
  if (typeof name !== "string" || name === "") {
    return Effect.fail(refused(400, "invalid_request", "model: Expected the name of a model", {}, "model"))
  }
  const model = gateway.modelNamed(name)
  if (model === undefined) {
    return Effect.fail(refused(404, "model_not_found", `The model \`${name}\` does not exist.`, {}, "model"))
  }
  const embeds = model.kind === "embedding" || model.capabilities.includes("embeddings")
  return (operation === "embed" ? embeds : model.kind === "chat")
    ? Effect.succeed(model)
    : Effect.fail(refused(400, "model_not_supported", `The model \`${name}\` does not do this.`, {}, "model"))
}
