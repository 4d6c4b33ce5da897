import { type ProviderApi } from "../../formats/domain.ts"
import { type Platform } from "../platform.ts"

/** What it serves by deployment (openai 6.49.0, AzureOpenAI). */
const byDeployment: ReadonlySet<ProviderApi> = new Set([
  "chat",
  "completions",
  "embeddings",
  "speech",
  "images",
  "transcriptions"
])

const keyHeader = (apiKey: string) => ({ "api-key": apiKey })

/**
 * Azure OpenAI by deployment (Microsoft, "Azure OpenAI in Microsoft Foundry Models REST API reference"): the model is the name of
 * a deployment and a part of the path, and every address has an `api-version`. The Responses API is only at
 * `/openai/v1`, which is OpenAI's own form.
 */
const azureDeployments = (apiVersion: string): Platform => {
  const query = `?${new URLSearchParams({ "api-version": apiVersion }).toString()}`
  return {
    request: (format, model, streams, request) =>
      byDeployment.has(format.api)
        ? {
            ...request,
            path: `/openai/deployments/${encodeURIComponent(model)}${format.pathOf(model, streams)}${query}`
          }
        : undefined,
    authorize: keyHeader,
    modelsPath: `/openai/models${query}`,
    keeps: false
  }
}

/** Azure OpenAI at `/openai/v1`, in OpenAI's own form but for the header of a key. */
const azureV1: Platform = {
  request: (format, model, streams, request) => ({ ...request, path: format.pathOf(model, streams) }),
  authorize: keyHeader
}

/** How Azure serves OpenAI's models: by deployment where an `api-version` is given. */
export const azurePlatform = (apiVersion: string | undefined): Platform =>
  apiVersion === undefined ? azureV1 : azureDeployments(apiVersion)
