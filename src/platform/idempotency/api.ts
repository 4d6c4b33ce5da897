import { HttpApiMiddleware } from "effect/http-api"
import { IdempotencyInProgress, IdempotencyKeyInvalid, IdempotencyKeyReused } from "./domain.ts"

/** Makes every POST repeatable: all requests under an Idempotency-Key get the response to the first. */
export class Idempotency extends HttpApiMiddleware.Service<Idempotency>()("app/platform/Idempotency", {
  error: [IdempotencyInProgress, IdempotencyKeyInvalid, IdempotencyKeyReused]
}) {}
