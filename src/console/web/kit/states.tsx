import { type ReactNode, useEffect, useState } from "react"
import { Failure } from "../api/client.ts"
import { Icon } from "./icons.tsx"

/** Says that there is nothing, and what to do about it. */
export const Empty = ({ title, children }: { readonly title: string; readonly children?: ReactNode }) => (
  <div className="empty">
    <strong>{title}</strong>
    {children}
  </div>
)

/** What went wrong, with the id to report and a way to try again. */
export const Failed = ({ cause, retry }: { readonly cause: unknown; readonly retry?: () => void }) => {
  const failure = cause instanceof Failure ? cause : undefined
  return (
    <div className="empty" role="alert">
      <Icon name="warning" />
      <strong>{failure?.title ?? "This page could not be shown"}</strong>
      <p>{cause instanceof Error ? cause.message : "Try again."}</p>
      {failure?.traceId === undefined ? null : (
        <p>
          Trace <code>{failure.traceId}</code>
        </p>
      )}
      {retry === undefined ? null : (
        <button type="button" className="btn" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  )
}

interface Refused {
  readonly because: "lacking" | "installation-only"
  readonly capability: string
}

/** Says why the caller may not see what needs a capability. */
export const NotAllowed = ({ because, capability }: Refused) => (
  <Empty title="You may not see this">
    {because === "lacking" ? (
      <p>
        It requires the capability <code>{capability}</code>, which your roles do not have. An administrator can grant
        it.
      </p>
    ) : (
      <p>This page is about the whole installation, and your account belongs to one of its tenants.</p>
    )}
  </Empty>
)

const slowMilliseconds = 5_000

/** The place of what is being loaded, of about its height; after a while it says that it takes long. */
export const Loading = ({ rows = 4 }: { readonly rows?: number | undefined }) => {
  const [isSlow, setSlow] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), slowMilliseconds)
    return () => clearTimeout(timer)
  }, [])
  return (
    <div className="skeleton" role="status" aria-label="Loading">
      {isSlow ? (
        <p>
          The service is taking a long time to answer.{" "}
          <button type="button" className="link" onClick={() => location.reload()}>
            Load the page again
          </button>
        </p>
      ) : null}
      {Array.from({ length: rows }, (_, row) => (
        <i key={row} />
      ))}
    </div>
  )
}
