import { type ReactNode, type RefObject, useEffect, useRef } from "react"
import { Link, useLocation, useSearchParams } from "wouter"
import { type PageInput, preparePage, usePage } from "../../api/hooks.ts"
import { type Input, type Operation, type Row, type Sort } from "../../api/operations.ts"
import { Act, type Acts, ButtonLink, CopyCurl } from "../actions.tsx"
import { Icon } from "../icons.tsx"
import { useKeys } from "../keys.ts"
import { Page } from "../page.tsx"
import { Nothing, type Said } from "../parts.tsx"
import { Empty, Failed, Loading } from "../states.tsx"
import {
  FilterChoices,
  type Filters,
  nothingMatches,
  Search,
  useFilterQuery,
  useFilters,
  withMembers
} from "./filters.tsx"
import { WithSpend } from "./spend.tsx"
import { type Column, idOf, type Selection, Table } from "./table.tsx"

/** What a list shows, and of which operation. */
export interface Listed<Name extends Operation> {
  /** What can be done with a row. */
  readonly acts?: Acts<Row<Name>>
  readonly columns: ReadonlyArray<Column<Row<Name>, Sort<Name> | "spend">>
  /** What is said when there is nothing at all, and what to do then. */
  readonly empty: Said
  readonly everySeconds?: number
  /** What it can be filtered by, beside the search. */
  readonly filters?: Filters
  /** Whether J and K go from row to row; they do unless the page has a use of its own for them. */
  readonly hasRowKeys?: boolean
  readonly input?: Partial<Input<Name>>
  readonly keyOf?: (row: Row<Name>) => string
  readonly label: string
  readonly name: Name
  readonly nameOf?: (row: Row<Name>) => string
  /** What it is sorted by at first, where that is no column. */
  readonly order?: `-${Sort<Name>}`
  readonly rowClass?: (row: Row<Name>) => string | undefined
  /** What a search looks into. */
  readonly searches?: string
  readonly selection?: Selection<Row<Name>>
}

const noFilters: Filters = []

/** What a list asks for: its filters, and the search and the order of the URL. */
const useListed = <Name extends Operation>(listed: Listed<Name>) => {
  const { columns, filters = noFilters, input, order, searches } = listed
  const { set, values } = useFilters(["search", "sort"])
  const { isFiltered, query: filtered } = useFilterQuery(filters)
  const newest = columns.some(({ sort }) => sort === "createdAt") ? "-createdAt" : undefined
  const isKnown = columns.some(({ sort }) => sort !== undefined && (values.sort === sort || values.sort === `-${sort}`))
  const by = isKnown ? values.sort : (order ?? newest)
  const given: { readonly query?: { readonly tenantId?: string } | undefined } = {
    query: { ...filtered, ...input?.query }
  }
  const spend = columns.find((column) => column.spend !== undefined)?.spend
  const bySpend = by === "spend" || by === "-spend" ? spend : undefined
  const search = searches && values.search
  const pageAt = (cursor: string | undefined): PageInput<Name> => {
    const asked = (order: object) => ({ ...input, query: { ...order, ...given.query } }) as object as Input<Name>
    if (bySpend === undefined) return { input: asked({ limit: 50, search, sort: by, cursor }) }
    const { dimension, from } = bySpend
    const params = { dimension }
    // A search finds few rows, and among those of a page of the report perhaps none.
    if (search !== undefined) {
      const input = asked({ limit: 100, search, cursor })
      return { input, costs: { params, from, isDown: by === "-spend" } }
    }
    const tenantId = given.query?.tenantId
    const query = { from, sort: by === "spend" ? "costUsd" : "-costUsd", limit: 50, cursor, tenantId }
    return { input: asked({ limit: 50 }), report: { params, query } as Input<"insights.by"> }
  }
  return { by, bySpend, isFiltered, pageAt, searched: values.search, set, spend }
}

/** With J and K the focus goes to the next row and to the one before, by their first links. */
const useRowKeys = (section: RefObject<HTMLElement | null>, isOn = true): void =>
  useKeys(isOn ? { j: () => focusRow(section.current, 1), k: () => focusRow(section.current, -1) } : {})

const focusRow = (section: HTMLElement | null, step: number): void => {
  const rows = [...(section?.querySelectorAll("tbody tr") ?? [])]
  const links = rows.flatMap((row) => row.querySelector<HTMLElement>("td a") ?? [])
  const at = links.findIndex((link) => link.closest("tr")?.contains(document.activeElement) === true)
  links[at === -1 ? (step > 0 ? 0 : links.length - 1) : at + step]?.focus()
}

/**
 * A list of the API a page at a time. The place of the page is in the URL, with what is searched for and the order, which
 * begins with the newest rows where it can.
 */
