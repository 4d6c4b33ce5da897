import builtIn from "virtual:built-in"

/** The application whose roles say what accounts may do here. */
export const ownSlug = "application-manager"

/** Whether every installation has the application; then its slug, its status and its configuration stay as they are. */
export const isBuiltIn = ({ slug }: { readonly slug: string }): boolean => builtIn.applications.includes(slug)

/** Whether every installation has the role; then it is neither changed nor deleted. */
export const isBuiltInRole = (application: { readonly slug: string }, { name }: { readonly name: string }): boolean =>
  application.slug === ownSlug && builtIn.roles.includes(name)
