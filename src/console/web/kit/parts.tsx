import { Fragment, isValidElement, type ReactElement, type ReactNode } from "react"
import { Link, useParams } from "wouter"
import { useCall } from "../api/hooks.ts"
import { type Answer, type Input, type Operation } from "../api/operations.ts"
import { useCan } from "../shell/session.tsx"
import { type Acts, ActsOf, ButtonLink, CopyCurl } from "./actions.tsx"
import { Cut, percent } from "./format.tsx"
import { Page } from "./page.tsx"
import { Empty, Failed, Loading } from "./states.tsx"

interface Part {
  readonly beside?: ReactNode
  readonly children: ReactNode
  /** Whether it is as tall as the part beside it. */
  readonly isLevel?: boolean
  /** What it is called where its heading does not say so. */
  readonly label?: string
  readonly link?: readonly [href: string, text: string]
  /** How many of twelve columns it takes in a grid. */
  readonly span?: 4 | 6 | 8
  readonly title: ReactNode
}

/** A part of a page with a heading, and what is beside that. */
export const Card = ({ beside, children, isLevel = false, label, link, span, title }: Part) => (
  <section className={`card${span === undefined ? "" : ` span-${span}`}${isLevel ? " level" : ""}`} aria-label={label}>
    <header>
      <h2>{title}</h2>
      {beside}
      {link === undefined ? null : <Link href={link[0]}>{link[1]}</Link>}
    </header>
    {children}
  </section>
)

/** What is known of a thing, each with its name; what is left out is null. */
export type Known = ReadonlyArray<readonly [name: string, value: ReactNode] | null>

export const Facts = ({ className = "facts", facts }: { readonly className?: string; readonly facts: Known }) => (
  <dl className={className}>
    {facts.map((fact) =>
      fact === null ? null : (
        <Fragment key={fact[0]}>
          <dt>{fact[0]}</dt>
          <dd>{fact[1]}</dd>
        </Fragment>
      )
    )}
  </dl>
)

/** What stands for a value that there is none of. */
export const Soft = ({ children }: { readonly children: ReactNode }) => <span className="soft">{children}</span>

/** A value as it is shown, and "none" where there is none. */
export const orNone = <Value,>(value: Value | null, shown: (value: Value) => ReactNode): ReactNode =>
  value === null || value === "" ? <Soft>none</Soft> : shown(value)

interface Remark {
  /** Whether the note has a line of its own. */
  readonly isBelow?: boolean
  /** Nothing where there is none. */
  readonly note: ReactNode
  readonly value: ReactNode
}

/** A value with a note in small letters. */
export const Noted = ({ isBelow = false, note, value }: Remark) => (
  <>
    {value}
    {note == null ? null : (
      <>
        {isBelow ? <br /> : " "}
        <small>{note}</small>
      </>
    )}
  </>
)

/** The name of a row, and what tells it apart in a second line. */
export const NameLines = ({ detail, name }: { readonly detail: ReactNode; readonly name: string }) => (
  <span className="lines">
    <Cut as="strong" text={name} />
    {detail}
  </span>
)

interface State {
  readonly children: ReactNode
  readonly title?: string | undefined
  readonly tone?: string
}

/** A state in one word, in the colour of what it means. */
export const Tag = ({ children, title, tone = "" }: State) => (
  <span className={tone === "" ? "tag" : `tag ${tone}`} title={title}>
    {children}
  </span>
)

/** What is said where there is nothing: a title, and what to do then. */
export type Said = string | readonly [title: string, advice: string] | ReactElement

/** Says it. */
export const Nothing = ({ said }: { readonly said: Said }) => {
  if (isValidElement(said)) return said
  const [title, advice] = typeof said === "string" ? [said] : (said as readonly [string, string])
  return <Empty title={title}>{advice === undefined ? null : <p>{advice}</p>}</Empty>
}

interface Asked<Data> {
  readonly data: Data | undefined
  readonly error: unknown
  readonly refetch: () => unknown
}
interface Shown<Data> {
  readonly children: (data: Data) => ReactNode
  readonly rows?: number | undefined
}

/** What an operation answered, or that it is on its way, or why it did not come. */
export const Answered = <Data,>({ asked, children, rows }: Shown<Data> & { readonly asked: Asked<Data> }) => {
  if (asked.data !== undefined) return children(asked.data)
  if (asked.error !== null && asked.error !== undefined)
    return <Failed cause={asked.error} retry={() => void asked.refetch()} />
  return <Loading rows={rows} />
}

interface OfCall<Name extends Operation> extends Shown<Answer<Name>> {
  readonly everySeconds?: number
  readonly input: Input<Name>
  /** Whether the answer to another input stays until this one is here. */
  readonly keepsPrevious?: boolean
  readonly name: Name
}

