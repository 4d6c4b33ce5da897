import {
  acceptCompletion,
  autocompletion,
  type Completion,
  type CompletionContext,
  completionKeymap,
  type CompletionResult,
  startCompletion
} from "@codemirror/autocomplete"
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands"
import { json } from "@codemirror/lang-json"
import { bracketMatching, foldGutter, foldKeymap, HighlightStyle, syntaxHighlighting } from "@codemirror/language"
import { type Diagnostic, forceLinting, linter, lintGutter, lintKeymap } from "@codemirror/lint"
import { EditorSelection, EditorState } from "@codemirror/state"
import { drawSelection, EditorView, highlightActiveLine, hoverTooltip, keymap, lineNumbers } from "@codemirror/view"
import { tags } from "@lezer/highlight"
import { type RefObject, useEffect, useId, useImperativeHandle, useRef, useState } from "react"
import { count } from "../format.tsx"
import { Icon } from "../icons.tsx"
import { type Editing } from "./editor.tsx"
import { type Context, contextAt, type Path, placeAt, placesIn, syntaxFaultOf, unquoted } from "./json-places.ts"
import {
  descriptionAt,
  type DocumentSchema,
  memberProposals,
  type Proposal,
  schemaFaults,
  valueProposals
} from "./schema.ts"

/** What the service found wrong with the part of a text that is at a path. */
export interface Refused {
  readonly path: Path
  readonly message: string
}

/** A text that the service refused, with every fault of it. */
export interface Refusal {
  readonly text: string
  readonly faults: ReadonlyArray<Refused>
}

interface Found {
  readonly at: string
  readonly from: number
  readonly line: number
  readonly message: string
}

const written = (text: string, path: Path): readonly [value: string, from: number, to: number] | undefined => {
  const root = placesIn(text)
  if (root === undefined) return
  const [from, to] = placeAt(root, path)
  const value = path.reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], JSON.parse(text))
  return [JSON.stringify(value), from, to]
}

/** What is wrong with a text: its syntax, or else what its schema and the service find wrong with its parts. */
const diagnosticsOf = (text: string, schema: DocumentSchema, refusal: Refusal | undefined): Array<Diagnostic> => {
  const severity = "error" as const
  const syntax = syntaxFaultOf(text)
  if (syntax !== undefined) {
    const at = Math.min(syntax.at ?? 0, text.length)
    const message = `It is not JSON: ${syntax.message}`
    return [
      { from: Math.max(0, Math.min(at, text.length - 1)), to: at + (at < text.length ? 1 : 0), severity, message }
    ]
  }
  const root = placesIn(text)
  if (root === undefined) return []
  const own = schemaFaults(schema, root)
  const known = new Set(own.map(({ path }) => path.join(".")))
  // What was refused is wrong until it is written differently.
  const refused = (refusal?.faults ?? []).flatMap(({ message, path }) => {
    if (refusal === undefined || known.has(path.join("."))) return []
    const before = written(refusal.text, path)
    const now = written(text, path)
    return now === undefined || before?.[0] !== now[0] ? [] : [{ path, message, from: now[1], to: now[2] }]
  })
  return [...own, ...refused]
    .toSorted((one, other) => one.from - other.from)
    .map(({ from, message, path, to }) => ({ from, to, severity, message, source: path.join(".") }))
}

const insert =
  ({ text }: Proposal, from: number, to: number) =>
  (view: EditorView) => {
    const [before = "", after = ""] = text.split("|")
    view.dispatch({
      changes: { from, to, insert: before + after },
      selection: EditorSelection.cursor(from + before.length),
      userEvent: "input.complete"
    })
    if (after !== "") startCompletion(view)
  }

/** The ids of the document's own providers, where a target names one. */
const ownProviders = (text: string, { path }: Context): ReadonlyArray<Proposal> => {
  if (path.at(-1) !== "provider") return []
  const ids = Array.from(text.matchAll(/"dialect"/g)).flatMap(({ index }) => {
    const names = contextAt(text, index)?.path ?? []
    const place = written(text, [...names, "id"])
    return place === undefined ? [] : [place[0]]
  })
  return ids.filter((id) => id !== undefined).map((id) => ({ label: id, text: `${id}|`, detail: "of this document" }))
}

