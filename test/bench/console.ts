import { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import { Reactivity } from "effect/reactivity"
import { execFile } from "node:child_process"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { promisify } from "node:util"
import { type Browser, chromium, type Page } from "playwright-core"
import { connection, join } from "../../src/platform/embedded-postgres/embedded-postgres.ts"
import { executablePath } from "../support/browser.ts"
import { median, print, root, serviceKey, startService, temporaryDirectory } from "./rates.ts"

const rows = 100_000
const turns = 30
const keys = 60
const opens = 5
const megabyte = 1_048_576

const wantedInteractive = 1000
const wantedTurn = 100
/** A frame of 60 a second takes 16.7 ms, and the browser rounds what it reports to 8 ms. */
const wantedKey = 50

const percentile = (values: ReadonlyArray<number>, share: number): number =>
  values.toSorted((one, other) => one - other)[Math.ceil(values.length * share) - 1] ?? Number.NaN

const addTrialUsers = (directory: string) =>
  join({ directory: path.join(directory, ".data") }).pipe(
    Effect.flatMap((server) => PgClient.makeClient(connection(server))),
    Effect.flatMap(
      (sql) => sql`
        INSERT INTO trial_users (first_name, last_name, email, email_key, is_active, email_verified, trial_start_date,
          trial_end_date, created_at)
        SELECT 'Person', 'Number ' || n, 'person' || n || '@example.com', 'person' || n || '@example.com', true, false, now(), now() + interval '14 days',
          now() - n * interval '1 minute'
        FROM generate_series(1, ${rows}::integer) n`
    ),
    Effect.scoped,
    Effect.provide(Reactivity.layer),
    Effect.orDie,
    Effect.runPromise
  )

const caller = (url: string) => async (method: string, at: string, body?: unknown) => {
  const answer = await fetch(`${url}${at}`, {
    method,
    headers: { "x-api-key": serviceKey, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  if (!answer.ok) throw new Error(`${method} ${at}: ${await answer.text()}`)
  return answer.json()
}

type Call = ReturnType<typeof caller>

/** Signs an administrator in and answers the token of the session. */
const signIn = async (call: Call): Promise<string> => {
  const applications = await call("GET", "/api/applications?limit=200")
  const own = applications.items.find(({ slug }: { readonly slug: string }) => slug === "application-manager")
  const roles: ReadonlyArray<{ readonly id: number; readonly name: string }> = await call(
    "GET",
    `/api/roles?applicationId=${own.id}`
  )
  const account = { email: "ada@example.com", password: "seven grey herons at dawn" }
  const roleIds = roles.filter(({ name }) => name === "Administrator").map(({ id }) => id)
  await call("POST", "/api/accounts", { ...account, name: "Ada Lovelace", roleIds })
  const { token } = await call("POST", "/api/auth/login", account)
  return token
}

/** What one console of its own, with nothing in its cache, does on a page. */
const inWindow = async <A>(
  browser: Browser,
  url: string,
  token: string,
  act: (page: Page) => Promise<A>
): Promise<A> => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
  try {
    await context.addCookies([{ name: "am_session", value: token, url, httpOnly: true }])
    await context.addInitScript(watch)
    return await act(await context.newPage())
  } finally {
    await context.close()
  }
}

interface Measured {
  /** When the page was first painted with its content, since the start of the navigation. */
  shownAt?: number
  /** How long the keys took that took longer than a frame. */
  keyMillis?: Array<number>
}

/** Runs in every page from its start. */
const watch = () => {
  const measured = globalThis as Measured
  measured.keyMillis = []
  const look = () => {
    if (document.querySelector("h1") === null || document.querySelector(".skeleton, [aria-busy=true]") !== null)
      requestAnimationFrame(look)
    else requestAnimationFrame(() => (measured.shownAt = performance.now()))
  }
  requestAnimationFrame(look)
  new PerformanceObserver((list) => {
    for (const { duration, name } of list.getEntries()) if (name === "keydown") measured.keyMillis?.push(duration)
  }).observe({ type: "event", durationThreshold: 16 } as PerformanceObserverInit)
}

/** From the start of the navigation until the page shows its content, which then answers to clicks. */
const untilShown = async (page: Page, address: string): Promise<number> => {
  await page.goto(address)
  const shown = await page.waitForFunction(() => (globalThis as Measured).shownAt)
  return (await shown.jsonValue()) ?? Number.NaN
}

/** The time of opening a page of the console: the first time, and again with a filled cache. */
const measureOpening = async (browser: Browser, url: string, token: string, at: string) => {
  const first: Array<number> = []
  const again: Array<number> = []
  for (let round = 0; round < opens; round++) {
    await inWindow(browser, url, token, async (page) => {
      first.push(await untilShown(page, `${url}/console${at}`))
      again.push(await untilShown(page, `${url}/console${at}`))
    })
  }
  return { first: median(first), again: median(again) }
}

/** From a click on "Next" until the rows of the next page are painted; a hand takes a moment from reaching it to the click. */
const measureTurns = (browser: Browser, url: string, token: string) =>
  inWindow(browser, url, token, async (page) => {
    await untilShown(page, `${url}/console/trial-users`)
    const taken: Array<number> = []
    for (let turn = 0; turn < turns; turn++) {
      await page.getByRole("link", { name: "Next" }).hover()
      await page.waitForTimeout(150)
      taken.push(
        await page.evaluate(
          () =>
            new Promise<number>((done) => {
              const before = document.querySelector("tbody")?.firstElementChild?.textContent
              const next = [...document.querySelectorAll<HTMLElement>("nav.pager a")].at(-1)
              const started = performance.now()
              next?.click()
              const look = () => {
                if (document.querySelector("tbody")?.firstElementChild?.textContent === before)
                  requestAnimationFrame(look)
                else requestAnimationFrame(() => done(performance.now() - started))
              }
              look()
            })
        )
      )
    }
    return taken
  })

/** From each key until its letter is painted, by the browser's own measure of events. */
const measureTyping = (browser: Browser, url: string, token: string, fileId: number) =>
  inWindow(browser, url, token, async (page) => {
    await untilShown(page, `${url}/console/files/${fileId}`)
    const editor = page.locator("textarea.editor")
    await editor.click()
    await page.keyboard.press("Control+Home")
    await page.keyboard.press("End")
    await page.keyboard.press("Enter")
    await page.waitForTimeout(1000)
    await page.evaluate(() => void ((globalThis as Measured).keyMillis = []))
    for (let key = 0; key < keys; key++) {
      await page.keyboard.press("x")
      await page.waitForTimeout(40)
    }
    await page.waitForTimeout(500)
    // What is under the threshold is not reported: it took less than a frame.
    const reported = (await page.evaluate(() => (globalThis as Measured).keyMillis)) ?? []
    return [...reported, ...Array.from({ length: keys - reported.length }, () => 8)]
  })

const within = (what: string, millis: number, wanted: number) => ({
  what,
  measured: `${Math.round(millis)} ms`,
  wanted: `(wanted < ${wanted})`,
  met: millis < wanted
})

/** The console in a real browser, on the service as `npm start` runs it. */
export const benchConsole = async (): Promise<void> => {
  if (executablePath === undefined) throw new Error("No Chromium was found (Debian's package is chromium).")
  await promisify(execFile)(process.execPath, ["src/console/build.ts", "--if-stale"], { cwd: root })
  const directory = await temporaryDirectory()
  const server = await startService(directory)
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] })
  try {
    const call = caller(server.url)
    const token = await signIn(call)
    await addTrialUsers(directory)
    const application = await call("POST", "/api/applications", { name: "Measured" })
    const lines = Array.from(
      { length: 13_107 },
      (_, line) => `  "key ${`${line}`.padStart(6, "0")}": "${"v".repeat(60)}"`
    )
    const file = await call("POST", "/api/configuration", {
      applicationId: application.id,
      name: "large.json",
      type: "file",
      content: `{\n${lines.join(",\n")}\n}\n`.slice(0, megabyte)
    })
    const home = await measureOpening(browser, server.url, token, "/")
    const list = await measureOpening(browser, server.url, token, "/trial-users")
    const paging = await measureTurns(browser, server.url, token)
    const typing = await measureTyping(browser, server.url, token, file.id)
    print("The console in Chromium", [
      within("home shown and interactive, empty cache", home.first, wantedInteractive),
      within("home shown and interactive, again", home.again, wantedInteractive),
      within("list shown and interactive, empty cache", list.first, wantedInteractive),
      within(`next page of ${rows.toLocaleString("en")} rows, p50 of ${turns}`, median(paging), wantedTurn),
      within(`next page of ${rows.toLocaleString("en")} rows, p95`, percentile(paging, 0.95), wantedTurn),
      within(`key to paint in a file of 1 MB, p50 of ${keys}`, median(typing), wantedKey),
      within("key to paint in a file of 1 MB, p95", percentile(typing, 0.95), wantedKey)
    ])
  } finally {
    await browser.close()
    await server.stop()
    await fs.rm(directory, { recursive: true, force: true })
  }
}

if (import.meta.main) await benchConsole()
