import { call, callPage } from "../../api/client.ts"
import { useCall, usePage } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { useCan } from "../../shell/session.tsx"
import { type Document } from "./document.ts"

export type Version = Row<"llmAdmin.versions">

/** A configuration, and the version that it is; 0 for what runs of the environment. */
export interface Versioned {
  readonly document: Document
  readonly version: number
}

const ofVersion = ({ content, version }: Version): Versioned => ({ document: JSON.parse(content), version })

const newestFirst = { query: { limit: 1 } }

/** Reads the newest configuration. Document and version come of one row, so that none is saved as based on another. */
export const newestConfiguration = async (): Promise<Versioned> => {
  const [newest] = (await callPage("llmAdmin.versions", newestFirst)).items
  return newest === undefined
    ? { document: await call("llmAdmin.getConfiguration", {}), version: 0 }
    : ofVersion(newest)
}

/** The newest configuration, once it has come. */
export const useConfiguration = (): Versioned | undefined => {
  const enabled = useCan()("llm:admin")
  const { data } = usePage("llmAdmin.versions", { input: newestFirst }, { enabled })
  const [newest] = data?.items ?? []
  const isUnwritten = data !== undefined && newest === undefined
  const { data: document } = useCall("llmAdmin.getConfiguration", {}, { enabled: enabled && isUnwritten })
  return newest !== undefined ? ofVersion(newest) : isUnwritten && document ? { document, version: 0 } : undefined
}

const tag = (version: number) => ({ "if-match": `"${version}"` })

/** What was saved, and the version before it. */
export interface Saved {
  readonly before: number
}

/** Saves a configuration that was made of a version, unless there is a newer one. */
export const saveConfiguration = async (document: Document, { version }: Versioned): Promise<Saved> => {
  await call("llmAdmin.putConfiguration", { body: document, headers: tag(version) })
  return { before: version }
}

/** Takes back what was saved, unless something else was saved since; what ran of the environment is no version to return to. */
export const undoSave = ({ before }: Saved): (() => Promise<unknown>) | undefined =>
  before === 0 ? undefined : () => call("llmAdmin.rollback", { body: { version: before }, headers: tag(before + 1) })