const proposalsAt = (text: string, context: Context, schema: DocumentSchema): ReadonlyArray<Proposal> =>
  context.kind === "name"
    ? memberProposals(schema, context.path, context.names, context.hasColon)
    : [...ownProviders(text, context), ...valueProposals(schema, context.path)]

const completer =
  (schema: DocumentSchema) =>
  ({ explicit, pos, state }: CompletionContext): CompletionResult | null => {
    const text = state.doc.toString()
    const context = contextAt(text, pos)
    if (context === undefined || (!explicit && context.token === "")) return null
    const { from, to, token } = context
    const proposals = proposalsAt(text, context, schema)
    if (proposals.length === 0) return null
    const options = proposals.map((proposal): Completion => {
      const { detail = "", info = "", isRequired = false, label } = proposal
      // What was typed since then belongs to the token.
      const apply = (view: EditorView, _: Completion, __: number, end: number) =>
        insert(proposal, from, Math.max(end, end + to - pos))(view)
      return { label: unquoted(label), displayLabel: label, apply, boost: isRequired ? 1 : 0, detail, info }
    })
    return { from: token.startsWith('"') ? from + 1 : from, options, validFor: /^[\w .-]*$/ }
  }

/** Where a name or value of the text is, in the document. */
const pathAt = (text: string, at: number): readonly [path: Path, context: Context] | undefined => {
  const context = contextAt(text, at)
  if (context === undefined || context.token === "") return
  const { kind, path, token } = context
  return [kind === "name" ? [...path, unquoted(token)] : path, context]
}

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" },
  { tag: tags.string, color: "var(--ok)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--warn)" }
])

