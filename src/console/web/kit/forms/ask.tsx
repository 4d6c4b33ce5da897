import { useMutation, useQueryClient } from "@tanstack/react-query"
import { type ReactNode } from "react"
import { useLocation } from "wouter"
import { Dialog, useDialogs } from "../dialog.tsx"
import { announce } from "../toast.tsx"
import { Form } from "./form.tsx"

/** What a dialog asks, and what follows the answer. */
export interface Asked<Result> {
  /** The verb on the button. */
  readonly action: string
  /** Stands before the buttons. */
  readonly acts?: ReactNode
  readonly children?: ReactNode
  /** What is announced. */
  readonly done?: string | ((result: Result) => string) | undefined
  /** Whether it cannot be answered now. */
  readonly isDisabled?: boolean
  readonly kind?: "main" | "bad" | undefined
  /** Where what was announced can be seen. */
  readonly link?: ((result: Result) => readonly [href: string, text: string]) | undefined
  /** The page that comes after the dialog. */
  readonly leads?: ((result: Result) => string) | undefined
  /** Closes it, where that is more than to close it. */
  readonly onClose?: (() => void) | undefined
  /** What else comes after the dialog. */
  readonly onDone?: ((result: Result, data: FormData) => void) | undefined
  /** The dialog that comes after it, where there is one. */
  readonly shows?: ((result: Result, data: FormData) => ReactNode) | undefined
  readonly title: string
  /** Takes back what was done, where that can be. */
  readonly undo?: ((result: Result) => (() => Promise<unknown>) | undefined) | undefined
  readonly wide?: boolean | undefined
}

interface Asking<Result> extends Asked<Result> {
  readonly submit: (form: HTMLFormElement) => Promise<Result>
}

/**
 * Asks for what a change needs, or whether it is meant, and makes it. Everything that is shown is read again after it, so that what
 * was written is visible at once, and after a refusal a second attempt is based on what is there.
 */
export const AskDialog = <Result,>({ submit, ...asked }: Asking<Result>) => {
  const {
    action,
    acts,
    children,
    done,
    isDisabled = false,
    kind = "main",
    link,
    onClose,
    onDone,
    title,
    undo,
    wide
  } = asked
  const client = useQueryClient()
  const [, go] = useLocation()
  const { close, open } = useDialogs()
  const leave = onClose ?? close
  const change = useMutation({
    mutationFn: async (form: HTMLFormElement) => {
      const data = new FormData(form)
      const result = await submit(form)
      if (done !== undefined) {
        const takeBack = undo?.(result)
        announce(typeof done === "string" ? done : done(result), {
          link: link?.(result),
          undo: takeBack && (() => takeBack().finally(() => client.invalidateQueries()))
        })
      }
      await client.invalidateQueries()
      return { result, data }
    },
    // The refusal is shown meanwhile.
    onError: () => void client.invalidateQueries(),
    onSuccess: ({ data, result }) => {
      leave()
      onDone?.(result, data)
      const next = asked.shows?.(result, data)
      if (next != null) open(next)
      if (asked.leads !== undefined) go(asked.leads(result))
    }
  })
  return (
    <Dialog title={title} onClose={leave} wide={wide}>
      <Form
        cause={change.error}
        onSubmit={(_, form) => change.mutate(form)}
        actions={
          <>
            {acts}
            <button type="button" className="btn" onClick={leave}>
              Cancel
            </button>
            <button type="submit" className={`btn ${kind}`} disabled={isDisabled || change.isPending}>
              {action}
            </button>
          </>
        }
      >
        {children}
      </Form>
    </Dialog>
  )
}
