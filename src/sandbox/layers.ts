import { LoopbackLayer } from "./loopback/loopback.ts"

/** The model that works without an account. */
export const layer = LoopbackLayer
