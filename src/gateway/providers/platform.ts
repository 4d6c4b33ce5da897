import { type ProviderApi } from "../formats/domain.ts"
import { type VendorDialect, type WireFormat } from "../formats/format.ts"
import { type ProviderAnswer } from "./provider.ts"

/** A request in the form of a platform; the path is below the provider's base URL and may have a query. */
export interface PlatformRequest {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
}

/** How a cloud that serves a vendor's formats differs from the vendor's own service. */
export interface Platform {
  /** What it serves of the dialect, where that is less than the vendor does. */
  readonly apis?: ReadonlySet<ProviderApi>
  /** A request to it, from one to the vendor; undefined if it does not serve the format. */
  request(
    format: WireFormat,
    model: string,
    streams: boolean,
    request: { readonly headers: Readonly<Record<string, string>>; readonly body: string | Uint8Array }
  ): PlatformRequest | undefined
  /** An answer as the vendor gives it. */
  answer?(answer: ProviderAnswer, format: WireFormat): ProviderAnswer
  /** The headers of a key that is given as it is, where they are not the vendor's. */
  authorize?(apiKey: string): Readonly<Record<string, string>>
  /** Headers of every request, where they are not the vendor's. */
  readonly headers?: Readonly<Record<string, string>>
  /** The path of its list of models, where it is not the vendor's; null if it has none. */
  readonly modelsPath?: string | null
  /** Whether it keeps files and batches where the vendor does; it does unless given. */
  readonly keeps?: boolean
  /** Its models by its list, where that is not the vendor's. */
  readonly modelsIn?: VendorDialect["modelsIn"]
}
