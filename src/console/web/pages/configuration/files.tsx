import { type ReactNode, useEffect, useRef, useState } from "react"
import { Link, useLocation, useParams, useSearchParams } from "wouter"
import { call, Failure } from "../../api/client.ts"
import { useCall, useChange } from "../../api/hooks.ts"
import { type Answer, type Row } from "../../api/operations.ts"
import { Act, Confirm, Copy, CopyCurl, FormActions, TabLinks, Tabs } from "../../kit/actions.tsx"
import { isBuiltIn } from "../../kit/names/built-in.ts"
import { Dialog } from "../../kit/dialog.tsx"
import { Compare, UnifiedDiff } from "../../kit/texts/diff.tsx"
import { mergeOf } from "../../kit/texts/merge.ts"
import { type Editing, Editor } from "../../kit/texts/editor.tsx"
import { Form, numberOf, SelectField, TextArea, textOf, TextField } from "../../kit/forms/form.tsx"
import { count, Moment } from "../../kit/format.tsx"
import { Icon } from "../../kit/icons.tsx"
import { List } from "../../kit/lists/list.tsx"
import { Table } from "../../kit/lists/table.tsx"
import { Answered, Empty, Loading } from "../../kit/states.tsx"
import { announce } from "../../kit/toast.tsx"
import { useCaller } from "../../shell/session.tsx"
import { Page } from "../../kit/page.tsx"

type Application = Row<"applications.list">
type TreeNode = Answer<"configurationTrees.get">[number]
type Node = Answer<"configuration.get">
type Version = Row<"configuration.versions">

const builtIn = "The configuration of a built-in application is changed on its own pages"
const write = "configuration:write"

/** Every node of a tree, those that contain others first. */
const flat = (nodes: ReadonlyArray<TreeNode>): ReadonlyArray<TreeNode> =>
  nodes.flatMap((node) => [node, ...flat(node.children)])

const sizeText = (bytes: number | null): string =>
  bytes === null ? "" : bytes < 1024 ? `${bytes} B` : `${count(Math.round(bytes / 1024))} KB`

/** The folders that are open, kept while pages change. */
const opened = new Set<number>()

const Branch = ({
  current,
  nodes,
  toggle
}: {
  readonly current: number | undefined
  readonly nodes: ReadonlyArray<TreeNode>
  readonly toggle: (id: number) => void
}) => (
  <ul>
    {nodes.map(({ children, id, name, type }) => (
      <li key={id}>
        <div className="node">
          {type === "folder" ? (
            <button
              type="button"
              className="toggle"
              aria-expanded={opened.has(id)}
              aria-label={`Folder ${name}`}
              onClick={() => toggle(id)}
            >
              <Icon name="next" size={14} />
            </button>
          ) : (
            <Icon name="file" size={14} />
          )}
          <Link href={`/files/${id}`} title={name} aria-current={id === current ? "page" : undefined}>
            {name}
          </Link>
        </div>
        {type === "folder" && opened.has(id) ? <Branch current={current} nodes={children} toggle={toggle} /> : null}
      </li>
    ))}
  </ul>
)

const Tree = ({
  current,
  nodes
}: {
  readonly current: number | undefined
  readonly nodes: ReadonlyArray<TreeNode>
}) => {
  const [, show] = useState(0)
  const all = new Map(flat(nodes).map((node) => [node.id, node]))
  const shownFor = useRef<number>(undefined)
  if (current !== shownFor.current && all.has(current ?? 0)) {
    shownFor.current = current
    for (let at = all.get(current ?? 0); at !== undefined; at = all.get(at.parentId ?? 0)) opened.add(at.id)
  }
  return (
    <Branch
      current={current}
      nodes={nodes}
      toggle={(id) => {
        if (!opened.delete(id)) opened.add(id)
        show((times) => times + 1)
      }}
    />
  )
}

const foldersIn = (nodes: ReadonlyArray<TreeNode>): ReadonlyArray<readonly [string, string]> => [
  ["", "/"],
  ...flat(nodes)
    .filter(({ type }) => type === "folder")
    .map(({ id, path }) => [String(id), path] as const)
]

/** The files that may be schemas. */
const schemasIn = (nodes: ReadonlyArray<TreeNode>, but?: number): ReadonlyArray<readonly [string, string]> => [
  ["", "nothing"],
  ...flat(nodes)
    .filter(({ id, name, type }) => type === "file" && id !== but && /\.(?:json|ya?ml)$/i.test(name))
    .map(({ id, path }) => [String(id), path] as const)
]

