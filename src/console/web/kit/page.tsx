import { type ReactNode, useEffect } from "react"

interface Head {
  readonly actions?: ReactNode
  readonly children: ReactNode
  readonly lead?: ReactNode
  readonly title: string
}

/** The head of a page: its title, what it is for, what can be done. */
export const Page = ({ actions, children, lead, title }: Head) => {
  useEffect(() => {
    document.title = `${title} · Application Manager`
  }, [title])
  return (
    <>
      <div className="head">
        <div>
          <h1>{title}</h1>
          {lead === undefined ? null : <p>{lead}</p>}
        </div>
        <div className="acts">{actions}</div>
      </div>
      {children}
    </>
  )
}
