import { HttpApiMiddleware } from "effect/http-api"
import { IdempotencyInProgress, IdempotencyKeyInvalid, IdempotencyKeyReused } from "./domain.ts"

/** Makes every POST repeatable: the answer to the first request under an Idempotency-Key is the answer to all. */
export class Idempotency extends HttpApiMiddleware.Service<Idempotency>()("app/idempotency/Idempotency", {
  error: [IdempotencyInProgress, IdempotencyKeyInvalid, IdempotencyKeyReused]
}) {}
