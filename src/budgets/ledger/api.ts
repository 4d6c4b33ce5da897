import { HttpApiMiddleware } from "effect/http-api"

/**
 * Writes the enqueued settlements before a request is answered: the gateway does not let its callers wait for them, so an
 * answer about spending would otherwise miss calls that have ended.
 */
export class FlushSettlements extends HttpApiMiddleware.Service<FlushSettlements>()("app/budgets/FlushSettlements") {}
