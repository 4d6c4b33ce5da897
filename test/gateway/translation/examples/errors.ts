import { type Json } from "../../../../src/kernel/json/parsed-json.ts"
import { type Examples } from "./domain.ts"

const message = "Too many tokens."

/** Errors by what they show: a body with its status, of the gateway itself (`own`) or of a provider's dialect. */
export const errors: Examples<Json> = {
  "have the shape and type of each dialect": {
    own: { status: 402, message: "Nothing left.", code: "insufficient_quota" }
  },
  "say overload with the status of the dialect": {
    own: { status: 503, message: "Overload.", code: null },
    openai: { status: 503, error: { message: "Overload.", type: "server_error", param: null, code: null } },
    anthropic: { status: 529, type: "error", error: { type: "overloaded_error", message: "Overload." } }
  },
  "of a provider are told as they came to whoever speaks its dialect, and to others in their own words": {
    openai: { status: 429, error: { message, type: "tokens", param: null, code: "rate_limit_exceeded", "x-other": 1 } },
    anthropic: {
      status: 400,
      type: "error",
      error: { type: "odd_error", message, details: { error_visibility: "user_facing", nested: [1] } },
      request_id: "theirs"
    }
  },
  "name the member that is at fault": {
    openai: {
      status: 400,
      error: { message: "Bad n.", type: "invalid_request_error", param: "n", code: "bad_n" }
    }
  },
  "that are no error of the dialect's are told as the gateway's own are": {
    openai: { status: 500, error: { message, type: 7 } },
    anthropic: { status: 422, detail: [{ loc: ["body", "n"], msg: "extra fields not permitted" }] }
  }
}