/** The same of an operation that it calls. */
export const Called = <Name extends Operation>({
  everySeconds,
  input,
  keepsPrevious,
  name,
  ...shown
}: OfCall<Name>) => <Answered asked={useCall(name, input, { everySeconds, keepsPrevious })} {...shown} />

/** What went wrong with something that was asked for on a page that stays. */
export const Fault = ({ cause }: { readonly cause: Error | null }) =>
  cause === null ? null : (
    <p className="fault" role="alert">
      {cause.message}
    </p>
  )

interface OfNote {
  readonly children: ReactNode
  readonly link: readonly [href: string, verb: string]
  readonly tag: string
}

/** Says what needs a look, and leads there. */
export const Note = ({ children, link: [href, verb], tag }: OfNote) => (
  <div className="note">
    <Tag tone="warn">{tag}</Tag>
    <span>{children}</span>
    <ButtonLink href={href}>{verb}</ButtonLink>
  </div>
)

/** The name of a row, which leads to its page. */
export const NameLink = ({ name, to }: { readonly name: string; readonly to: string }) => (
  <Link className="name" title={name} href={to}>
    {name}
  </Link>
)

/** A text as it is, which scrolls by itself. */
export const Verbatim = ({ label, text }: { readonly label: string; readonly text: string }) => (
  <pre className="diff" tabIndex={0} role="region" aria-label={label}>
    {text}
  </pre>
)

interface Changed {
  /** Whether more of it is neither good nor bad. */
  readonly isNeutral?: boolean | undefined
  readonly percent: number
}

/** By how much a figure changed. */
export const PercentChange = ({ isNeutral = false, percent: change }: Changed) => (
  <span className={isNeutral ? undefined : change > 0 ? "up" : "down"}>
    {change > 0 ? "+" : ""}
    {percent(change, 0)}
  </span>
)

interface Figure {
  /** What it comes to; its own links lead elsewhere than the figure. */
  readonly detail: ReactNode
  readonly href?: string
  readonly label: string
  readonly value: ReactNode
}

/** A figure that matters, with what it is and what it comes to; it may lead to the page behind it. */
export const Tile = ({ detail, href, label, value }: Figure) => (
  <div className="card kpi span-3">
    <div className="in">
      <small>
        {href === undefined ? (
          label
        ) : (
          <Link className="whole" href={href}>
            {label}
          </Link>
        )}
      </small>
      <b>{value}</b>
      <small>{detail}</small>
    </div>
  </div>
)

interface Detail<Name extends Operation> {
  readonly actions?: Acts<Answer<Name>>
  readonly children: (thing: Answer<Name>) => ReactNode
  /** The call to copy, where that is another one. */
  readonly copies?: ReactNode
  /** What entries of the audit log call things of its kind. */
  readonly entity?: string
  readonly everySeconds?: number
  /** What is known of it, which comes first. */
  readonly facts?: (thing: Answer<Name>) => Known
  readonly lead: ReactNode | ((thing: Answer<Name>) => ReactNode)
  readonly name: Name
  /** What it is called; its name when absent. */
  readonly title?: (thing: Answer<Name>) => string
  /** What it is called before it has come. */
  readonly what: string
}

/** The name of a thing that has one. */
const nameOf = (thing: unknown): string => String((thing as { readonly name: string }).name)

/** The page of one thing, by the id in its address: its name and state, what can be done with it, and what it is. */
export const DetailPage = <Name extends Operation>(detail: Detail<Name>) => {
  const { actions, children, copies, entity, everySeconds, facts, lead, name, title = nameOf, what } = detail
  const { id = "" } = useParams()
  const mayAudit = useCan()("audit-logs:read")
  const input = { params: { id } } as object as Input<Name>
  const asked = useCall(name, input, { everySeconds })
  const thing = asked.data
  return (
    <Page
      title={thing === undefined ? what : title(thing)}
      lead={typeof lead === "function" ? thing && lead(thing) : lead}
      actions={
        <>
          {copies ?? <CopyCurl name={name} input={input} />}
          {entity === undefined || !mayAudit ? null : (
            <ButtonLink href={`/audit?entityType=${entity}&entityId=${id}`}>History</ButtonLink>
          )}
          {thing && actions && <ActsOf acts={actions} of={thing} />}
        </>
      }
    >
      <Answered asked={asked} rows={8}>
        {(thing) => (
          <>
            {facts === undefined ? null : (
              <section className="card">
                <Facts className="facts in" facts={facts(thing)} />
              </section>
            )}
            {children(thing)}
          </>
        )}
      </Answered>
    </Page>
  )
}
