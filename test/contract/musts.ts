import * as fs from "node:fs"
import * as path from "node:path"

const root = path.resolve(import.meta.dirname, "../..")
const folder = "test/agents/oauth"
const test = /\bit(?:\.\w+)*\(\s*["`]([^"`]+)["`]/g
const either = new Intl.ListFormat("en-GB", { type: "disjunction" })

const stringsIn = (text: string): ReadonlyArray<string> =>
  Array.from(text.matchAll(/"([^"]+)"/g), ([, value = ""]) => value)

/** The values that a loop around a title gives to a name of it: those of its list, or what the rows of it begin with. */
const valuesOf = (name: string, before: string): ReadonlyArray<string> => {
  const binding = new RegExp(String.raw`const \[?${name}\b[^=\n]*? (?:of|=) (\[[^\]]*\]|\w+)`, "g")
  const source = Array.from(before.matchAll(binding)).at(-1)?.[1]
  if (source === undefined) throw new Error(`No loop over ${name} is known to ${import.meta.filename}`)
  if (source.startsWith("[")) return stringsIn(source)
  const declaration = new RegExp(String.raw`^( *)const ${source}\b[\s\S]*?= \[\n([\s\S]*?)\n\1\]`, "m").exec(before)
  if (declaration === null) return valuesOf(source, before)
  return Array.from((declaration[2] ?? "").matchAll(/\[\s*((?:"[^"]+",?\s*)+)/g), ([, row = ""]) => row).flatMap(
    stringsIn
  )
}

/** A test's name for each case of it: a loop over whole names, or one name with all cases in it. */
const namesOf = (name: string, before: string): ReadonlyArray<string> => {
  const [, loop, outcome] = /^\$\{(\w+)\}: (.*)/.exec(name) ?? []
  if (loop === undefined) {
    if (!name.startsWith("RFC")) return []
    return [name.replaceAll(/\$\{(\w+)\}/g, (_, each: string) => either.format(valuesOf(each, before)))]
  }
  return valuesOf(loop, before).map((value) => `${value}: ${outcome?.startsWith("taken") ? "taken" : "refused"}`)
}

/** Every test that is named by an RFC and its section, by what it proves. */
const musts = fs
  .readdirSync(path.join(root, folder))
  .filter((file) => file.endsWith(".test.ts"))
  .toSorted()
  .flatMap((file) => {
    const text = fs.readFileSync(path.join(root, folder, file), "utf8")
    return Array.from(text.matchAll(test), ({ 1: name = "", index }) => namesOf(name, text.slice(0, index)))
      .flat()
      .flatMap((name) => {
        const [, section, what] = /^(RFC\d+(?:bis)? §[\d.]+(?: \(\d\))?) (.*)/.exec(name) ?? []
        return section === undefined || what === undefined ? [] : [{ file, section, what }]
      })
  })
  .toSorted((a, b) => a.section.localeCompare(b.section, "en", { numeric: true }))

/** What RFCs demand, in a Markdown table with the file whose test of that name proves it. */
export const mustsMarkdown: string = [
  "# What the standards demand",
  "",
  "Each row is a test's name, or the name of several that differ in one word; `node test/contract/musts.ts` writes it.",
  "",
  "| RFC and section | What | Proven in |",
  "| --- | --- | --- |",
  ...musts.map(({ file, section, what }) => `| ${section} | ${what.replaceAll("|", "\\|")} | \`${folder}/${file}\` |`),
  ""
].join("\n")

if (import.meta.main) fs.writeFileSync(path.join(root, "test/contract/musts.md"), mustsMarkdown)
