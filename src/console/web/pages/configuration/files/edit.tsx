import { useEffect, useRef, useState } from "react"
import { call, Failure } from "../../../api/client.ts"
import { useChange } from "../../../api/hooks.ts"
import { Act } from "../../../kit/actions.tsx"
import { PrincipalName } from "../../../kit/names/names.tsx"
import { type Editing, Editor } from "../../../kit/texts/editor.tsx"
import { mergeOf } from "../../../kit/texts/merge.ts"
import { announce } from "../../../kit/toast.tsx"
import { useCaller } from "../../../shell/session.tsx"
import { type Base, baseOf, type Conflict, type Draft, Resolve } from "./conflict.tsx"
import { etag, type OfFile, write } from "./nodes.ts"

/** Edits that were not saved, by who made them and file; they wait while another page is shown. */
const drafts = new Map<string, Draft>()

const faultsOf = (cause: Error) =>
  cause instanceof Failure
    ? cause.faults.map(({ message, path }) => (path.length === 0 ? message : `${path.join(".")}: ${message}`))
    : []

const SaveFault = ({ cause }: { readonly cause: Error }) => (
  <div className="fault" role="alert">
    <p>{cause.message}</p>
    <ul>
      {faultsOf(cause).map((fault) => (
        <li key={fault}>{fault}</li>
      ))}
    </ul>
  </div>
)

/** Edits the newest version of a file. */
export const Edit = ({ locked, node }: OfFile) => {
  const save = useChange("configuration.save")
  const { principal } = useCaller()
  const place = `${principal} ${node.id}`
  const [kept] = useState(() => drafts.get(place))
  const [base, setBase] = useState<Base>(kept?.base ?? baseOf(node))
  const [initial, setInitial] = useState(kept?.text ?? base.content)
  const [isDirty, setDirty] = useState(kept !== undefined)
  const [conflict, setConflict] = useState<Conflict>()
  const editing = useRef<Editing>(null)
  const isKept = useRef(false)
  const [round, setRound] = useState(0)

  const begin = (next: Base) => {
    drafts.delete(place)
    isKept.current = false
    setRound(round + 1)
    setBase(next)
    setInitial(next.content)
    setDirty(false)
    setConflict(undefined)
  }
  const isOutdated = node.version !== base.version
  useEffect(() => {
    if (isOutdated && !isDirty && conflict === undefined) begin(baseOf(node))
  })

  useEffect(() => {
    if (!isDirty) return
    const { current: edited } = editing
    isKept.current = true
    const onLeave = (event: BeforeUnloadEvent) => event.preventDefault()
    addEventListener("beforeunload", onLeave)
    return () => {
      removeEventListener("beforeunload", onLeave)
      const text = edited?.read() ?? base.content
      if (isKept.current && text !== base.content) drafts.set(place, { base, text })
    }
  }, [isDirty, base, place])

  const put = (text: string, over: Base) =>
    save.mutate(
      { params: { id: node.id }, body: { content: text }, headers: etag(over.version) },
      {
        onSuccess: ({ version }) => {
          announce(`${node.name} is saved as version ${version}`)
          begin({ version: version ?? 0, content: text })
        },
        onError: async (cause) => {
          if (!(cause instanceof Failure) || cause.status !== 412) return
          const theirs = await call("configuration.get", { params: { id: node.id } })
          const merged = await mergeOf(over.content, theirs.content ?? "", text)
          drafts.set(place, { base: over, text })
          setConflict({ base: over, mine: text, theirs, merged })
        }
      }
    )
  const submit = () => put(editing.current?.read() ?? "", base)

  if (conflict !== undefined)
    return (
      <Resolve
        key={conflict.theirs.version}
        conflict={conflict}
        isPending={save.isPending}
        onDrop={() => begin(baseOf(conflict.theirs))}
        onSave={(text) => put(text, baseOf(conflict.theirs))}
      />
    )
  return (
    <section
      className="card"
      onKeyDown={(event) => {
        if (event.key.toLowerCase() !== "s" || !(event.ctrlKey || event.metaKey)) return
        event.preventDefault()
        if (isDirty && locked === undefined && !save.isPending) submit()
      }}
    >
      <div className="in stack">
        {isOutdated && !save.isPending ? (
          <div className="note">
            <span>
              Version {node.version} was saved by <PrincipalName name={node.updatedBy} /> while you edit version{" "}
              {base.version}. Saving shows both.
            </span>
          </div>
        ) : null}
        <Editor
          key={round}
          editing={editing}
          initial={initial}
          label={`Content of ${node.name}`}
          name={node.name}
          onInput={() => setDirty(true)}
        />
        {save.error === null || (save.error instanceof Failure && save.error.status === 412) ? null : (
          <SaveFault cause={save.error} />
        )}
        <div className="acts">
          <Act
            kind="main"
            needs={write}
            unless={locked ?? (isDirty ? (save.isPending ? "It is being saved" : undefined) : "Nothing was changed")}
            onClick={submit}
          >
            Save as version {base.version + 1}
          </Act>
          {isDirty ? <Act onClick={() => begin(isOutdated ? baseOf(node) : base)}>Discard my changes</Act> : null}
        </div>
      </div>
    </section>
  )
}
