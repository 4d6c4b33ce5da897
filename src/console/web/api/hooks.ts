import {
  keepPreviousData,
  QueryClient,
  queryOptions,
  useMutation,
  useQuery,
  useQueryClient
} from "@tanstack/react-query"
import { announce } from "../kit/toast.tsx"
import { call, callPage, Failure, type Page } from "./client.ts"
import { type Input, type Operation, type Row } from "./operations.ts"

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // Without a network a call fails and says so, where it would otherwise wait unseen.
      networkMode: "always",
      refetchOnReconnect: true,
      // What the service refused stays refused.
      retry: (count, cause) => count < 2 && (!(cause instanceof Failure) || cause.status === 0 || cause.status >= 500)
    },
    mutations: { networkMode: "always" }
  }
})

interface Options {
  readonly enabled?: boolean
  /** Asks again so often. */
  readonly everySeconds?: number | undefined
  /** Whether the answer to another input stays until this one is here. */
  readonly keepsPrevious?: boolean | undefined
  /** How long an answer is not asked for again. */
  readonly staleSeconds?: number | undefined
}

const settings = ({ enabled = true, everySeconds, keepsPrevious = false, staleSeconds }: Options) => ({
  enabled,
  ...(staleSeconds === undefined ? {} : { staleTime: staleSeconds * 1000 }),
  ...(keepsPrevious ? { placeholderData: keepPreviousData } : {}),
  refetchInterval: everySeconds !== undefined && everySeconds * 1000
})

/** What an operation answers, kept up to date. */
export const useCall = <Name extends Operation>(name: Name, input: Input<Name>, options: Options = {}) =>
  useQuery({ queryKey: [name, input], queryFn: ({ signal }) => call(name, input, signal), ...settings(options) })

/**
 * What a page of a list is asked for with. Where its order is what its rows cost, a report gives it; or the costs of the rows do,
 * the highest first or the lowest.
 */
export interface PageInput<Name extends Operation> {
  readonly input: Input<Name>
  readonly report?: Input<"insights.by"> | undefined
  readonly costs?:
    | (Omit<Input<"insights.spend">, "query"> & { readonly from: string; readonly isDown: boolean })
    | undefined
}

const idOf = (row: unknown): string => String((row as { readonly id: string | number }).id)

/** A page of a list in the order of a report: of the rows alone that it has. */
const callPageByReport = async <Name extends Operation>(
  name: Name,
  input: Input<Name>,
  report: Input<"insights.by">,
  signal: AbortSignal
): Promise<Page<Row<Name>>> => {
  const { items, nextCursor } = await callPage("insights.by", report, signal)
  const ids = items.flatMap(({ key }) => key ?? [])
  if (ids.length === 0) return { items: [], nextCursor }
  const query = { ...(input.query as object), ids: ids.join(",") }
  const found = await callPage(name, { ...input, query } as Input<Name>, signal)
  const rows = new Map(found.items.map((row) => [idOf(row), row]))
  return { items: ids.flatMap((id) => rows.get(id) ?? []), nextCursor }
}

/** A page of a list, in the order of what its rows cost. */
const callPageByCosts = async <Name extends Operation>(
  name: Name,
  input: Input<Name>,
  { from, isDown, params }: NonNullable<PageInput<Name>["costs"]>,
  signal: AbortSignal
): Promise<Page<Row<Name>>> => {
  const { items, nextCursor } = await callPage(name, input, signal)
  if (items.length === 0) return { items, nextCursor }
  const { items: spent } = await call(
    "insights.spend",
    { params, query: { from, keys: items.map(idOf).join(",") } },
    signal
  )
  const costs = new Map(spent.map(({ costUsd, key }) => [key, isDown ? -costUsd : costUsd]))
  const costOf = (row: Row<Name>) => costs.get(idOf(row)) ?? 0
  return { items: items.toSorted((one, other) => costOf(one) - costOf(other)), nextCursor }
}

const pageOf = <Name extends Operation>(name: Name, { costs, input, report }: PageInput<Name>) =>
  queryOptions({
    queryKey: [name, input, report, costs],
    queryFn: ({ signal }) =>
      report !== undefined
        ? callPageByReport(name, input, report, signal)
        : costs !== undefined
          ? callPageByCosts(name, input, costs, signal)
          : callPage(name, input, signal)
  })

/** A page of a list; the page before stays until the next one is here. */
export const usePage = <Name extends Operation>(name: Name, asked: PageInput<Name>, options: Options = {}) =>
  useQuery({ ...pageOf(name, asked), placeholderData: keepPreviousData, ...settings(options) })

/** Reads a page that is about to be asked for. */
export const preparePage = <Name extends Operation>(name: Name, asked: PageInput<Name>): void =>
  void queries.prefetchQuery(pageOf(name, asked))

interface Wanted {
  readonly ids: Set<string>
  readonly rows: Promise<ReadonlyMap<string, unknown>>
}
const wanted = new Map<Operation, Wanted>()
const maxIds = 100

/** Reads a row of a list by its id, together with those that are asked for at the same time. */
const rowOf = async <Name extends Operation>(name: Name, id: string): Promise<Row<Name> | null> => {
  let found = wanted.get(name)
  if (found === undefined || found.ids.size === maxIds) {
    const ids = new Set<string>()
    const read = async () => {
      await Promise.resolve()
      if (wanted.get(name)?.ids === ids) wanted.delete(name)
      // Names are of any tenant, also of one that is not looked at.
      const query = { ids: [...ids].join(","), limit: maxIds, tenantId: "" }
      const { items } = await callPage(name, { query } as object as Input<Name>)
      return new Map(items.map((row) => [idOf(row), row]))
    }
    found = { ids, rows: read() }
    wanted.set(name, found)
  }
  found.ids.add(id)
  return ((await found.rows).get(id) as Row<Name> | undefined) ?? null
}

/** A row of a list by its id: null where there is none, or none that the caller may see. */
export const useRow = <Name extends Operation>(name: Name, id: string | number, enabled: boolean) =>
  useQuery({ queryKey: [name, "by id", id], queryFn: () => rowOf(name, String(id)), staleTime: 60_000, enabled }).data

/** A change: everything that is shown is read again after it, so that what was written is visible at once. */
export const useChange = <Name extends Operation>(name: Name, done?: string) => {
  const client = useQueryClient()
  return useMutation({
    mutationFn: (input: Input<Name>) => call(name, input),
    onSuccess: () => {
      if (done !== undefined) announce(done)
      return client.invalidateQueries()
    }
  })
}
