import { passedBack } from "./call-answers.ts"
import { type ProviderFailure } from "../providers/provider.ts"
import { CallRefused, retryAfter } from "../errors/gateway-error.ts"

/** A provider's failure as its caller is told, with the headers that its answers have too. */
export const refusalOf = ({ error, headers = {}, retryAfterSeconds }: ProviderFailure): CallRefused =>
  new CallRefused({
    error,
    headers: { ...passedBack(headers), ...(retryAfterSeconds === undefined ? {} : retryAfter(retryAfterSeconds)) }
  })
