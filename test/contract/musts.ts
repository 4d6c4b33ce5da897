import * as fs from "node:fs"
import * as path from "node:path"

const root = path.resolve(import.meta.dirname, "../..")
const folder = "test/tokens"
const title = /["`](RFC\d+(?:bis)? §[\d.]+(?: \(\d\))?) ([^"`]+)["`]/g

/** Every test that is named by an RFC and its section, by what it proves. */
const musts = fs
  .readdirSync(path.join(root, folder))
  .filter((file) => file.endsWith(".test.ts"))
  .toSorted()
  .flatMap((file) =>
    Array.from(
      fs.readFileSync(path.join(root, folder, file), "utf8").matchAll(title),
      ([, section = "", what = ""]) => ({
        file,
        section,
        what: what.replaceAll(/\$\{(\w+)\}/g, "($1)").replace(/: (?:refused|taken)\b.*$/, "")
      })
    )
  )
  .toSorted((a, b) => a.section.localeCompare(b.section, "en", { numeric: true }))

/** A Markdown table of what RFCs demand, with the file whose test of that name proves it. */
export const mustsMarkdown: string = [
  "| RFC and section | What | Proven in |",
  "| --- | --- | --- |",
  ...musts.map(({ file, section, what }) => `| ${section} | ${what.replaceAll("|", "\\|")} | \`${folder}/${file}\` |`)
].join("\n")

const markers = /<!-- musts -->[\s\S]*<!-- \/musts -->/

if (import.meta.main) {
  const readme = path.join(root, "README.md")
  const text = fs.readFileSync(readme, "utf8")
  fs.writeFileSync(
    readme,
    text.replace(markers, () => `<!-- musts -->\n\n${mustsMarkdown}\n\n<!-- /musts -->`)
  )
}
