import { assert, layer } from "@effect/vitest"
import { parser } from "@prometheus-io/lezer-promql"
import { Effect, Layer } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { parse } from "yaml"
import { credentialSeen } from "../../src/gateway/credentials/registry/credential-metrics.ts"
import * as RoutingMetrics from "../../src/gateway/routing/routing-metrics.ts"
import * as GatewayMetrics from "../../src/gateway/telemetry/metrics.ts"
import * as ProcessMetrics from "../../src/platform/observability/metrics.ts"
import { serviceLayer, TestService } from "../support/service.ts"
import { eventually } from "../support/waiting.ts"
import { anchorsIn, manuals, root } from "./manuals.ts"

/** What Prometheus makes itself, and adds to what it scrapes. */
const ofPrometheus = { metrics: ["up"], labels: ["job", "instance", "le"] }

/** An expression: where it stands, and what it names. */
interface Expression {
  readonly place: string
  readonly text: string
  readonly labels: ReadonlyArray<string>
  /** Each metric with the labels that select its series. */
  readonly selectors: ReadonlyArray<{ readonly metric: string; readonly labels: ReadonlyArray<string> }>
}

const read = (place: string, text: string): Expression => {
  // Variables of Grafana stand where PromQL has a duration or a text.
  const source = text.replaceAll("$__rate_interval", "5m").replaceAll(/\$\w+/g, "any")
  const labels: Array<string> = []
  const selectors: Array<{ metric: string; labels: Array<string> }> = []
  parser.parse(source).iterate({
    enter: (node) => {
      if (node.type.isError) assert.fail(`${place} is no PromQL at ${node.from}: ${source}`)
      const found = source.slice(node.from, node.to)
      if (node.name === "VectorSelector") selectors.push({ metric: "", labels: [] })
      if (node.name === "Identifier") selectors.at(-1)!.metric = found
      if (node.name !== "LabelName") return
      if (node.matchContext(["VectorSelector", "LabelMatchers", "UnquotedLabelMatcher"])) {
        selectors.at(-1)!.labels.push(found)
      } else labels.push(found)
    }
  })
  return { place, text: source, labels, selectors }
}

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly labels: { readonly severity: string }
  readonly annotations: { readonly summary: string; readonly description: string; readonly runbook_url: string }
}

const rules: ReadonlyArray<Rule> = parse(
  fs.readFileSync(path.join(root, "deploy/prometheus/rules.yaml"), "utf8")
).groups.flatMap((group: { readonly rules: ReadonlyArray<Rule> }) => group.rules)

interface Dashboard {
  readonly uid: string
  readonly title: string
  readonly panels: ReadonlyArray<{
    readonly id: number
    readonly title: string
    readonly gridPos: { readonly x: number; readonly w: number }
    readonly targets: ReadonlyArray<{ readonly expr: string; readonly legendFormat: string }>
  }>
  readonly templating: { readonly list: ReadonlyArray<{ readonly name: string }> }
}

const dashboards: ReadonlyArray<Dashboard> = fs
  .globSync("deploy/grafana/*.json", { cwd: root })
  .map((file) => JSON.parse(fs.readFileSync(path.join(root, file), "utf8")))

const ofDashboards = dashboards.flatMap(({ panels, title }) =>
  panels.flatMap((panel) =>
    panel.targets.map(({ expr, legendFormat }) => ({ legendFormat, ...read(`${title}: ${panel.title}`, expr) }))
  )
)
const ofRules = rules.map(({ alert, annotations, expr }) => ({ annotations, ...read(alert, expr) }))

