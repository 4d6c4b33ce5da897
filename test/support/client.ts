import { Context, Effect } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest } from "effect/http"
import { HttpApiClient } from "effect/http-api"
import { Api } from "../../src/api.ts"
import { serviceKey, type TestService } from "./service.ts"

/** The API key that typed calls send. */
export const CallerKey = Context.Reference<string>("test/CallerKey", { defaultValue: () => serviceKey })

const make = (baseUrl: string) =>
  HttpApiClient.make(Api, {
    baseUrl,
    transformClient: HttpClient.mapRequestEffect((request) =>
      Effect.map(CallerKey, (key) => HttpClientRequest.setHeader(request, "x-api-key", key))
    )
  }).pipe(Effect.provide(FetchHttpClient.layer), Effect.runSync)

const clients = new Map<string, ReturnType<typeof make>>()

/** The groups of the API as typed calls, for the steps of a test whose wire is not what it tests. */
export const clientOf = ({ url }: TestService["Service"]): ReturnType<typeof make> => {
  const client = clients.get(url) ?? make(url)
  clients.set(url, client)
  return client
}
