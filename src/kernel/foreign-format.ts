/** JSON of the OpenAPI document. */
export type Json = Readonly<Record<string, unknown>>

/** Operations that speak as others have laid down, errors included, and are served beside the groups of the API. */
export interface ForeignOperations {
  readonly tag: { readonly name: string; readonly description: string }
  readonly paths: Json
  readonly schemas: Json
}

/** Adds such operations to the document. */
export const withForeign =
  ({ paths, schemas, tag }: ForeignOperations) =>
  (document: Record<string, unknown>): Record<string, unknown> => {
    const {
      components,
      paths: own,
      tags
    } = document as {
      readonly components: { readonly schemas: Json }
      readonly paths: Json
      readonly tags: ReadonlyArray<Json>
    }
    return {
      ...document,
      tags: [...tags, tag],
      paths: { ...own, ...paths },
      components: { ...components, schemas: { ...components.schemas, ...schemas } }
    }
  }
