import { Context } from "effect"
import { type Provider } from "./provider.ts"

/** The model that works without an account. */
export const loopbackModel = "loopback-1"
export const loopbackId = "loopback"
/** The tokens of an image that it makes. */
export const loopbackImageTokens = 100

/** The provider of that model within this process, which every configuration has; the sandbox provides it. */
export class LoopbackProvider extends Context.Service<LoopbackProvider, Provider>()("app/gateway/LoopbackProvider") {}
