import { type Json } from "../json/parsed-json.ts"

/** Operations in a format that others define, errors included, served beside the groups of the API. */
export interface ForeignOperations {
  readonly tag: { readonly name: string; readonly description: string }
  readonly paths: Json
  readonly schemas: Json
  /** Where their clients send a credential, beside the places of the API's own. */
  readonly securitySchemes?: Json
}

/** Adds foreign operations to the OpenAPI document. */
export const withForeign =
  ({ paths, schemas, securitySchemes, tag }: ForeignOperations) =>
  (document: Record<string, unknown>): Record<string, unknown> => {
    const {
      components,
      paths: own,
      tags
    } = document as {
      readonly components: { readonly schemas: Json; readonly securitySchemes?: Json }
      readonly paths: Json
      readonly tags: ReadonlyArray<Json>
    }
    return {
      ...document,
      tags: [...tags, tag],
      paths: { ...own, ...paths },
      components: {
        schemas: { ...components.schemas, ...schemas },
        securitySchemes: { ...components.securitySchemes, ...securitySchemes }
      }
    }
  }
