import { isJson, parsedJson } from "../../../kernel/json/parsed-json.ts"
import { lookupTable } from "../../../kernel/lookup-table.ts"
import { utf8Text } from "../../../kernel/utf8.ts"
import { type ProviderAnswer } from "../provider.ts"

/**
 * The statuses of Bedrock's errors (Amazon Bedrock API reference, "InvokeModel", "Errors"), where other vendors have another
 * one for the same: quotas are limits, and what fails within the model is no fault of the request.
 */
const statuses = lookupTable<number>({
  AccessDeniedException: 403,
  InternalServerException: 500,
  ModelErrorException: 500,
  ModelNotReadyException: 429,
  ModelStreamErrorException: 500,
  ModelTimeoutException: 504,
  ResourceNotFoundException: 404,
  ServiceQuotaExceededException: 429,
  ServiceUnavailableException: 503,
  ThrottlingException: 429,
  ValidationException: 400
})

/** The status of an error by its name, which begins with a small letter in streams; undefined for an unknown one. */
export const statusOfAwsError = (code: string | undefined): number | undefined =>
  code === undefined ? undefined : statuses[`${code.slice(0, 1).toUpperCase()}${code.slice(1)}`]

/** A name without the namespace before it and the address after it. */
const bareCode = (given: unknown): string | undefined =>
  typeof given === "string" ? /^(?:[^#]*#)?([A-Za-z]{1,100})(?::|$)/.exec(given)?.[1] : undefined

/** AWS's name of the error in an answer: in a header, or in the body (AWS restJson1 protocol, "Operation error serialization"). */
export const awsErrorCode = ({ body, headers }: ProviderAnswer): string | undefined => {
  const value = body instanceof Uint8Array ? parsedJson(utf8Text(body)) : undefined
  const outer = isJson(value) ? value : {}
  const inner = isJson(outer.error) ? outer.error : {}
  return [headers["x-amzn-errortype"], outer.__type, outer.code, inner.code, inner.type].map(bareCode).find(Boolean)
}

/** An error of AWS's with the status that other vendors have for it. */
export const withVendorStatus = (answer: ProviderAnswer): ProviderAnswer =>
  answer.status < 400 ? answer : { ...answer, status: statusOfAwsError(awsErrorCode(answer)) ?? answer.status }
