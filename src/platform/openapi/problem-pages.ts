import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { type ProblemDefinition, problemDefinitions, problemType } from "../../kernel/problems/problem.ts"
import { RouteNotFound } from "../../kernel/problems/problems.ts"
import { escapeHtml, htmlPage } from "../http/html-page.ts"
import { prefersHtml } from "../http/negotiation.ts"

/** `GET /problems` and `GET /problems/<slug>`: what every error of the service means, as JSON or as a page. */
export const ProblemPagesLayer = Layer.mergeAll(
  HttpRouter.add("GET", "/problems", (request) => {
    const problems = problemDefinitions().map(view)
    return Effect.succeed(
      prefersHtml(request) ? page("Problems", problems.map(row).join("\n")) : HttpServerResponse.jsonUnsafe(problems)
    )
  }),
  HttpRouter.add(
    "GET",
    "/problems/:slug",
    Effect.gen(function* () {
      const request = yield* HttpServerRequest.HttpServerRequest
      const { slug } = yield* HttpRouter.params
      const found = problemDefinitions().find((problem) => problem.slug === slug)
      if (found === undefined) return yield* Effect.orDie(HttpServerResponse.json(notFound, notFoundOptions))
      return prefersHtml(request) ? page(found.slug, row(view(found))) : HttpServerResponse.jsonUnsafe(view(found))
    })
  )
)

const notFound = { ...new RouteNotFound({ detail: "No problem has this slug; GET /problems lists them." }) }
const notFoundOptions = { status: 404, contentType: "application/problem+json" }

const view = ({ meaning, slug, status, statuses, title }: ProblemDefinition) => ({
  slug,
  type: problemType(slug),
  status,
  statuses,
  title,
  meaning
})

const row = ({ meaning, slug, statuses, title, type }: ReturnType<typeof view>): string => `
  <h2 id="${slug}"><a href="/problems/${slug}">${slug}</a></h2>
  <p><strong>${statuses.join(", ")} ${escapeHtml(title)}</strong> · <code>${type}</code></p>
  <p>${escapeHtml(meaning)}</p>`

const page = (title: string, body: string) => htmlPage(`${title} · Application Manager`, `<h1>${title}</h1>${body}`)
