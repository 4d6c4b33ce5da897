import { assert } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { execFile } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { promisify } from "node:util"
import {
  type Browser as Chromium,
  type BrowserContext,
  type BrowserContextOptions,
  type Page,
  chromium
} from "playwright-core"
import { makeAccount, signIn } from "./accounts.ts"
import { type TestService } from "./service.ts"

/** Where a Chromium is, at best one without a window system, which draws for half the cost; undefined when there is none. */
export const executablePath = [
  "/usr/bin/chromium-headless-shell",
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome"
].find((file) => fs.existsSync(file))

if (executablePath === undefined) {
  process.stdout.write(
    "The tests of the console are skipped: no Chromium was found (Debian's package is chromium-headless-shell).\n"
  )
}

const declared = fs.readFileSync(path.resolve(import.meta.dirname, "../../src/console/web/shell/routes.tsx"), "utf8")
/** The paths of the console's pages that need no id. */
export const consolePaths = Array.from(
  declared.matchAll(/(?:page|part)\(\s*"(\/[^":]*)",/g),
  ([, found]) => found ?? "/"
)

/** A Chromium, and the console built. */
export class Browser extends Context.Service<Browser, Chromium>()("test/Browser") {
  static readonly layer = Layer.effect(
    Browser,
    Effect.acquireRelease(
      Effect.promise(async () => {
        await promisify(execFile)(process.execPath, ["src/console/build.ts", "--if-stale"])
        return chromium.launch({
          executablePath: executablePath ?? "",
          args: ["--no-sandbox", "--disable-dev-shm-usage"],
          // People have scrollbars.
          ignoreDefaultArgs: ["--hide-scrollbars"]
        })
      }),
      (browser) => Effect.promise(() => browser.close())
    )
  )
}

/** A window of its own on a service. */
export interface Window {
  readonly page: Page
  readonly context: BrowserContext
  /** What the page said on its console, where else it sent requests, and paths with a part that it lacked: nothing. */
  readonly complaints: Array<string>
  /** Opens a page of the console and waits until what it shows has come. */
  readonly visit: (path: string) => Effect.Effect<void>
  /** Goes to a page of another title as its links do, without loading the console again, which costs more than the page. */
  readonly go: (path: string) => Effect.Effect<void>
}

/** What a test does with a page. */
export const step = <A>(act: () => Promise<A>): Effect.Effect<A> => Effect.promise(act)

/** Waits until nothing is being loaded any more. */
export const settled = (page: Page): Effect.Effect<void> =>
  step(async () => {
    await page.waitForFunction(() => document.querySelector(".skeleton, [aria-busy=true]") === null)
    await page.locator("h1").first().waitFor()
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
  })

/** A window without a sign-in. */
export const openWindow = (service: TestService["Service"], options: BrowserContextOptions = {}) =>
  Effect.gen(function* () {
    const browser = yield* Browser
    const context = yield* Effect.acquireRelease(
      step(() => browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce", ...options })),
      (context) => step(() => context.close())
    )
    const page = yield* step(() => context.newPage())
    page.setDefaultTimeout(20_000)
    const complaints: Array<string> = []
    page.on("console", (message) => {
      // The browser itself reports each answer of 400 and above; tests look at what the page makes of them.
      if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
        complaints.push(message.text())
    })
    page.on("pageerror", (error) => void complaints.push(error.message))
    page.on("request", (request) => {
      const { origin, pathname, protocol } = new URL(request.url())
      if (/\/undefined(?:\/|$)/.test(pathname)) complaints.push(`request to ${pathname}`)
      if (origin !== service.url && protocol !== "data:") complaints.push(`request to ${origin}`)
    })
    const visit = (path: string) =>
      Effect.andThen(
        step(() => page.goto(`${service.url}/console${path}`)),
        settled(page)
      )
    const go = (path: string) =>
      Effect.andThen(
        step(async () => {
          const before = await page.title()
          await page.evaluate((to) => history.pushState(null, "", to), `/console${path}`)
          await page.waitForFunction((title) => document.title !== title, before)
        }),
        settled(page)
      )
    return { page, context, complaints, visit, go } satisfies Window
  })

/** A window in which an account with these capabilities is signed in. */
export const openConsole = (
  service: TestService["Service"],
  capabilities: ReadonlyArray<string> = ["*:*"],
  members: Readonly<Record<string, unknown>> = {}
) =>
  Effect.gen(function* () {
    const window = yield* openWindow(service)
    const account = yield* makeAccount(service, capabilities, members)
    const value = yield* signIn(service, account)
    yield* step(() => window.context.addCookies([{ name: "am_session", value, url: service.url, httpOnly: true }]))
    return window
  })

/** Fails when a page wrote errors or asked another origin for something. */
export const assertQuiet = ({ complaints }: Window): void => assert.deepStrictEqual(complaints, [])
