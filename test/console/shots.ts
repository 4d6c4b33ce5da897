import * as fs from "node:fs/promises"
import * as path from "node:path"
import { chromium } from "playwright-core"
import { consolePaths, executablePath } from "../support/browser.ts"

/**
 * `npm run console:shots`: every page of a running service's console in both themes and two widths, into `dist/shots`; a page
 * that shows one thing with the first thing that its list links to, and the dialogs of its main buttons. KEY is a key of the service that may make accounts; the
 * address is that of `npm start` unless URL says another one. Words after it are the paths to take alone.
 */
const url = process.env.URL ?? "http://127.0.0.1:11402"
const key = process.env.KEY ?? ""
const directory = path.resolve(import.meta.dirname, "../../dist/shots")

const call = async (method: string, at: string, body?: unknown) => {
  const answer = await fetch(`${url}${at}`, {
    method,
    headers: { "x-api-key": key, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  if (!answer.ok) throw new Error(`${method} ${at}: ${await answer.text()}`)
  return answer.json()
}

const email = `shots-${Date.now()}@example.com`
const password = "seven grey herons at dawn"
const applications: { readonly items: ReadonlyArray<{ readonly id: number; readonly slug: string }> } = await call(
  "GET",
  "/api/applications?limit=200"
)
const applicationId = applications.items.find(({ slug }) => slug === "application-manager")?.id
const roles: ReadonlyArray<{ readonly id: number; readonly name: string }> = await call(
  "GET",
  `/api/roles?applicationId=${applicationId}`
)
const roleIds = roles.filter(({ name }) => name === "Administrator").map(({ id }) => id)
await call("POST", "/api/accounts", { email, name: "Ada Lovelace", password, roleIds })

if (executablePath === undefined) throw new Error("No Chromium was found (Debian's package is chromium).")
const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
  // People have scrollbars.
  ignoreDefaultArgs: ["--hide-scrollbars"]
})
try {
  await fs.mkdir(directory, { recursive: true })
  const page = await browser.newPage()
  await page.goto(`${url}/console/login`)
  await page.getByLabel("E-mail address").fill(email)
  await page.getByLabel("Password").fill(password)
  await page.keyboard.press("Enter")
  await page.waitForURL(`${url}/console/`)
  const wanted = process.argv.slice(2)
  const paths = wanted.length === 0 ? [...consolePaths] : wanted
  const listed = new Set(paths)
  for (const at of paths) {
    for (const width of [1280, 360]) {
      for (const colorScheme of ["light", "dark"] as const) {
        await page.setViewportSize({ width, height: 800 })
        await page.emulateMedia({ colorScheme })
        await page.goto(`${url}/console${at}`, { waitUntil: "networkidle" })
        const name =
          at === "/"
            ? "home"
            : at
                .slice(1)
                .replaceAll(/[/?=&]/g, "-")
                .replaceAll(/-[0-9a-f]{8}-[0-9a-f-]{27}/g, "-one")
        await page.screenshot({ path: path.join(directory, `${name}-${width}-${colorScheme}.png`), fullPage: true })
        const main = page.locator("main .head .btn.main:not([aria-disabled=true])").first()
        if ((await main.count()) === 0) continue
        await main.click()
        if ((await page.locator("dialog[open]").count()) === 0) continue
        await page.waitForLoadState("networkidle")
        await page.screenshot({ path: path.join(directory, `${name}-dialog-${width}-${colorScheme}.png`) })
      }
    }
    const first = await page.locator(`main a[href^="/console${at}/"]`).first()
    const one = (await first.count()) === 0 ? null : await first.getAttribute("href")
    const found = one?.slice("/console".length)
    if (found !== undefined && at !== "/" && listed.has(at) && !listed.has(found) && consolePaths.includes(at))
      paths.push(found)
  }
} finally {
  await browser.close()
}
