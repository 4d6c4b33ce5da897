import { LoopbackLayer } from "./loopback/loopback.ts"

/** The provider `loopback`, which needs no account. */
export const layer = LoopbackLayer
