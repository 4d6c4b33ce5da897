import { assert, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { promisify } from "node:util"
import { parse } from "yaml"
import { settingsTable } from "../../src/platform/settings/settings.ts"
import { chart, hasHelm, type Manifest, rendered, runHelm } from "../support/helm.ts"
import { operations } from "./document.ts"
import { root } from "./manuals.ts"

/** Values that turn everything on. */
const everything = {
  image: { digest: `sha256:${"a".repeat(64)}`, pullSecrets: [{ name: "registry" }] },
  publicUrl: "https://manager.example.com",
  trustedProxies: ["10.0.0.0/8", "fd00::/8"],
  secrets: {
    keys: { redisUrl: "redis-url" },
    variables: { Database__PoolUrl: "pool-url", Usage__Export__SecretAccessKey: "storage-key" },
    environmentFrom: "provider-keys"
  },
  settings: { Api__RateLimit__PerMinute: "600", Logging__Requests: "true" },
  shutdown: { preStopSeconds: 7 },
  migration: { secretName: "owner", secretKey: "url" },
  autoscaling: { enabled: true },
  service: { annotations: { "example.com/a": "b" } },
  ingress: { enabled: true, className: "nginx", host: "manager.example.com", tlsSecretName: "tls" },
  certificateAuthorities: { secretName: "authorities" },
  extraVolumes: [{ name: "llm", configMap: { name: "llm" } }],
  extraVolumeMounts: [{ name: "llm", mountPath: "/etc/llm", readOnly: true }],
  networkPolicy: {
    enabled: true,
    dns: { to: [{ namespaceSelector: {} }], ports: [53, 5353] },
    from: [{ namespaceSelector: { matchLabels: { name: "ingress" } } }],
    egress: [{ to: [{ ipBlock: { cidr: "10.1.0.0/16" } }], ports: [{ port: 5432, protocol: "TCP" }] }]
  },
  metrics: {
    enabled: true,
    serviceMonitor: { enabled: true, labels: { release: "prometheus" } },
    prometheusRule: { enabled: true }
  },
  serviceAccount: { annotations: { "example.com/role": "manager" } },
  podAnnotations: { "example.com/a": "b" },
  podLabels: { team: "platform" },
  nodeSelector: { "kubernetes.io/arch": "amd64" },
  tolerations: [{ key: "dedicated", operator: "Exists" }],
  affinity: { nodeAffinity: {} },
  priorityClassName: "high"
}

const off = {
  migration: { enabled: false },
  podDisruptionBudget: { enabled: false },
  serviceAccount: { create: false },
  secrets: { keys: { apiKey: "" } }
}

const variants = { "the defaults": {}, "everything on": everything, "everything off": off }

const ofKind = (objects: ReadonlyArray<Manifest>, kind: string): Manifest =>
  objects.find((object) => object.kind === kind) ?? assert.fail(`no ${kind}`)

const podsOf = (objects: ReadonlyArray<Manifest>): ReadonlyArray<Manifest> =>
  objects.flatMap(({ spec }) => (spec?.template === undefined ? [] : [spec.template]))

/** Whether a selector, which must not be empty, matches the labels. */
const matches = (selector: Record<string, string>, labels: Record<string, string>): boolean =>
  Object.keys(selector).length > 0 && Object.entries(selector).every(([name, value]) => labels[name] === value)

/** What replicas are started with instead of the default of `Database:Migrate`. */
const migrates = (deployment: Manifest) =>
  deployment.spec.template.spec.containers[0].env.find(({ name }: Manifest) => name === "Database__Migrate")?.value

const run = promisify(execFile)

/** What the compiler says of objects as literals of the types of Kubernetes: an unknown or missing member is an error. */
const faultsOf = async (objects: ReadonlyArray<Manifest>): Promise<string> => {
  const folder = await fs.mkdtemp(path.join(root, "dist/chart-"))
  try {
    const lines = objects.map((object, index) => {
      const { apiVersion, kind } = object
      const from = apiVersion.startsWith("monitoring.coreos.com/")
        ? `@kubernetes-models/prometheus-operator/${apiVersion}`
        : `kubernetes-models/${apiVersion}`
      return `import type { I${kind} as I${index} } from "${from}"\nexport const o${index}: I${index} = ${JSON.stringify(object)}`
    })
    await fs.writeFile(path.join(folder, "objects.ts"), lines.join("\n"))
    await fs.writeFile(
      path.join(folder, "tsconfig.json"),
      JSON.stringify({
        compilerOptions: { module: "preserve", strict: true, noEmit: true, skipLibCheck: true, types: [] },
        files: ["objects.ts"]
      })
    )
    const compiler = path.join(root, "node_modules/typescript/bin/tsc")
    return await run(process.execPath, [compiler, "-p", folder]).then(
      ({ stdout }) => stdout,
      ({ stdout }) => stdout
    )
  } finally {
    await fs.rm(folder, { recursive: true })
  }
}

describe.runIf(hasHelm)("the Helm chart", () => {
  it("passes the lint of Helm with its default values and with everything on", async () => {
    const file = path.join(root, `dist/values-${process.pid}.json`)
    await fs.writeFile(file, JSON.stringify(everything))
    try {
      await runHelm("lint", "--strict", chart)
      await runHelm("lint", "--strict", "--values", file, chart)
    } finally {
      await fs.rm(file)
    }
  })

  it("takes no value that it does not know, and no secret", async () => {
    const rejected = [
      { replica: 2 },
      { image: { repositry: "a" } },
      { secrets: { databaseUrl: "postgres://a" } },
      { settings: { Database__Url: "postgres://a" } },
      { settings: { Api__ApiKey: "secret" } },
      { settings: { Redis__Url: "redis://a" } },
      { settings: { Security__EncryptionKey: "secret" } },
      { settings: { Telemetry__Otlp__Headers: "a=b" } },
      { settings: { "api.port": "1" } },
      { ingress: { enabled: true } },
      { ingress: { enabled: true, host: "a.example.com" }, publicUrl: "https://a.example.com" },
      { ingress: { enabled: true, host: "a.example.com" }, trustedProxies: ["10.0.0.0/8"] },
      { networkPolicy: { dns: { ports: [] } } },
      { image: { digest: "latest" } },
      { shutdown: { drainSeconds: -1 } }
    ]
    const failures = await Promise.all(
      rejected.map((values) =>
        rendered(values).then(
          () => "taken",
          (error: Error) => error.message
        )
      )
    )
    for (const [index, failure] of failures.entries()) {
      assert.include(failure, "values don't meet the specifications of the schema", JSON.stringify(rejected[index]))
    }
    const failure = await rendered({ metrics: { serviceMonitor: { enabled: true } } }).catch(String)
    assert.include(String(failure), "metrics.serviceMonitor.enabled needs metrics.enabled")
  })

  it("knows every secret among the settings, and lets none be a value", async () => {
    const schema = JSON.parse(await fs.readFile(path.join(chart, "values.schema.json"), "utf8"))
    const refused: ReadonlyArray<string> = schema.properties.settings.propertyNames.not.enum
    const secrets = Object.entries(settingsTable).filter(([, { secret }]) => secret)
    assert.includeMembers(
      [...refused],
      secrets.map(([key]) => key.replaceAll(":", "__"))
    )
  })

  it("has the version of the service", async () => {
    const { appVersion, version } = parse(await fs.readFile(path.join(chart, "Chart.yaml"), "utf8"))
    const manifest = JSON.parse(await fs.readFile(path.join(root, "package.json"), "utf8"))
    assert.deepStrictEqual([appVersion, version], [manifest.version, manifest.version])
  })

  describe.each(Object.entries(variants))("%s", (_, values) => {
    it("makes objects of the types of Kubernetes", async () => {
      const objects = await rendered(values)
      assert.strictEqual(await faultsOf(objects), "")
      const wrong = structuredClone(ofKind(objects, "Deployment"))
      wrong.spec.template.spec.containers[0].livenesProbe = {}
      wrong.spec.replicas = "3"
      const faults = await faultsOf([wrong])
      assert.include(faults, "livenesProbe")
      assert.include(faults, "Type 'string' is not assignable to type 'number'")
    })

    it("names what exists: selectors, ports, accounts, secrets", async () => {
      const objects = await rendered(values)
      const { metadata, spec } = ofKind(objects, "Deployment")
      const { labels } = spec.template.metadata
      const [container] = spec.template.spec.containers
      assert.isTrue(matches(spec.selector.matchLabels, labels))
      const service = ofKind(objects, "Service")
      assert.isTrue(matches(service.spec.selector, labels))
      const ports = container.ports.map(({ name }: Manifest) => name)
      const served = service.spec.ports.map(({ name }: Manifest) => name)
      for (const { targetPort } of service.spec.ports) assert.include(ports, targetPort)
      for (const object of objects) {
        assert.isAtMost(object.metadata.name.length, 63)
        if (object.kind === "PodDisruptionBudget") assert.isTrue(matches(object.spec.selector.matchLabels, labels))
        if (object.kind === "NetworkPolicy") {
          const selected = podsOf(objects).filter((pod) =>
            matches(object.spec.podSelector.matchLabels, pod.metadata.labels)
          )
          assert.lengthOf(selected, 1, object.metadata.name)
        }
        if (object.kind === "HorizontalPodAutoscaler")
          assert.strictEqual(object.spec.scaleTargetRef.name, metadata.name)
        if (object.kind === "ServiceMonitor") {
          assert.isTrue(matches(object.spec.selector.matchLabels, service.metadata.labels))
          for (const { path: scraped, port } of object.spec.endpoints) {
            assert.include(served, port)
            assert.strictEqual(scraped, "/metrics")
          }
        }
        if (object.kind === "Ingress") {
          const { service: backend } = object.spec.rules[0].http.paths[0].backend
          assert.strictEqual(backend.name, service.metadata.name)
          assert.include(served, backend.port.name)
        }
      }
      for (const { spec: pod } of podsOf(objects)) {
        const volumes = pod.volumes.map(({ name }: Manifest) => name)
        const mounted = pod.containers[0].volumeMounts.map(({ name }: Manifest) => name)
        assert.sameMembers(mounted, volumes)
        const authorities = pod.containers[0].env.find(({ name }: Manifest) => name === "NODE_EXTRA_CA_CERTS")
        const mount = pod.containers[0].volumeMounts.find(({ name }: Manifest) => name === "certificate-authorities")
        assert.strictEqual(authorities?.value, mount && `${mount.mountPath}/ca.crt`)
      }
      // The Job of a hook runs before everything else of the chart exists.
      for (const { spec: pod } of podsOf(objects.filter(({ kind }) => kind === "Job"))) {
        assert.strictEqual(pod.serviceAccountName, "default")
      }
      const accounts = objects.filter(({ kind }) => kind === "ServiceAccount").map(({ metadata: { name } }) => name)
      assert.include([...accounts, "default"], spec.template.spec.serviceAccountName)
    })

    it("has room for the files of requests, and does not keep them in memory", async () => {
      const { spec } = ofKind(await rendered(values), "Deployment")
      const { emptyDir } = spec.template.spec.volumes.find(({ name }: Manifest) => name === "tmp")
      assert.isUndefined(emptyDir.medium)
      const mebibytes = Number(/^(\d+)Mi$/.exec(emptyDir.sizeLimit)?.[1])
      assert.isAbove(mebibytes * 2 ** 20, Number(settingsTable["Llm:Gateway:MaxUploadsBytes"]?.default))
    })

    it("probes routes of the API, and waits for the shutdown", async () => {
      const { spec } = ofKind(await rendered(values), "Deployment")
      const [container] = spec.template.spec.containers
      const paths = operations.filter(({ method }) => method === "GET").map((operation) => operation.path)
      for (const probe of ["startupProbe", "livenessProbe", "readinessProbe"]) {
        const { httpGet } = container[probe]
        assert.include(paths, httpGet.path)
        assert.strictEqual(httpGet.port, container.ports[0].name)
      }
      const secondsOf = (name: string) => Number(container.env.find((one: Manifest) => one.name === name).value)
      const pause = container.lifecycle?.preStop.sleep.seconds ?? 0
      assert.isAbove(
        spec.template.spec.terminationGracePeriodSeconds,
        pause + secondsOf("Api__DrainSeconds") + secondsOf("Api__ShutdownSeconds")
      )
    })

    it("sets settings of the service, and secrets from Secrets alone", async () => {
      const known = new Set(Object.keys(settingsTable).map((key) => key.replaceAll(":", "__")))
      const secrets = new Set(
        Object.keys(settingsTable)
          .filter((key) => settingsTable[key]?.secret)
          .map((key) => key.replaceAll(":", "__"))
      )
      for (const { spec } of podsOf(await rendered(values))) {
        const variables: ReadonlyArray<Manifest> = spec.containers[0].env
        const others = new Set(["APP_ENVIRONMENT", "NODE_EXTRA_CA_CERTS"])
        const names = variables.map(({ name }) => name).filter((name) => !others.has(name))
        assert.deepStrictEqual(
          names.filter((name) => !known.has(name)),
          []
        )
        assert.strictEqual(new Set(names).size, names.length)
        for (const { name, value, valueFrom } of variables) {
          if (secrets.has(name)) assert.isDefined(valueFrom?.secretKeyRef, name)
          else assert.isString(value, name)
        }
      }
    })

    it("runs pods as Kubernetes' profile `restricted` demands", async () => {
      const pods = podsOf(await rendered(values))
      assert.isNotEmpty(pods)
      for (const { spec } of pods) {
        assert.isTrue(spec.securityContext.runAsNonRoot)
        assert.strictEqual(spec.securityContext.seccompProfile.type, "RuntimeDefault")
        assert.isFalse(spec.automountServiceAccountToken)
        for (const { resources, securityContext } of spec.containers) {
          assert.deepInclude(securityContext, {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ["ALL"] }
          })
          assert.hasAllKeys(resources.requests, ["cpu", "memory"])
          assert.isDefined(resources.limits.memory)
        }
      }
    })
  })

  it("lets the Job reach the database before the other objects are made", async () => {
    const policy = (await rendered(everything)).find(
      ({ kind, metadata }) => kind === "NetworkPolicy" && metadata.name.endsWith("-migrate")
    )
    const job = ofKind(await rendered(everything), "Job")
    assert.strictEqual(policy?.metadata.annotations["helm.sh/hook"], job.metadata.annotations["helm.sh/hook"])
    assert.isBelow(Number(policy?.metadata.annotations["helm.sh/hook-weight"]), 0)
  })

  it("migrates before replicas start, as npm run migrate does, and these do not", async () => {
    const objects = await rendered()
    const job = ofKind(objects, "Job")
    assert.strictEqual(job.metadata.annotations["helm.sh/hook"], "pre-install,pre-upgrade")
    const { scripts } = JSON.parse(await fs.readFile(path.join(root, "package.json"), "utf8"))
    assert.strictEqual(job.spec.template.spec.containers[0].command.join(" "), scripts.migrate)
    assert.strictEqual(migrates(ofKind(objects, "Deployment")), "false")
    assert.strictEqual(migrates(ofKind(await rendered(off), "Deployment")), "false")
  })

  it("has the alert rules of deploy/prometheus", async () => {
    const { spec } = ofKind(await rendered(everything), "PrometheusRule")
    assert.deepStrictEqual(spec, parse(await fs.readFile(path.join(root, "deploy/prometheus/rules.yaml"), "utf8")))
  })

  it("runs as the user of the image, under whose number its files are", async () => {
    const dockerfile = await fs.readFile(path.join(root, "deploy/Dockerfile"), "utf8")
    const [, user] = /^USER (\d+):/m.exec(dockerfile) ?? []
    for (const { spec } of podsOf(await rendered())) assert.strictEqual(spec.securityContext.runAsUser, Number(user))
  })
})