/** The labels of each metric of a scrape; a histogram has three. */
const seriesIn = (text: string): ReadonlyMap<string, ReadonlySet<string>> => {
  const found = new Map<string, Set<string>>()
  for (const [, name = "", block = ""] of text.matchAll(/^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+$/gm)) {
    const labels = found.get(name) ?? new Set(ofPrometheus.labels)
    for (const [, label = ""] of block.matchAll(/(\w+)="/g)) labels.add(label)
    found.set(name, labels)
  }
  for (const name of ofPrometheus.metrics) found.set(name, new Set(ofPrometheus.labels))
  return found
}

/** The labels that the result of an expression can have. */
const left = ({ labels, selectors }: Expression) =>
  new Set([...labels, ...selectors.flatMap((one) => one.labels), "instance"])

/** What happens to a call that no test can wait for: a provider that fails, a cap that denies. */
const misfortune = Effect.gen(function* () {
  yield* GatewayMetrics.denied("budget")
  RoutingMetrics.fellBack("one", "other")
  RoutingMetrics.breakerSeen("one", "model", "open")
  RoutingMetrics.attemptFailed("one", "timeout")
  credentialSeen("one", { obtainedAt: undefined, expiresAt: undefined, failures: 1, lastError: "away" })
})

// A Redis and a storage that are not there: the service starts without them, and says so.
const service = serviceLayer({
  Redis__Url: "redis://127.0.0.1:1",
  Usage__Export__Bucket: "warehouse",
  Usage__Export__Endpoint: "http://127.0.0.1:1",
  Usage__Export__AccessKeyId: "key",
  Usage__Export__SecretAccessKey: "secret"
})

layer(service, { excludeTestServices: true, timeout: "60 seconds" })("dashboards and alert rules", (it) => {
  it.effect("use metrics and labels that the service serves", () =>
    Effect.gen(function* () {
      const { call } = yield* TestService
      yield* misfortune
      yield* Layer.build(ProcessMetrics.layer)
      const cap = { name: "all", unit: "usd", limit: 5, period: "day", scope: {}, mode: "hard" }
      const made = yield* call("POST", "/api/budgets/caps", { body: cap })
      assert.strictEqual(made.status, 201, made.text)
      const body = { model: "loopback-1", stream: true, messages: [{ role: "user", content: "Hello" }] }
      const answer = yield* call("POST", "/v1/chat/completions", { body })
      assert.strictEqual(answer.status, 200, answer.text)
      const names = [...ofRules, ...ofDashboards].flatMap(({ selectors }) => selectors.map(({ metric }) => metric))
      // Each is measured at the start, and the last of them once the checks of the health in detail are through.
      const scraped = yield* eventually(
        Effect.map(call("GET", "/metrics"), ({ text }) => seriesIn(text)),
        (series) =>
          ["app_ready", "app_disk_free_ratio", "app_usage_export_lag_seconds"].every((name) => series.has(name))
      )
      const faults = [...ofRules, ...ofDashboards].flatMap(({ labels, place, selectors }) => {
        const unknown = labels.filter((label) => !selectors.some(({ metric }) => scraped.get(metric)?.has(label)))
        const unmatched = selectors.flatMap(({ labels: matched, metric }) =>
          scraped.has(metric)
            ? matched.filter((label) => !scraped.get(metric)?.has(label)).map((label) => `${metric} has no ${label}`)
            : `no metric ${metric}`
        )
        return [`nothing has ${unknown.join()}`]
          .filter(() => unknown.length > 0)
          .concat(unmatched)
          .map((fault) => `${place}: ${fault}`)
      })
      assert.deepStrictEqual(faults, [])
      assert.isAbove(names.length, 60)
    })
  )

  it("legends and annotations name labels that the expression leaves", () => {
    const legends = ofDashboards.flatMap((one) =>
      Array.from(one.legendFormat.matchAll(/\{\{(\w+)\}\}/g), ([, label = ""]) => ({ ...one, label }))
    )
    const texts = ofRules.flatMap((one) =>
      Array.from(JSON.stringify(one.annotations).matchAll(/\$labels\.(\w+)/g), ([, label = ""]) => ({ ...one, label }))
    )
    const wrong = [...legends, ...texts].filter((one) => !left(one).has(one.label))
    assert.deepStrictEqual(
      wrong.map(({ label, place }) => `${place}: ${label}`),
      []
    )
  })

  it("each alert has a severity, a summary and a runbook that exists", () => {
    const runbooks = manuals.find(({ file }) => file === "deploy/runbooks.md")
    const anchors = runbooks === undefined ? new Set() : anchorsIn(runbooks)
    assert.isAbove(rules.length, 15)
    assert.strictEqual(new Set(rules.map(({ alert }) => alert)).size, rules.length)
    for (const { alert, annotations, labels } of rules) {
      assert.include(["critical", "warning"], labels.severity, alert)
      assert.isNotEmpty(annotations.summary, alert)
      assert.isNotEmpty(annotations.description, alert)
      const [file, anchor] = annotations.runbook_url.split("#")
      assert.strictEqual(file, "runbooks.md", alert)
      assert.isTrue(anchors.has(anchor ?? ""), `${alert}: ${annotations.runbook_url}`)
    }
  })

  it("dashboards have titles, places and names of their own", () => {
    assert.strictEqual(new Set(dashboards.map(({ uid }) => uid)).size, 3)
    for (const { panels, templating, title } of dashboards) {
      const ids = panels.map(({ id }) => id)
      assert.strictEqual(new Set(ids).size, ids.length, title)
      assert.strictEqual(new Set(panels.map((panel) => panel.title)).size, panels.length, title)
      for (const { gridPos } of panels) assert.isAtMost(gridPos.x + gridPos.w, 24)
      const variables = templating.list.map(({ name }) => name)
      assert.sameMembers(variables, ["datasource", "job", "instance"], title)
    }
  })
})
