import { useMutation, useQueryClient } from "@tanstack/react-query"
import { lazy, Suspense, useRef, useState } from "react"
import { Failure } from "../../api/client.ts"
import { Dialog, useDialogs } from "../../kit/dialog.tsx"
import { Form } from "../../kit/forms/form.tsx"
import { Fault } from "../../kit/parts.tsx"
import { Loading } from "../../kit/states.tsx"
import { Compare } from "../../kit/texts/diff.tsx"
import { type Editing } from "../../kit/texts/editor.tsx"
// A whole import of types, so that the editor is loaded when it is opened.
import type { Refusal } from "../../kit/texts/json-editor.tsx"
import { type Path, syntaxFaultOf } from "../../kit/texts/json-places.ts"
import { announce } from "../../kit/toast.tsx"
import { saveConfiguration, undoSave, useConfiguration, type Versioned } from "./configuration.ts"

const DocumentEditor = lazy(() => import("./document-editor.tsx"))

const title = "Edit the configuration as JSON"

const textOf = ({ document }: Versioned): string => `${JSON.stringify(document, null, 2)}\n`

/** The document that a text is; fails where it is none. */
const documentIn = (text: string): Versioned["document"] => {
  const fault = syntaxFaultOf(text)
  if (fault !== undefined) throw new Error(`It is not JSON: ${fault.message}.`)
  return JSON.parse(text)
}

interface Drafted {
  readonly based: Versioned
  /** The text that the service refused, while it is not saved. */
  readonly refusal?: Refusal | undefined
  readonly text: string
}

/** A text that was not saved, until the window is closed. */
let draft: Drafted | undefined

/** Shows what a text changes before it is saved. */
const Review = ({ based, text }: Drafted) => {
  const client = useQueryClient()
  const { close, open } = useDialogs()
  const save = useMutation({
    mutationFn: async () => {
      const saved = await saveConfiguration(documentIn(text), based)
      draft = undefined
      const undo = undoSave(saved)
      announce("The configuration runs", {
        undo: undo && (() => undo().finally(() => client.invalidateQueries()))
      })
      await client.invalidateQueries()
    },
    onError: (cause) => {
      if (!(cause instanceof Failure) || cause.faults.length === 0) return
      draft = { based, text, refusal: { text, faults: cause.faults } }
      // The faults are shown where they are.
      open(<Edit shows={cause.faults[0]?.path ?? []} />)
    },
    onSuccess: close
  })
  return (
    <Dialog title="What changes" wide>
      <Form
        cause={save.error}
        onSubmit={() => save.mutate()}
        actions={
          <>
            <button type="button" className="btn" onClick={() => open(<Edit />)}>
              Back to the text
            </button>
            <button type="submit" className="btn main" disabled={save.isPending}>
              Save and run
            </button>
          </>
        }
      >
        <p>
          It is checked as a whole before it runs, as version {based.version + 1}. A key that is written here is
          encrypted, and never shown again.
        </p>
        <Compare id={`gateway ${based.version} ${text}`} label="What changes" before={textOf(based)} after={text} />
      </Form>
    </Dialog>
  )
}

const Text = ({ based, shows }: { readonly based: Versioned; readonly shows: Path | undefined }) => {
  const { open } = useDialogs()
  const editing = useRef<Editing>(null)
  const [from, setFrom] = useState<Drafted>(() => draft ?? { based, text: textOf(based) })
  const [cause, fail] = useState<Error | null>(null)
  const keep = (): Drafted => (draft = { ...from, text: editing.current?.read() ?? from.text })
  const review = () => {
    const kept = keep()
    try {
      documentIn(kept.text)
      open(<Review {...kept} />)
    } catch (cause) {
      fail(cause as Error)
    }
  }
  return (
    <>
      <div className="in">
        {from.based.version === based.version ? null : (
          <p className="fault" role="alert">
            Version {based.version} was saved meanwhile. Start over, and make the change in it.
          </p>
        )}
        {shows === undefined ? null : (
          <p className="fault" role="alert">
            Nothing was saved: the service found what is marked below.
          </p>
        )}
        <Suspense fallback={<Loading rows={12} />}>
          <DocumentEditor
            key={from.text}
            editing={editing}
            initial={from.text}
            label="Document"
            onInput={() => {
              keep()
              fail(null)
            }}
            refusal={from.refusal}
            shows={shows}
          />
        </Suspense>
        <Fault cause={cause} />
      </div>
      <footer>
        <button
          type="button"
          className="btn"
          onClick={() => {
            draft = undefined
            setFrom({ based, text: textOf(based) })
          }}
        >
          Start over
        </button>
        <button type="button" className="btn main" onClick={review}>
          Review the change
        </button>
      </footer>
    </>
  )
}

/** Edits the whole configuration, for what the form of a provider does not ask for: routes, aliases, limits, the cache. */
export const Edit = ({ shows }: { readonly shows?: Path }) => {
  const based = useConfiguration()
  return (
    <Dialog title={title} wide>
      {based === undefined ? <Loading /> : <Text based={based} shows={shows} />}
    </Dialog>
  )
}
