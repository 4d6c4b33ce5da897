import { Data } from "effect"
import { type DialectError } from "../translation/errors.ts"
import { type Quota } from "../translation/quota-headers.ts"
import { type AgentNotActive } from "../../identity/agents/domain.ts"
import { type TransferError } from "../../budgets/reservations/transfers.ts"
import { problemType } from "../../kernel/problem.ts"
import { type AlreadyCompleted } from "./repeat-domain.ts"

/** Why a call gets no answer, before it is written in the dialect of its caller. */
export class GatewayError extends Data.TaggedError("CallRefused")<{
  readonly error: DialectError
  readonly headers?: Readonly<Record<string, string>>
  /** What is left of the limit that was hit, where it is one of requests or tokens. */
  readonly quota?: Quota | undefined
  /** What the gateway's own words tell, where that is more than a message: the denial of a cap, a plan or a reservation. */
  readonly problem?: TransferError | AgentNotActive | AlreadyCompleted
}> {
  /** What spans and logs see: a provider's own words may repeat what was said. */
  override get message() {
    return this.error.code ?? String(this.error.status)
  }
}

/** No caller is told to wait for longer. */
const longestRetryAfterSeconds = 60

export const refused = (
  status: number,
  code: string,
  message: string,
  headers: Readonly<Record<string, string>> = {},
  param?: string
): GatewayError => new GatewayError({ error: { status, code, message, param }, headers })

/** What the ledger refuses, with its slug as the code. */
export const refusedFor = (
  problem: TransferError | AgentNotActive,
  headers: Readonly<Record<string, string>> = {}
): GatewayError => {
  const code = problem.type.slice(problemType("").length).replaceAll("-", "_")
  return new GatewayError({ error: { status: problem.status, code, message: problem.detail }, headers, problem })
}

export const retryAfter = (seconds: number): Readonly<Record<string, string>> => ({
  "retry-after": String(Math.min(longestRetryAfterSeconds, Math.max(1, Math.ceil(seconds))))
})