/** The choices with the one that was made, whatever its name is. */
const withChosen = (
  choices: ReadonlyArray<readonly [string, string]>,
  nodes: ReadonlyArray<TreeNode>,
  chosen: number | null
): ReadonlyArray<readonly [string, string]> =>
  chosen === null || choices.some(([id]) => id === String(chosen))
    ? choices
    : [...choices, [String(chosen), flat(nodes).find(({ id }) => id === chosen)?.path ?? `File ${chosen}`]]

const schemaHint = "A JSON Schema file of the same application; content that does not fit is not saved"

const Create = ({
  application,
  nodes,
  onClose,
  within
}: {
  readonly application: Application
  readonly nodes: ReadonlyArray<TreeNode>
  readonly onClose: () => void
  readonly within: number | null
}) => {
  const [, go] = useLocation()
  const create = useChange("configuration.create")
  const [type, setType] = useState<"file" | "folder">("file")
  const submit = (data: FormData) => {
    const schemaId = numberOf(data, "schemaId")
    const content = data.get("content")
    create.mutate(
      {
        body: {
          applicationId: application.id,
          parentId: numberOf(data, "parentId") ?? null,
          name: textOf(data, "name") ?? "",
          type,
          ...(type === "file" && typeof content === "string" ? { content } : {}),
          ...(type === "file" && schemaId !== undefined ? { schemaId } : {})
        }
      },
      {
        onSuccess: ({ id }) => {
          onClose()
          go(`/files/${id}`)
        }
      }
    )
  }
  return (
    <Dialog title="Make a file or folder" onClose={onClose} wide>
      <Form
        cause={create.error}
        onSubmit={submit}
        actions={<FormActions action={`Make the ${type}`} isPending={create.isPending} onClose={onClose} />}
      >
        <div className="row2">
          <SelectField
            label="What"
            value={type}
            onChange={(event) => setType(event.target.value === "folder" ? "folder" : "file")}
            options={[
              ["file", "File"],
              ["folder", "Folder"]
            ]}
          />
          <SelectField label="In" name="parentId" defaultValue={within ?? ""} options={foldersIn(nodes)} />
        </div>
        <TextField
          label="Name"
          name="name"
          required
          maxLength={255}
          placeholder={type === "file" ? "settings.json" : "service"}
        />
        {type === "folder" ? null : (
          <>
            <TextArea label="Content" name="content" className="code" rows={8} spellCheck={false} />
            <SelectField label="Checked against" name="schemaId" options={schemasIn(nodes)} hint={schemaHint} />
          </>
        )}
      </Form>
    </Dialog>
  )
}

interface Changing {
  readonly node: Node
  readonly nodes: ReadonlyArray<TreeNode>
  readonly onClose: () => void
}

const etag = (version: number) => ({ "if-match": `"${version}"` })

const Move = ({ node, nodes, onClose }: Changing) => {
  const move = useChange("configuration.move", `${node.name} is changed`)
  const below = new Set(flat(flat(nodes).filter(({ id }) => id === node.id)).map(({ id }) => String(id)))
  const submit = (data: FormData) =>
    move.mutate(
      {
        params: { id: node.id },
        body: {
          name: textOf(data, "name") ?? "",
          parentId: numberOf(data, "parentId") ?? null,
          ...(node.type === "file" && data.get("schemaId") !== String(node.schemaId ?? "")
            ? { schemaId: numberOf(data, "schemaId") ?? null }
            : {})
        }
      },
      { onSuccess: onClose }
    )
  return (
    <Dialog title={`Rename or move ${node.name}`} onClose={onClose}>
      <Form
        cause={move.error}
        onSubmit={submit}
        actions={<FormActions action="Save" isPending={move.isPending} onClose={onClose} />}
      >
        <TextField label="Name" name="name" required maxLength={255} defaultValue={node.name} />
        <SelectField
          label="In"
          name="parentId"
          defaultValue={node.parentId ?? ""}
          options={foldersIn(nodes).filter(([id]) => !below.has(id))}
        />
        {node.type === "folder" ? null : (
          <SelectField
            label="Checked against"
            name="schemaId"
            defaultValue={node.schemaId ?? ""}
            options={withChosen(schemasIn(nodes, node.id), nodes, node.schemaId)}
            hint={schemaHint}
          />
        )}
      </Form>
    </Dialog>
  )
}

