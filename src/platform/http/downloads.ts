import { Context, Effect, Layer, type Stream } from "effect"
import { HttpServerResponse } from "effect/http"
import { type RateLimited } from "../../kernel/authority/principal.ts"
import { makePlaces } from "./places.ts"

/** A file that is written while it is sent. */
export interface Download {
  readonly fileName: string
  readonly contentType: string
  readonly content: Stream.Stream<Uint8Array>
  readonly headers?: Readonly<Record<string, string>>
}

/** Each download keeps what it has read of the database until its client takes it. */
export const maxDownloads = { principal: 16, tenant: 32, replica: 64 } as const

/** The downloads under way on this replica, of every kind. */
export class Downloads extends Context.Service<
  Downloads,
  {
    /** Takes a place for a download of the current principal, and then makes it; 429 names the limit that is reached. */
    respond<E, R>(
      made: Effect.Effect<Download, E, R>
    ): Effect.Effect<HttpServerResponse.HttpServerResponse, E | RateLimited, R>
  }
>()("app/platform/Downloads") {
  static readonly layer = Layer.effect(
    Downloads,
    Effect.map(makePlaces("downloads", maxDownloads), (claim) =>
      Downloads.of({
        respond: (made) =>
          Effect.flatMap(claim, ({ hold, release }) =>
            made.pipe(
              Effect.onError(() => release),
              Effect.map(({ content, contentType, fileName, headers }) =>
                HttpServerResponse.stream(hold(content), {
                  contentType,
                  headers: { "content-disposition": `attachment; filename="${fileName}"`, ...headers }
                })
              )
            )
          )
      })
    )
  )
}