const look = EditorView.theme({
  "&": { height: "min(48vh, 560px)", fontSize: "var(--t-sm)", color: "var(--ink)", background: "var(--bg)" },
  "&.cm-focused": { outline: "none", boxShadow: "var(--ring)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6", overflow: "auto", scrollbarWidth: "thin" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { background: "var(--bg)", color: "var(--ink-3)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { background: "color-mix(in oklch, var(--hover) 50%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: "var(--accent-soft)"
  },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { background: "var(--accent-soft)", outline: "none" },
  ".cm-tooltip": {
    background: "var(--raised)",
    color: "var(--ink)",
    border: "1px solid var(--line-strong)",
    borderRadius: "var(--r-md)",
    maxWidth: "min(420px, 80vw)"
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "14em" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": {
    background: "var(--accent-soft)",
    color: "var(--ink)"
  },
  ".cm-completionDetail": { color: "var(--ink-3)", fontStyle: "normal" },
  ".cm-completionInfo, .cm-described": { padding: "var(--s2) var(--s3)", font: "var(--t-sm)/1.5 var(--font)" },
  ".cm-diagnostic": { font: "var(--t-sm)/1.5 var(--font)", padding: "var(--s1) var(--s3)" },
  ".cm-diagnosticSource": { color: "var(--ink-3)", opacity: "1" }
})

interface Editable {
  readonly editing: RefObject<Editing | null>
  readonly initial: string
  readonly label: string
  readonly onInput: () => void
  readonly refusal?: Refusal | undefined
  readonly schema: DocumentSchema
  /** The path that is shown first. */
  readonly shows?: Path | undefined
}

/**
 * An editor of a JSON document whose schema is known: it completes names and values, describes what the cursor is at, and lists every
 * fault with its line. It is in a shadow tree, whose style sheets the policy of the page lets it make.
 */
const JsonEditor = ({ editing, initial, label, onInput, refusal, schema, shows }: Editable) => {
  const id = useId()
  const host = useRef<HTMLDivElement>(null)
  const view = useRef<EditorView>(null)
  const latest = useRef({ onInput, refusal })
  latest.current = { onInput, refusal }
  const [faults, setFaults] = useState<ReadonlyArray<Found>>()
  const [described, describe] = useState<readonly [path: string, text: string]>()

  const goTo = (from: number) => {
    view.current?.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: "center" }) })
    view.current?.focus()
  }

  useImperativeHandle(editing, () => ({ read: () => view.current?.state.doc.toString() ?? initial }), [initial])

  useEffect(() => {
    const element = host.current
    if (element === null) return
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" })
    const lint = linter(
      ({ state }) => {
        const found = diagnosticsOf(state.doc.toString(), schema, latest.current.refusal)
        setFaults(
          found.map(({ from, message, source = "" }) => ({
            at: source,
            from,
            line: state.doc.lineAt(from).number,
            message
          }))
        )
        return found
      },
      { delay: 250 }
    )
    const describing = EditorView.updateListener.of(({ docChanged, selectionSet, state }) => {
      if (docChanged) latest.current.onInput()
      if (!docChanged && !selectionSet) return
      const found = pathAt(state.doc.toString(), state.selection.main.head)
      const text = found && descriptionAt(schema, found[0])
      describe(found === undefined || text === undefined ? undefined : [found[0].join("."), text])
    })
    const editor = new EditorView({
      parent: root,
      root,
      state: EditorState.create({
        doc: initial,
        extensions: [
          lineNumbers(),
          foldGutter(),
          lintGutter(),
          history(),
          drawSelection(),
          highlightActiveLine(),
          bracketMatching(),
          json(),
          syntaxHighlighting(colours),
          autocompletion({
            override: [completer(schema)],
            icons: false,
            activateOnTypingDelay: 0,
            interactionDelay: 0
          }),
          lint,
          hoverTooltip((shown, at) => {
            const found = pathAt(shown.state.doc.toString(), at)
            const text = found && descriptionAt(schema, found[0])
            if (found === undefined || text === undefined) return null
            const [, { from, to }] = found
            return {
              pos: from,
              end: to,
              above: true,
              create: () => {
                const dom = document.createElement("div")
                dom.className = "cm-described"
                dom.textContent = text
                return { dom }
              }
            }
          }),
          describing,
          look,
          // Tab leaves the editor, as every other field; Enter or Tab takes what is proposed.
          keymap.of([
            { key: "Tab", run: acceptCompletion },
            ...completionKeymap,
            ...lintKeymap,
            ...foldKeymap,
            ...historyKeymap,
            ...defaultKeymap
          ]),
          EditorView.contentAttributes.of({ "aria-label": label, "aria-multiline": "true" }),
          EditorView.lineWrapping
        ]
      })
    })
    // What scrolls can be scrolled by keyboard.
    editor.scrollDOM.tabIndex = 0
    view.current = editor
    forceLinting(editor)
    const place = shows && written(initial, shows)
    if (place !== undefined) goTo(place[1])
    else editor.focus()
    return () => editor.destroy()
  }, [initial, schema])

  const isShort = faults !== undefined && faults.length > 0
  return (
    <div className="editing">
      <div ref={host} className="json-editor" />
      <p className="soft description" id={id}>
        {described === undefined ? (
          "Ctrl Space proposes what can be written here; every member is described where the cursor is."
        ) : (
          <span>
            <code>{described[0]}</code> {described[1]}
          </span>
        )}
      </p>
      <div role="status">
        {faults === undefined ? null : isShort ? (
          <strong className="fault">
            {count(faults.length)} {faults.length === 1 ? "fault" : "faults"}
          </strong>
        ) : (
          <span className="soft">No fault in the document</span>
        )}
      </div>
      {isShort ? (
        <ul className="faults" tabIndex={0} aria-label="Faults">
          {faults.map(({ at, from, line, message }) => (
            <li key={`${from} ${at} ${message}`}>
              <button type="button" onClick={() => goTo(from)}>
                <Icon name="warning" size={16} />
                <span>
                  Line {count(line)}: {at === "" ? null : <code>{at}</code>} {message}
                </span>
              </button>
            </li>
          ))}
        </ul>
      ) : null}
    </div>
  )
}

export default JsonEditor
