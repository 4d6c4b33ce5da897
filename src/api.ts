import { Context } from "effect"
import { HttpApi, OpenApi } from "effect/http-api"
import * as Agents from "./agents/groups.ts"
import * as Applications from "./applications/groups.ts"
import * as Audit from "./audit/groups.ts"
import * as Budgets from "./budgets/groups.ts"
import * as Events from "./events/groups.ts"
import * as Gateway from "./gateway/groups.ts"
import * as Insights from "./insights/groups.ts"
import { Validation } from "./kernel/problems/validation.ts"
import * as Operations from "./operations/groups.ts"
import * as People from "./people/groups.ts"
import * as Tenants from "./tenants/groups.ts"
import * as Trials from "./trials/groups.ts"

const strict = { errors: "all", onExcessProperty: "error" } as const

/** Everything that the service offers, an area a line in the order of the OpenAPI document, which is derived from it. */
export class Api extends HttpApi.make("application-manager")
  .add(
    ...Applications.groups,
    ...Trials.groups,
    ...Tenants.groups,
    ...Agents.groups,
    ...People.groups,
    ...Gateway.groups,
    ...Budgets.groups,
    ...Insights.groups,
    ...Events.groups,
    ...Audit.groups,
    ...Operations.groups
  )
  .middleware(Validation)
  // They write errors in the formats of their standards.
  .add(...Agents.standards)
  .annotateMerge(
    Context.make(HttpApi.ParamsParseOptions, strict).pipe(
      Context.add(HttpApi.QueryParseOptions, strict),
      // All faults of a body are looked for once it has one.
      Context.add(HttpApi.PayloadParseOptions, { ...strict, errors: "first" }),
      // Answers are made of what was checked on its way in.
      Context.add(HttpApi.SuccessParseOptions, { disableChecks: true })
    )
  )
  .annotate(OpenApi.Transform, Gateway.withCompatibility)
  .annotateMerge(
    OpenApi.annotations({
      title: "Application Manager",
      description:
        "Lets people and AI agents in, and keeps them within bounds. Every error is an RFC 9457 problem; `GET /problems` lists them. On every path, a request that is no HTTP/1.1 or arrives too slowly is one of 400, 408, 417, 431 or 501."
    })
  ) {}
