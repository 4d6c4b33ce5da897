import { QueryClientProvider } from "@tanstack/react-query"
import { Component, type ReactNode, StrictMode, useEffect } from "react"
import { createRoot } from "react-dom/client"
import { Redirect, Route, Router, Switch, useLocation, useSearch } from "wouter"
import { signedOut } from "./api/client.ts"
import { queries } from "./api/hooks.ts"
import { DialogHost } from "./kit/dialog.tsx"
import { Page } from "./kit/page.tsx"
import { Empty, Failed, Loading, NotAllowed } from "./kit/states.tsx"
import { Claim } from "./pages/system/claim.tsx"
import { Invitation } from "./pages/system/invitation.tsx"
import { Login } from "./pages/system/login.tsx"
import { routes } from "./shell/routes.tsx"
import { CallerProvider, forgetSession, sessionKey, useCaller, useRefusal, useSession } from "./shell/session.tsx"
import { Shell } from "./shell/shell.tsx"
import { applyTheme, chosenTheme } from "./shell/theme.ts"

/** Shows what went wrong in a page instead of an empty window. */
class Boundary extends Component<
  { readonly children: ReactNode; readonly at: string },
  { readonly cause?: unknown; readonly at?: string }
> {
  override state: { readonly cause?: unknown; readonly at?: string } = {}
  static getDerivedStateFromError = (cause: unknown) => ({ cause })
  override componentDidUpdate(before: { readonly at: string }) {
    if (before.at !== this.props.at && this.state.cause !== undefined) this.setState({ cause: undefined })
  }
  override render() {
    return this.state.cause === undefined ? (
      this.props.children
    ) : (
      <Failed cause={this.state.cause} retry={() => location.reload()} />
    )
  }
}

interface Guarding {
  readonly children: ReactNode
  readonly isOfInstallation: boolean | undefined
  readonly needs: string | undefined
  readonly title: string
}

const Guarded = ({ children, isOfInstallation = false, needs, title }: Guarding) => {
  const { tenant } = useCaller()
  const refused = useRefusal()(needs ?? "")
  const refusal = isOfInstallation && tenant !== null ? "installation-only" : refused
  if (needs === undefined || refusal === undefined) return children
  return (
    <Page title={title}>
      <NotAllowed because={refusal} capability={needs} />
    </Page>
  )
}

const Pages = () => {
  const [path] = useLocation()
  return (
    <Shell>
      <Boundary at={path}>
        <DialogHost>
          <Switch>
            {routes.map(({ Page, isOfInstallation, needs, path, title }) => (
              <Route key={path} path={path}>
                <Guarded needs={needs} isOfInstallation={isOfInstallation} title={title}>
                  <Page />
                </Guarded>
              </Route>
            ))}
            <Route>
              <Page title="No such page">
                <Empty title="There is no page at this address">
                  <p>Choose one from the navigation.</p>
                </Empty>
              </Page>
            </Route>
          </Switch>
        </DialogHost>
      </Boundary>
    </Shell>
  )
}

const SignedIn = () => {
  const session = useSession()
  const [path] = useLocation()
  const search = useSearch()
  useEffect(() => {
    const onEnd = () => {
      if (queries.getQueryData(sessionKey) != null) forgetSession()
    }
    signedOut.addEventListener("signed-out", onEnd)
    return () => signedOut.removeEventListener("signed-out", onEnd)
  }, [])
  if (session.error !== null) return <Failed cause={session.error} retry={() => void session.refetch()} />
  if (session.data === undefined) return <Loading />
  if (session.data === null) {
    const next = search === "" ? path : `${path}?${search}`
    return <Redirect replace to={next === "/" ? "/login" : `/login?next=${encodeURIComponent(next)}`} />
  }
  return (
    <CallerProvider value={session.data}>
      <Pages />
    </CallerProvider>
  )
}

applyTheme(chosenTheme())

// The code of the page comes while it is read who is signed in.
const address = location.pathname.slice("/console".length) || "/"
void routes.find(({ path }) => new RegExp(`^${path.replaceAll(/:\w+/g, "[^/]+")}$`).test(address))?.load()

createRoot(document.querySelector("#root")!).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <Router base="/console">
        <Switch>
          <Route path="/login" component={Login} />
          <Route path="/claim" component={Claim} />
          <Route path="/invitation" component={Invitation} />
          <Route component={SignedIn} />
        </Switch>
      </Router>
    </QueryClientProvider>
  </StrictMode>
)
