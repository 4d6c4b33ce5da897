import {
  keepPreviousData,
  QueryClient,
  queryOptions,
  useMutation,
  useQuery,
  useQueryClient
} from "@tanstack/react-query"
import { announce } from "../kit/toast.tsx"
import { call, callPage, Failure } from "./client.ts"
import { type Input, type Operation } from "./operations.ts"

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // What the service refused stays refused.
      retry: (count, cause) => count < 2 && (!(cause instanceof Failure) || cause.status === 0 || cause.status >= 500)
    }
  }
})

interface Options {
  readonly enabled?: boolean
  /** Asks again so often. */
  readonly everySeconds?: number
}

const settings = ({ enabled = true, everySeconds }: Options) => ({
  enabled,
  ...(everySeconds === undefined ? {} : { refetchInterval: everySeconds * 1000 })
})

/** What an operation answers, kept up to date. */
export const useCall = <Name extends Operation>(name: Name, input: Input<Name>, options: Options = {}) =>
  useQuery({ queryKey: [name, input], queryFn: ({ signal }) => call(name, input, signal), ...settings(options) })

const pageOf = <Name extends Operation>(name: Name, input: Input<Name>) =>
  queryOptions({ queryKey: [name, input], queryFn: ({ signal }) => callPage(name, input, signal) })

/** A page of a list; the page before stays until the next one is here. */
export const usePage = <Name extends Operation>(name: Name, input: Input<Name>, options: Options = {}) =>
  useQuery({ ...pageOf(name, input), placeholderData: keepPreviousData, ...settings(options) })

/** Reads a page that is about to be asked for. */
export const preparePage = <Name extends Operation>(name: Name, input: Input<Name>): void =>
  void queries.prefetchQuery(pageOf(name, input))

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
