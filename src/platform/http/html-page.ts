import { HttpServerResponse } from "effect/http"

/** The policy of a page: nothing from other origins, and only scripts with these hashes. */
export const contentSecurityPolicy = (scriptHashes: ReadonlyArray<string> = []): string =>
  [
    "default-src 'none'",
    `script-src ${scriptHashes.length === 0 ? "'none'" : scriptHashes.map((hash) => `'sha256-${hash}'`).join(" ")}`,
    "style-src 'unsafe-inline'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'"
  ].join("; ")

/** A text as HTML shows it. */
export const escapeHtml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;")

/** A page of the service; clients that prefer JSON may get another answer at its path. */
export const htmlPage = (
  title: string,
  body: string,
  { scriptHashes, style = "" }: { readonly scriptHashes?: ReadonlyArray<string>; readonly style?: string } = {}
) =>
  HttpServerResponse.text(
    `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 10vh auto; padding: 0 1rem }${style}
</style>
${body}
</html>
`,
    {
      contentType: "text/html; charset=utf-8",
      headers: { "content-security-policy": contentSecurityPolicy(scriptHashes), vary: "Accept" }
    }
  )