export const List = <Name extends Operation>(listed: Listed<Name>) => {
  const { acts, columns, empty, everySeconds, filters, hasRowKeys, keyOf = idOf, label, name, nameOf } = listed
  const { rowClass, searches, selection } = listed
  const [search] = useSearchParams()
  const { by, bySpend, isFiltered, pageAt, searched, set, spend } = useListed(listed)
  const [path] = useLocation()
  const cursor = search.get("cursor") ?? undefined
  const asked = usePage(name, pageAt(cursor), { everySeconds })
  const next = asked.isPlaceholderData ? null : (asked.data?.nextCursor ?? null)
  const prepareNext = () => {
    if (next !== null) preparePage(name, pageAt(next))
  }
  // Who went on once will go on again.
  useEffect(() => {
    if (cursor !== undefined) prepareNext()
  }, [cursor, next])
  const { isPlaceholderData } = asked
  const section = useRef<HTMLElement>(null)
  useRowKeys(section, hasRowKeys)
  const shownCursor = useRef(cursor)
  // Who turns the page at the foot of one begins at the head of the next.
  useEffect(() => {
    if (isPlaceholderData || shownCursor.current === cursor) return
    shownCursor.current = cursor
    if ((section.current?.getBoundingClientRect().top ?? 0) < 0) section.current?.scrollIntoView()
  }, [cursor, isPlaceholderData])
  const above =
    searches === undefined && filters === undefined ? null : (
      <div className="filters">
        {searches === undefined ? null : (
          <Search
            label="Search"
            hint={searches}
            value={searched}
            onSearch={(wanted, options) => set("search", wanted, options)}
          />
        )}
        {filters === undefined ? null : <FilterChoices filters={filters} />}
      </div>
    )
  if (asked.data === undefined) {
    return (
      <>
        {above}
        {asked.error === null ? (
          <Loading rows={8} />
        ) : (
          <Failed cause={asked.error} retry={() => void asked.refetch()} />
        )}
      </>
    )
  }
  const { items, nextCursor } = asked.data
  const at = (cursor: string) => `${path}?${withMembers(search, { cursor })}`
  const table = (
    <Table
      label={label}
      acts={acts}
      columns={columns}
      rows={items}
      keyOf={keyOf}
      nameOf={nameOf}
      rowClass={rowClass}
      selection={selection}
      sorted={{ by, onSort: (sort) => set("sort", sort) }}
    />
  )
  const rows = (
    <section ref={section} className="card" aria-busy={isPlaceholderData}>
      {items.length === 0 ? (
        nextCursor !== null ? (
          <Nothing said={["Nothing matches so far", "The next page continues the search."]} />
        ) : isFiltered || searched !== undefined || cursor !== undefined ? (
          <Nothing said={nothingMatches} />
        ) : bySpend === undefined ? (
          <Nothing said={empty} />
        ) : (
          <Empty title="Nothing was spent in 30 days">
            <p>
              <Act onClick={() => set("sort", "")}>Show all</Act>
            </p>
          </Empty>
        )
      ) : spend === undefined ? (
        table
      ) : (
        <WithSpend source={spend} ids={items.map(keyOf)}>
          {table}
        </WithSpend>
      )}
      {bySpend === undefined || items.length === 0 || (searched === undefined) !== (nextCursor === null) ? null : (
        <p className="pager">
          <small>
            {searched === undefined
              ? "Those without a request in 30 days are left out."
              : "There are more than 100. Each page is sorted separately."}
          </small>
        </p>
      )}
      {cursor === undefined && nextCursor === null ? null : (
        <nav className="pager" aria-label="Pages">
          {cursor === undefined ? null : (
            <>
              <ButtonLink href={at("")}>First page</ButtonLink>
              <Act icon="previous" onClick={() => history.back()}>
                Previous
              </Act>
            </>
          )}
          {nextCursor === null ? null : (
            <Link className="btn" href={at(nextCursor)} onPointerEnter={prepareNext} onFocus={prepareNext}>
              Next
              <Icon name="next" size={16} />
            </Link>
          )}
        </nav>
      )}
    </section>
  )
  return (
    <>
      {above}
      {rows}
      <p className="hidden" role="status">
        {/* Another element for each page, so that each is announced. */}
        <span key={`${cursor} ${by} ${searched}`}>
          {isPlaceholderData ? "Loading" : `${items.length} ${items.length === 1 ? "row" : "rows"}`}
        </span>
      </p>
    </>
  )
}

/** Copies the call that gives a list its rows or, by what they cost, its order. */
const CopyList = <Name extends Operation>({ listed }: { readonly listed: Listed<Name> }) => {
  const { input, report } = useListed(listed).pageAt(undefined)
  return report === undefined ? (
    <CopyCurl name={listed.name} input={input} />
  ) : (
    <CopyCurl name="insights.by" input={report} />
  )
}

interface ListedPage<Name extends Operation> extends Omit<Listed<Name>, "label"> {
  /** Stands between the head and the list. */
  readonly above?: ReactNode
  readonly actions?: ReactNode
  readonly children?: ReactNode
  /** What the list is called, where that is not the title of the page. */
  readonly label?: string
  readonly lead: ReactNode
  readonly title: string
}

/** A page that is a list: its title, what can be done, the call behind it as a command, and the list. */
export const ListPage = <Name extends Operation>({ above, actions, children, lead, ...rest }: ListedPage<Name>) => {
  const { title } = rest
  const listed: Listed<Name> = { label: title, ...rest }
  return (
    <Page
      title={title}
      lead={lead}
      actions={
        <>
          <CopyList listed={listed} />
          {actions}
        </>
      }
    >
      {above}
      <List {...listed} />
      {children}
    </Page>
  )
}