const Delete = ({ node, nodes, onClose }: Changing) => {
  const [, go] = useLocation()
  const below = flat(flat(nodes).find(({ id }) => id === node.id)?.children ?? []).length
  return (
    <Confirm
      name="configuration.delete"
      input={{ params: { id: node.id } }}
      title={`Delete ${node.path}`}
      action={`Delete the ${node.type}`}
      done={`${node.path} is deleted`}
      onClose={onClose}
      onDone={() => go(`/files?application=${node.applicationId}`)}
    >
      <p>
        {node.type === "file"
          ? `Programs that read it find nothing any more. Its ${node.version} versions can be restored with it for 30 days.`
          : `The folder goes with the ${below} files and folders below it. They can be restored together for 30 days.`}
      </p>
    </Confirm>
  )
}

const Deleted = ({ application, onClose }: { readonly application: Application; readonly onClose: () => void }) => {
  const asked = useCall("configuration.deleted", { query: { applicationId: application.id } })
  const restore = useChange("configuration.restore")
  return (
    <Dialog title={`Deleted from ${application.name}`} onClose={onClose} wide>
      <div className="in">
        {restore.error === null ? null : (
          <p className="fault" role="alert">
            {restore.error.message}
          </p>
        )}
        <Answered asked={asked}>
          {(nodes) =>
            nodes.length === 0 ? (
              <Empty title="Nothing was deleted in the last 30 days" />
            ) : (
              <Table
                label="Deleted files and folders"
                rows={nodes}
                keyOf={({ id }) => String(id)}
                columns={[
                  { title: "Path", cell: ({ path }) => <code>{path}</code> },
                  {
                    title: "Deleted",
                    cell: ({ deletedAt, deletedBy }) => (
                      <>
                        <Moment at={deletedAt} /> <small>by {deletedBy}</small>
                      </>
                    )
                  },
                  {
                    title: "",
                    isNumber: true,
                    cell: ({ id, path }) => (
                      <Act
                        needs={write}
                        unless={isBuiltIn(application) ? builtIn : undefined}
                        onClick={() =>
                          restore.mutate({ params: { id } }, { onSuccess: () => announce(`${path} is restored`) })
                        }
                      >
                        Restore
                      </Act>
                    )
                  }
                ]}
              />
            )
          }
        </Answered>
      </div>
    </Dialog>
  )
}

/** What an edit began from. */
interface Base {
  readonly version: number
  readonly content: string
}
interface Draft {
  readonly base: Base
  readonly text: string
}

/** Edits that were not saved, by who made them and file; they wait while another page is shown. */
const drafts = new Map<string, Draft>()

interface Conflict {
  readonly base: Base
  readonly mine: string
  readonly theirs: Node
  /** Both changes in one text, where they do not touch the same lines. */
  readonly merged: string | undefined
}

const baseOf = ({ content, version }: Node): Base => ({ version: version ?? 0, content: content ?? "" })

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

/** Two people saved: what each changed, and one text to save instead of both. */
const Resolve = ({
  conflict: { base, merged, mine, theirs },
  isPending,
  onDrop,
  onSave
}: {
  readonly conflict: Conflict
  readonly isPending: boolean
  readonly onDrop: () => void
  readonly onSave: (text: string) => void
}) => {
  const editing = useRef<Editing>(null)
  const of = `${theirs.id} ${base.version} ${theirs.version}`
  return (
    <section className="card" aria-label="Conflict">
      <header>
        <h2>Version {theirs.version} was saved while you edited</h2>
      </header>
      <div className="in stack">
        <p>
          {theirs.updatedBy} saved it <Moment at={theirs.updatedAt} />. You began with version {base.version}.{" "}
          {merged === undefined
            ? "Both changed the same lines, so the result begins with your text."
            : "The two changes do not touch the same lines, so the result has both."}
        </p>
        <Tabs
          label="What changed"
          tabs={[
            [
              "Theirs",
              <Compare
                key="theirs"
                id={`${of} theirs`}
                label="What they changed"
                before={base.content}
                after={theirs.content ?? ""}
              />
            ],
            [
              "Mine",
              <Compare
                key="mine"
                id={`${of} mine ${mine.length}`}
                label="What you changed"
                before={base.content}
                after={mine}
              />
            ],
            [
              "Base",
              <pre key="base" className="diff" tabIndex={0} role="region" aria-label={`Version ${base.version}`}>
                {base.content}
              </pre>
            ]
          ]}
        />
        <Editor
          editing={editing}
          initial={merged ?? mine}
          label="Result"
          name={theirs.name}
          onInput={() => undefined}
        />
        <div className="acts">
          <button
            type="button"
            className="btn main"
            disabled={isPending}
            onClick={() => onSave(editing.current?.read() ?? "")}
          >
            Save the result as version {(theirs.version ?? 0) + 1}
          </button>
          <button type="button" className="btn bad" onClick={onDrop}>
            Drop my changes and take version {theirs.version}
          </button>
        </div>
      </div>
    </section>
  )
}

