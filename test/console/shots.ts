import { chromium } from "playwright-core"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { consolePaths, executablePath } from "../support/browser.ts"

/**
 * `npm run console:shots`: every page of a running service's console in both themes and two widths, into `dist/shots`. KEY
 * is a key of the service that may make accounts; the address is that of `npm start` unless URL says another one.
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
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] })
try {
  await fs.mkdir(directory, { recursive: true })
  const page = await browser.newPage()
  await page.goto(`${url}/console/login`)
  await page.getByLabel("E-mail address").fill(email)
  await page.getByLabel("Password").fill(password)
  await page.keyboard.press("Enter")
  await page.waitForURL(`${url}/console/`)
  for (const at of consolePaths) {
    for (const width of [1280, 360]) {
      for (const colorScheme of ["light", "dark"] as const) {
        await page.setViewportSize({ width, height: 800 })
        await page.emulateMedia({ colorScheme })
        await page.goto(`${url}/console${at}`, { waitUntil: "networkidle" })
        const name = at === "/" ? "home" : at.slice(1).replaceAll("/", "-")
        await page.screenshot({ path: path.join(directory, `${name}-${width}-${colorScheme}.png`), fullPage: true })
      }
    }
  }
} finally {
  await browser.close()
}
