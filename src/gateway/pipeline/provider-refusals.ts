import { forwardedResponseHeaders } from "./call-answers.ts"
import { type ProviderFailure } from "../providers/provider.ts"
import { GatewayError, retryAfter } from "../errors/gateway-error.ts"

/** A provider's failure as its caller is told, with the headers that its answers have too. */
export const refusalOf = ({ error, headers = {}, retryAfterSeconds }: ProviderFailure): GatewayError =>
  new GatewayError({
    error,
    headers: {
      ...forwardedResponseHeaders(headers),
      ...(retryAfterSeconds === undefined ? {} : retryAfter(retryAfterSeconds))
    }
  })
