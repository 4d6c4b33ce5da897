import { type CallError } from "../../budgets/ledger/protocol-domain.ts"
import { lookupTable } from "../../kernel/lookup-table.ts"
import { contextLengthExceeded, type DialectError } from "../formats/errors.ts"
import { type ProviderFailure } from "../providers/provider.ts"

/** What codes mean, in words that hold for every provider. */
const meanings = lookupTable({
  [contextLengthExceeded]: "The request is longer than the model's context.",
  content_filter: "The provider's content filter refused the request.",
  content_policy_violation: "The provider's content filter refused the request.",
  model_not_found: "The provider does not have this model.",
  overloaded: "The provider is overloaded.",
  overloaded_error: "The provider is overloaded.",
  "provider-timeout": "The provider did not answer in time.",
  "provider-unavailable": "The provider broke its answer off.",
  rate_limit_error: "The provider's rate limit is reached.",
  rate_limit_exceeded: "The provider's rate limit is reached."
})

/** Codes are names; a provider may send any text in their place. */
const isName = /^[\w.:-]{1,64}$/

/** An error for a usage row: its code, and a text of the gateway's own, never the provider's. */
const toCallError = ({ code }: DialectError, otherwise: string): CallError => {
  const name = code !== null && isName.test(code) ? code : "provider-error"
  return { code: name, message: meanings[name] ?? otherwise }
}

/** Why an attempt failed: what is no answer of the provider is described by the gateway itself. */
export const attemptErrorOf = ({ error, isOwn, received = error.status }: ProviderFailure): CallError =>
  isOwn
    ? { code: error.code ?? "provider-error", message: error.message }
    : toCallError(error, `The provider answered with status ${received}.`)

/** Why an answer failed that had begun. */
export const answerErrorOf = (error: DialectError): CallError =>
  toCallError(error, "The provider's answer ended with an error.")

/** The error of a call that its caller left. */
export const callerLeft: CallError = {
  code: "client-closed-request",
  message: "The caller closed the connection before the answer was complete."
}