/** Edits the newest version of a file. */
const Edit = ({ locked, node }: { readonly locked: string | undefined; readonly node: Node }) => {
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
              Version {node.version} was saved by {node.updatedBy} while you edit version {base.version}. Saving shows
              both.
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
          {isDirty ? (
            <button type="button" className="btn" onClick={() => begin(isOutdated ? baseOf(node) : base)}>
              Drop my changes
            </button>
          ) : null}
        </div>
      </div>
    </section>
  )
}

const differ = (node: Node, from: number, to: number) => ({ params: { id: node.id }, query: { from, to } })

/** How one version of a file came out of another, as the service says it. */
const VersionDiff = ({ from, node, to }: { readonly from: number; readonly node: Node; readonly to: number }) => {
  const asked = useCall("configuration.diff", differ(node, from, to))
  return (
    <Answered asked={asked} rows={3}>
      {(answer) => (
        <UnifiedDiff
          diff={typeof answer === "string" ? answer : answer.diff}
          label={`From version ${from} to version ${to}`}
        />
      )}
    </Answered>
  )
}

const Rollback = ({
  node,
  onClose,
  to
}: {
  readonly node: Node
  readonly onClose: () => void
  readonly to: number
}) => (
  <Confirm
    name="configuration.rollback"
    input={{ params: { id: node.id }, body: { version: to }, headers: etag(node.version ?? 0) }}
    title={`Roll ${node.name} back to version ${to}`}
    action="Roll back"
    done={`${node.name} has the content of version ${to} again`}
    wide
    onClose={onClose}
  >
    <p>
      Adds version {(node.version ?? 0) + 1} with the content of version {to}; nothing of the history is lost. This is
      what changes:
    </p>
    <VersionDiff node={node} from={node.version ?? 0} to={to} />
  </Confirm>
)

interface OfFile {
  readonly locked: string | undefined
  readonly node: Node
}

const RollbackAct = ({
  locked,
  node,
  onClick,
  version
}: OfFile & { readonly onClick: () => void; readonly version: number }) => (
  <Act
    needs="configuration:rollback"
    unless={locked ?? (version === node.version ? "It is the current version" : undefined)}
    onClick={onClick}
  >
    Roll back
  </Act>
)

const Versions = ({ locked, node }: OfFile) => {
  const [search, setSearch] = useSearchParams()
  const [rollback, setRollback] = useState<number>()
  const newest = node.version ?? 1
  const from = Number(search.get("from") ?? Math.max(1, newest - 1))
  const to = Number(search.get("to") ?? newest)
  const number = (label: string, name: string, value: number) => (
    <label>
      {label}{" "}
      <input
        key={value}
        type="number"
        name={name}
        min={1}
        max={newest}
        required
        defaultValue={value}
        className="short"
      />
    </label>
  )
  return (
    <>
      <section className="card" aria-label="Compare">
        <form
          className="in compare"
          onSubmit={(event) => {
            event.preventDefault()
            const data = new FormData(event.currentTarget)
            setSearch({ tab: "versions", from: String(data.get("from")), to: String(data.get("to")) })
          }}
        >
          <strong>Compare</strong>
          {number("version", "from", from)}
          {number("with", "to", to)}
          <button type="submit" className="btn">
            Compare
          </button>
        </form>
        <div className="in">
          {newest === 1 && search.get("from") === null ? (
            <p className="soft">There is one version only.</p>
          ) : (
            <VersionDiff node={node} from={from} to={to} />
          )}
        </div>
      </section>
      <List
        name="configuration.versions"
        input={{ params: { id: node.id }, query: { limit: 20 } }}
        label="Versions"
        keyOf={({ version }) => String(version)}
        empty={<Empty title="There is no version" />}
        columns={[
          {
            title: "Version",
            cell: ({ version }: Version) => (
              <Link className="name" href={`/files/${node.id}?version=${version}`}>
                Version {version}
              </Link>
            )
          },
          { title: "Saved", cell: ({ createdAt }) => <Moment at={createdAt} /> },
          { title: "By", cell: ({ createdBy }) => createdBy },
          {
            title: "How",
            cell: ({ restoredFrom, version }) => (
              <>
                {version === newest ? <span className="tag ok">current</span> : null}{" "}
                <span className="soft">
                  {restoredFrom === undefined ? "saved" : `content of version ${restoredFrom}`}
                </span>
              </>
            )
          },
          {
            title: "",
            isNumber: true,
            cell: ({ version }) => (
              <span className="acts">
                {version === 1 ? null : (
                  <Link className="btn" href={`/files/${node.id}?tab=versions&from=${version - 1}&to=${version}`}>
                    What changed
                  </Link>
                )}
                <RollbackAct locked={locked} node={node} version={version} onClick={() => setRollback(version)} />
              </span>
            )
          }
        ]}
      />
      {rollback === undefined ? null : <Rollback node={node} to={rollback} onClose={() => setRollback(undefined)} />}
    </>
  )
}

