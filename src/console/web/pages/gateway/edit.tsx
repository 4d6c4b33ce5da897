import { useMutation, useQueryClient } from "@tanstack/react-query"
import { useRef, useState } from "react"
import { Failure } from "../../api/client.ts"
import { Dialog, useDialogs } from "../../kit/dialog.tsx"
import { Form } from "../../kit/forms/form.tsx"
import { Fault } from "../../kit/parts.tsx"
import { Loading } from "../../kit/states.tsx"
import { Compare } from "../../kit/texts/diff.tsx"
import { type Editing, Editor } from "../../kit/texts/editor.tsx"
import { announce } from "../../kit/toast.tsx"
import { saveConfiguration, undoSave, useConfiguration, type Versioned } from "./configuration.ts"

const title = "Edit the configuration as JSON"

const textOf = ({ document }: Versioned): string => `${JSON.stringify(document, null, 2)}\n`

/** The document that a text is; fails where it is none. */
const documentIn = (text: string): Versioned["document"] => {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new Error(`It is not JSON: ${cause instanceof Error ? cause.message : ""}`, { cause })
  }
}

interface Drafted {
  readonly based: Versioned
  readonly text: string
}

/** A text that was not saved, until the window is closed. */
let draft: Drafted | undefined

/** Every fault of the document, with its place. */
const Faults = ({ cause }: { readonly cause: unknown }) =>
  cause instanceof Failure && cause.faults.length > 0 ? (
    <ul className="fault">
      {cause.faults.map(({ message, path }) => (
        <li key={`${path.join(".")} ${message}`}>
          <code>{path.join(".")}</code> {message}
        </li>
      ))}
    </ul>
  ) : null

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
        <Faults cause={save.error} />
      </Form>
    </Dialog>
  )
}

const Text = ({ based }: { readonly based: Versioned }) => {
  const { open } = useDialogs()
  const editing = useRef<Editing>(null)
  const [from, setFrom] = useState<Drafted>(() => draft ?? { based, text: textOf(based) })
  const [cause, fail] = useState<Error | null>(null)
  const keep = (): Drafted => (draft = { based: from.based, text: editing.current?.read() ?? from.text })
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
        <Editor
          key={from.text}
          editing={editing}
          initial={from.text}
          label="Document"
          name="gateway.json"
          onInput={() => {
            keep()
            fail(null)
          }}
        />
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
export const Edit = () => {
  const based = useConfiguration()
  return (
    <Dialog title={title} wide>
      {based === undefined ? <Loading /> : <Text based={based} />}
    </Dialog>
  )
}
