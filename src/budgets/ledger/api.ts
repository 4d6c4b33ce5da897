import { HttpApiMiddleware } from "effect/http-api"

/**
 * Shows what is spent once the calls that were answered before are charged: the gateway does not make its callers wait for
 * that.
 */
export class AfterCharges extends HttpApiMiddleware.Service<AfterCharges>()("app/budgets/AfterCharges") {}
