/** The routes of the API, by operation; made by the build from the same declarations as the OpenAPI document. */
declare module "virtual:routes" {
  const routes: Readonly<Record<string, readonly [method: string, path: string]>>
  export default routes
}

/** The actions of each resource that capabilities are about. */
declare module "virtual:capabilities" {
  const capabilities: Readonly<Record<string, ReadonlyArray<string>>>
  export default capabilities
}

/** The capabilities that are of no use to a caller of one tenant. */
declare module "virtual:installation-only" {
  const installationOnly: ReadonlyArray<string>
  export default installationOnly
}

/** What every installation has and keeps: the slugs of applications, and the names of roles of this service. */
declare module "virtual:built-in" {
  const builtIn: { readonly applications: ReadonlyArray<string>; readonly roles: ReadonlyArray<string> }
  export default builtIn
}

/** The operations that read of one tenant where their query names it. */
declare module "virtual:of-tenants" {
  const ofTenants: ReadonlyArray<string>
  export default ofTenants
}

/** The vendors of models, and where they serve them. */
declare module "virtual:vendors" {
  import type { Vendor } from "#src/gateway/configuration/vendors-domain.ts"
  const vendors: ReadonlyArray<Vendor>
  export default vendors
}

/** What the credentials of a provider consist of, by their type and, of federation, their vendor. */
declare module "virtual:credentials" {
  const credentials: Readonly<
    Record<
      string,
      ReadonlyArray<{
        readonly name: string
        readonly description: string
        readonly isRequired: boolean
        readonly pattern?: string
      }>
    >
  >
  export default credentials
}

/** Used forms need to know of the members of every operation's body. */
declare module "virtual:members" {
  const members: Readonly<Record<string, Readonly<Record<string, { readonly kind: string }>>>>
  export default members
}

/** The schema of the body of an operation, which the rest of the path names. */
declare module "virtual:body/*" {
  import type { DocumentSchema } from "#src/console/web/kit/texts/schema.ts"
  const schema: DocumentSchema
  export default schema
}

declare module "*.css"
