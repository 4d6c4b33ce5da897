import { useMutation } from "@tanstack/react-query"
import { type ReactNode, useEffect } from "react"
import { useLocation, useSearchParams } from "wouter"
import { call, Failure } from "../../api/client.ts"
import { useCall } from "../../api/hooks.ts"
import { Form, textOf, TextField } from "../../kit/forms/form.tsx"
import { PasswordField } from "../../kit/forms/password.tsx"
import { Mark } from "../../kit/icons.tsx"
import { renewSession, useSession } from "../../shell/session.tsx"

/** A page without navigation: one card. */
export const Gate = ({ children, title }: { readonly children: ReactNode; readonly title: string }) => {
  useEffect(() => {
    document.title = `${title} · Application Manager`
  }, [title])
  return (
    <main className="gate">
      <div className="brand">
        <Mark />
        Application Manager
      </div>
      <section className="card">
        <h1>{title}</h1>
        {children}
      </section>
    </main>
  )
}

/** The page of a one-time link that was opened without its token. */
export const LinkNeeded = ({ children, title }: { readonly children: ReactNode; readonly title: string }) => (
  <Gate title={title}>
    <div className="in">
      <p className="fault" role="alert">
        This page needs the whole link.
      </p>
      <p>{children}</p>
    </div>
  </Gate>
)

/** Where a sign-in goes on: a page of the console, never another address, which dots in a path may lead to. */
const nextOf = (search: URLSearchParams): string => {
  const next = search.get("next") ?? "/"
  return /^\/console\/(?!\/)/.test(new URL(`/console${next}`, location.origin).pathname) ? next : "/"
}

/** The longest path that a sign-in with an identity provider leads back to. */
const longestNext = 512

/** The identity providers to sign in with instead, where there are any. */
const Providers = ({ next }: { readonly next: string }) => {
  const { pathname, search } = new URL(`/console${next}`, location.origin)
  // A URL keeps backslashes of a query as they are, which the server takes in no path.
  const back = (pathname + search).replaceAll("\\", "%5C")
  const { data: providers = [] } = useCall("oidcSignIn.providers", {})
  return providers.length === 0 ? null : (
    <div className="in stack">
      {providers.map(({ id, name, startUrl }) => (
        <a
          key={id}
          className="btn"
          href={back.length > longestNext ? startUrl : `${startUrl}?next=${encodeURIComponent(back)}`}
        >
          Sign in with {name}
        </a>
      ))}
    </div>
  )
}

/** How to make the first account, where there is none to sign in with. */
const Unclaimed = () =>
  useCall("auth.installation", {}).data?.claimed === false ? (
    <div className="in">
      <p role="status">
        <strong>No account exists yet.</strong> Open the link “Claim” that the start printed, or run{" "}
        <code>npm run operator -- claim</code> on the server for a new one.
      </p>
    </div>
  ) : null

const parts = /^\/console\/(claim|invitation)$/.exec(location.pathname)

/**
 * The page of a one-time link that was opened, and its token; behind the #, so that it is in no request and no log, and taken out of
 * the address once it is read.
 */
export const opened = { page: parts?.[1], token: parts === null ? "" : location.hash.slice(1) }
if (opened.token !== "") history.replaceState(null, "", location.pathname)

/** Signs in with what a form says. */
export const useSignIn = (sign: (data: FormData) => Promise<unknown>) =>
  useMutation({
    mutationFn: async (data: FormData) => {
      await sign(data)
      await renewSession()
    }
  })

/** Sign-in with address and password, or with an identity provider. */
export const Login = () => {
  const [search] = useSearchParams()
  const [, go] = useLocation()
  const session = useSession()
  const signIn = useSignIn((data) => {
    const tenantId = textOf(data, "tenantId")
    const body = { email: textOf(data, "email") ?? "", password: String(data.get("password") ?? "") }
    return call("auth.login", { body: tenantId === undefined ? body : { ...body, tenantId } })
  })
  const { error: cause } = signIn
  const next = nextOf(search)
  useEffect(() => {
    if (session.data !== null && session.data !== undefined) go(next, { replace: true })
  }, [session.data, go, next])

  // The one refusal that another field mends.
  const isAmbiguous = cause instanceof Failure && cause.status === 409
  return (
    <Gate title="Sign in">
      <Form
        cause={cause}
        onSubmit={(data) => signIn.mutate(data)}
        actions={
          <button type="submit" className="btn main" disabled={signIn.isPending}>
            Sign in
          </button>
        }
      >
        <TextField label="E-mail address" name="email" type="email" autoComplete="username" required autoFocus />
        <PasswordField label="Password" name="password" autoComplete="current-password" />
        {isAmbiguous ? (
          <TextField label="Tenant id" name="tenantId" hint="Your address has accounts in several tenants." />
        ) : null}
      </Form>
      <Unclaimed />
      <Providers next={next} />
    </Gate>
  )
}