/** One version of a file, at its own address. */
const OneVersion = ({ locked, node, version }: OfFile & { readonly version: number }) => {
  const asked = useCall("configuration.version", { params: { id: node.id, version } })
  const [isRollingBack, setRollingBack] = useState(false)
  return (
    <Answered asked={asked}>
      {({ content, createdAt, createdBy, restoredFrom }) => (
        <section className="card" aria-label={`Version ${version}`}>
          <header>
            <h2>Version {version}</h2>
            <small>
              saved by {createdBy} <Moment at={createdAt} />
              {restoredFrom === undefined ? null : `, with the content of version ${restoredFrom}`}
            </small>
          </header>
          <div className="in stack">
            <pre className="diff" tabIndex={0} role="region" aria-label={`Content of version ${version}`}>
              {content}
            </pre>
            <div className="acts">
              <Link className="btn" href={`/files/${node.id}`}>
                Current version
              </Link>
              <Link className="btn" href={`/files/${node.id}?tab=versions&from=${version}&to=${node.version}`}>
                Compare with the current one
              </Link>
              <RollbackAct locked={locked} node={node} version={version} onClick={() => setRollingBack(true)} />
            </div>
          </div>
          {isRollingBack ? <Rollback node={node} to={version} onClose={() => setRollingBack(false)} /> : null}
        </section>
      )}
    </Answered>
  )
}

const Folder = ({ children }: { readonly children: ReadonlyArray<TreeNode> }) => (
  <section className="card">
    {children.length === 0 ? (
      <Empty title="The folder is empty">
        <p>Make a file in it, or move one here.</p>
      </Empty>
    ) : (
      <Table
        label="In the folder"
        rows={children}
        keyOf={({ id }) => String(id)}
        columns={[
          {
            title: "Name",
            cell: ({ id, name, type }) => (
              <Link className="name" href={`/files/${id}`}>
                {name}
                {type === "folder" ? "/" : ""}
              </Link>
            )
          },
          { title: "Version", isNumber: true, cell: ({ version }) => version ?? "" },
          { title: "Size", isNumber: true, cell: ({ size }) => sizeText(size) },
          {
            title: "Changed",
            cell: ({ updatedAt, updatedBy }) => (
              <>
                <Moment at={updatedAt} /> <small>by {updatedBy}</small>
              </>
            )
          }
        ]}
      />
    )}
  </section>
)

const OneNode = ({
  application,
  node,
  nodes
}: {
  readonly application: Application
  readonly node: Node
  readonly nodes: ReadonlyArray<TreeNode>
}) => {
  const [search] = useSearchParams()
  const [shown, show] = useState<"move" | "delete" | "create">()
  const locked = isBuiltIn(application) ? builtIn : undefined
  const version = search.get("version")
  const close = () => show(undefined)
  const content: ReactNode =
    node.type === "folder" ? (
      <Folder>{flat(nodes).find(({ id }) => id === node.id)?.children ?? []}</Folder>
    ) : version !== null ? (
      <OneVersion locked={locked} node={node} version={Number(version)} />
    ) : search.get("tab") === "versions" ? (
      <Versions locked={locked} node={node} />
    ) : (
      <Edit key={node.id} locked={locked} node={node} />
    )
  return (
    <div className="stack">
      <div className="head">
        <div>
          <h2 className="path">{node.path}</h2>
          <p>
            {node.type === "file" ? `Version ${node.version}, ${sizeText(node.size)}, changed ` : "Changed "}
            <Moment at={node.updatedAt} /> by {node.updatedBy}
          </p>
        </div>
        <div className="acts">
          <Copy text={location.href} what="Address">
            Copy the link
          </Copy>
          {node.type === "folder" ? (
            <Act needs={write} unless={locked} onClick={() => show("create")}>
              Make a file here
            </Act>
          ) : null}
          <Act needs={write} unless={locked} onClick={() => show("move")}>
            Rename or move
          </Act>
          <Act kind="bad" needs={write} unless={locked} onClick={() => show("delete")}>
            Delete
          </Act>
        </div>
      </div>
      {node.type === "folder" ? null : (
        <TabLinks
          label="About the file"
          tabs={[
            ["content", "Content"],
            ["versions", "Versions"]
          ]}
        />
      )}
      {content}
      {shown === "create" ? <Create application={application} nodes={nodes} within={node.id} onClose={close} /> : null}
      {shown === "move" ? <Move node={node} nodes={nodes} onClose={close} /> : null}
      {shown === "delete" ? <Delete node={node} nodes={nodes} onClose={close} /> : null}
    </div>
  )
}

