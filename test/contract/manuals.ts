import * as fs from "node:fs"
import * as path from "node:path"

export const root = path.resolve(import.meta.dirname, "../..")

/** A fenced block of a manual: its language, its text, and the heading that it is under. */
export interface Block {
  readonly language: string
  readonly text: string
  readonly heading: string
}

/** A file of the documentation, by its path from the top of the project. */
export interface Manual {
  readonly file: string
  readonly text: string
  readonly blocks: ReadonlyArray<Block>
}

const blocksOf = (text: string): ReadonlyArray<Block> => {
  let heading = ""
  return Array.from(text.matchAll(/^```(\w*)\n([\s\S]*?)^```$|^#+ (.+)$/gm)).flatMap(
    ([, language, body = "", title]) => {
      if (title !== undefined) heading = title
      return language === undefined ? [] : [{ language, text: body, heading }]
    }
  )
}

const readManual = (file: string): Manual => {
  const text = fs.readFileSync(path.join(root, file), "utf8")
  return { file, text, blocks: blocksOf(text) }
}

const areas = fs
  .globSync("src/**/README.md", { cwd: root })
  .map((file) => file.replaceAll(path.sep, "/"))
  .toSorted()

/** The documentation: the README at the top, the one of each area, and those of deployment. */
export const manuals: ReadonlyArray<Manual> = ["README.md", ...areas, "deploy/README.md", "deploy/runbooks.md"].map(
  readManual
)

/** The anchors that GitHub gives to headings. */
export const anchorsIn = ({ text }: Manual): ReadonlySet<string> => {
  const prose = text.replaceAll(/^```[\s\S]*?^```$/gm, "")
  return new Set(
    Array.from(prose.matchAll(/^#+ (.+)$/gm), ([, title = ""]) =>
      title
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-")
    )
  )
}
