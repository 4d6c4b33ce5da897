import { useRef, useState } from "react"
import { Link } from "wouter"
import { Icon } from "../../../kit/icons.tsx"
import { flat, type TreeNode } from "./nodes.ts"

/** The folders that are open, kept while pages change. */
const opened = new Set<number>()

interface OfTree {
  readonly current: number | undefined
  readonly nodes: ReadonlyArray<TreeNode>
}

const Branch = ({ current, nodes, toggle }: OfTree & { readonly toggle: (id: number) => void }) => (
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

/** The files of an application in their folders. */
export const Tree = ({ current, nodes }: OfTree) => {
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