const Chosen = ({
  application,
  applications,
  node
}: {
  readonly application: Application
  readonly applications: ReadonlyArray<Application>
  readonly node: Node | undefined
}) => {
  const [, go] = useLocation()
  const tree = useCall("configurationTrees.get", { query: { applicationId: application.id } })
  const [shown, show] = useState<"create" | "deleted">()
  const close = () => show(undefined)
  const locked = isBuiltIn(application) ? builtIn : undefined
  return (
    <Page
      title="Configuration"
      lead="The files of applications. Every save adds a version, and any version can be brought back."
      actions={
        <>
          <CopyCurl name="configurationTrees.get" input={{ query: { applicationId: application.id } }} />
          <Act onClick={() => show("deleted")}>Deleted files</Act>
          <a className="btn" href={`/api/configuration/export?applicationId=${application.id}&format=zip`} download>
            Export
          </a>
          <Act kind="main" icon="plus" needs={write} unless={locked} onClick={() => show("create")}>
            Make a file
          </Act>
        </>
      }
    >
      <div className="split">
        <aside className="stack">
          <select
            aria-label="Application"
            value={application.id}
            onChange={(event) => go(`/files?application=${event.target.value}`)}
          >
            {applications.map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
          <nav className="card tree" aria-label="Files">
            <Answered asked={tree}>
              {(nodes) =>
                nodes.length === 0 ? (
                  <p className="soft">No file yet</p>
                ) : (
                  <Tree key={application.id} current={node?.id} nodes={nodes} />
                )
              }
            </Answered>
          </nav>
        </aside>
        {node === undefined ? (
          <section className="card">
            {tree.data?.length === 0 ? (
              <Empty title={`${application.name} has no configuration yet`}>
                <p>Make a file; programs read it by its path and hear of every new version.</p>
              </Empty>
            ) : (
              <Empty title="Choose a file">
                <p>Its content, its versions and its address appear here.</p>
              </Empty>
            )}
          </section>
        ) : (
          <OneNode key={node.id} application={application} node={node} nodes={tree.data ?? []} />
        )}
      </div>
      {shown === "create" ? (
        <Create
          application={application}
          nodes={tree.data ?? []}
          within={node === undefined ? null : node.type === "folder" ? node.id : node.parentId}
          onClose={close}
        />
      ) : null}
      {shown === "deleted" ? <Deleted application={application} onClose={close} /> : null}
    </Page>
  )
}

/** Shows the files of one application, of those that there are. */
const OfApplication = ({ id, node }: { readonly id: number | undefined; readonly node: Node | undefined }) => {
  const asked = useCall("applications.list", { query: { limit: 200 } })
  return (
    <Answered asked={asked}>
      {({ items }) => {
        const application = items.find((each) => each.id === id) ?? items.find((each) => !isBuiltIn(each)) ?? items[0]
        return application === undefined ? (
          <Page title="Configuration">
            <Empty title="There is no application" />
          </Page>
        ) : (
          <Chosen application={application} applications={items} node={node} />
        )
      }}
    </Answered>
  )
}

/** The configuration files of applications. */
export default function Files() {
  const { id } = useParams()
  const [search] = useSearchParams()
  const asked = useCall("configuration.get", { params: { id: id ?? "" } }, { enabled: id !== undefined })
  if (id === undefined) {
    const chosen = search.get("application")
    return <OfApplication id={chosen === null ? undefined : Number(chosen)} node={undefined} />
  }
  if (asked.data === undefined && asked.error === null) return <Loading rows={8} />
  return <Answered asked={asked}>{(node) => <OfApplication id={node.applicationId} node={node} />}</Answered>
}
