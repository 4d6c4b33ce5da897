import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Record, Scope } from "effect"
import { spawn } from "node:child_process"
import * as fs from "node:fs/promises"
import * as os from "node:os"
import * as path from "node:path"
import { type CommandLineName, servedBy } from "../support/client-features.ts"
import { charges, configure, model, prices, provider, spender } from "../support/gateway.ts"
import { type Answerer, json, type ProviderStandIn, sse, startProvider } from "../support/provider.ts"
import {
  cities,
  conclusion,
  loopPrices,
  question,
  type ScriptedVendor,
  scriptedVendors,
  turnCostNanoUsd,
  wholeTurns
} from "../support/scripted-vendors.ts"
import { serviceLayer, TestService } from "../support/service.ts"

/** They weigh 770 MB together, so that they are installed for this test alone. */
const packages = { codex: "@openai/codex@0.169.0", claude: "@anthropic-ai/claude-code@2.1.197" }

const usage = { prompt_tokens: 1000, completion_tokens: 50, total_tokens: 1050 }
/** At the prices of the test's models. */
const costNanoUsd = 1000 * 2000 + 50 * 10_000

/** The arguments with which each client's own shell prints a word, by the name of the tool. */
const shells: Readonly<Record<string, object>> = {
  exec_command: { cmd: "echo from-the-tool" },
  shell: { command: ["echo", "from-the-tool"] },
  shell_command: { command: "echo from-the-tool" },
  Bash: { command: "echo from-the-tool", description: "Print a word" }
}

const answerTo = (printed: unknown) =>
  `The tool printed: ${JSON.stringify(printed).match(/from-the-tool/)?.[0] ?? "nothing"}.`
const shellOf = (names: ReadonlyArray<string>) => names.find((name) => Object.hasOwn(shells, name))

interface Named {
  readonly type: string
  readonly [member: string]: unknown
}
const named = (events: ReadonlyArray<Named>) =>
  events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)

/** The same model as the three below, of each kind of provider: it calls the client's shell, and repeats what it printed. */
const callingShell: Answerer = ({ body }, response) => {
  const last = body.messages.at(-1)
  const names: ReadonlyArray<string> = (body.tools ?? []).map(
    (tool: { function: { name: string } }) => tool.function.name
  )
  const shell = shellOf(names)
  const isCall = last.role !== "tool" && shell !== undefined
  const message = isCall
    ? {
        tool_calls: [
          {
            index: 0,
            id: "call_1",
            type: "function",
            function: { name: shell, arguments: JSON.stringify(shells[shell]) }
          }
        ]
      }
    : { content: answerTo(last.content) }
  const finish_reason = isCall ? "tool_calls" : "stop"
  const head = { id: "c", created: 1, model: body.model }
  if (body.stream !== true) {
    return json(response, 200, {
      ...head,
      choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason }],
      usage
    })
  }
  sse(response, [
    { ...head, choices: [{ index: 0, delta: { role: "assistant", ...message }, finish_reason: null }] },
    { ...head, choices: [{ index: 0, delta: {}, finish_reason }] },
    { ...head, choices: [], usage },
    "data: [DONE]\n\n"
  ])
  response.end()
}

const responsesShell: Answerer = ({ body }, response) => {
  const last = body.input.at(-1)
  const shell = shellOf((body.tools ?? []).map(({ name }: { readonly name?: string }) => name ?? ""))
  const isCall = !String(last.type).endsWith("_output") && shell !== undefined
  const item = isCall
    ? {
        type: "function_call",
        id: "fc_1",
        call_id: "call_1",
        name: shell,
        arguments: JSON.stringify(shells[shell]),
        status: "completed"
      }
    : {
        type: "message",
        id: "msg_1",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text: answerTo(last.output), annotations: [] }]
      }
  const whole = {
    id: "resp_1",
    object: "response",
    created_at: 1,
    model: body.model,
    status: "completed",
    output: [item],
    usage: {
      input_tokens: usage.prompt_tokens,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: usage.completion_tokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: usage.total_tokens
    }
  }
  if (body.stream !== true) return json(response, 200, whole)
  sse(
    response,
    named([
      { type: "response.created", sequence_number: 0, response: { ...whole, status: "in_progress", output: [] } },
      { type: "response.output_item.added", sequence_number: 1, output_index: 0, item },
      { type: "response.output_item.done", sequence_number: 2, output_index: 0, item },
      { type: "response.completed", sequence_number: 3, response: whole }
    ])
  )
  response.end()
}

const messagesShell: Answerer = ({ body }, response) => {
  const last = body.messages.at(-1)
  const shell = shellOf((body.tools ?? []).map(({ name }: { readonly name: string }) => name))
  const isCall = !JSON.stringify(last.content).includes("tool_result") && shell !== undefined
  const block = isCall
    ? { type: "tool_use", id: "toolu_1", name: shell, input: shells[shell] }
    : { type: "text", text: answerTo(last.content) }
  const told = { input_tokens: usage.prompt_tokens, output_tokens: usage.completion_tokens }
  const stop = { stop_reason: isCall ? "tool_use" : "end_turn", stop_sequence: null }
  const head = { id: "msg_1", type: "message", role: "assistant", model: body.model }
  if (body.stream !== true) return json(response, 200, { ...head, content: [block], ...stop, usage: told })
  const empty = isCall ? { ...block, input: {} } : { ...block, text: "" }
  const delta =
    "text" in block
      ? { type: "text_delta", text: block.text }
      : { type: "input_json_delta", partial_json: JSON.stringify(block.input) }
  sse(
    response,
    named([
      {
        type: "message_start",
        message: {
          ...head,
          content: [],
          stop_reason: null,
          stop_sequence: null,
          usage: { ...told, output_tokens: 1 }
        }
      },
      { type: "content_block_start", index: 0, content_block: empty },
      { type: "content_block_delta", index: 0, delta },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: stop, usage: told },
      { type: "message_stop" }
    ])
  )
  response.end()
}

const run = (command: string, parameters: ReadonlyArray<string>, cwd: string, env: NodeJS.ProcessEnv) =>
  Effect.callback<string>((resume) => {
    const child = spawn(command, parameters, {
      cwd,
      stdio: ["ignore", "pipe", "pipe"],
      env
    })
    const output: Array<string> = []
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => output.push(String(text)))
    child.once("error", (error) => resume(Effect.die(error)))
    child.once("close", (code) =>
      resume(
        code === 0 ? Effect.succeed(output.join("")) : Effect.die(new Error(`${command}: ${code} ${output.join("")}`))
      )
    )
    return Effect.sync(() => child.kill("SIGKILL"))
  })

/** An environment without the settings of whoever runs the tests. */
const clean = (home: string) => ({ PATH: process.env.PATH, HOME: home })

const directory = Effect.acquireRelease(
  Effect.promise(() => fs.mkdtemp(path.join(os.tmpdir(), "application-manager-clients-"))),
  (made) => Effect.promise(() => fs.rm(made, { recursive: true, force: true }))
)

/** What stands behind the gateway, of each kind of provider. */
const behind: Readonly<
  Record<keyof typeof servedBy, { readonly answer: Answerer; of(standIn: ProviderStandIn): { readonly id: string } }>
> = {
  gpt: { answer: callingShell, of: (standIn) => provider("p", standIn) },
  claude: { answer: messagesShell, of: ({ url }) => ({ id: "p", dialect: "anthropic", baseUrl: url }) },
  "o-native": { answer: responsesShell, of: (standIn) => provider("p", standIn, { apis: ["responses"] }) }
}

const installed = (client: keyof typeof packages) =>
  Effect.gen(function* () {
    const folder = yield* directory
    const install = ["install", "--prefix", folder, "--no-audit", "--no-fund", packages[client]]
    yield* run("npm", install, folder, process.env)
    return path.join(folder, "node_modules", ".bin", client)
  })

/** The paths of the clients' programs, each installed when it is first asked for. */
class Programs extends Context.Service<Programs, Readonly<Record<keyof typeof packages, Effect.Effect<string>>>>()(
  "test/Programs"
) {
  static readonly layer = Layer.effect(
    Programs,
    Effect.gen(function* () {
      const scope = yield* Effect.scope
      const once = (client: keyof typeof packages) => Effect.cached(Scope.provide(installed(client), scope))
      return Programs.of({ codex: yield* once("codex"), claude: yield* once("claude") })
    })
  )
}

/** Connects a client to a service whose models are of one provider. */
const setUp = Effect.fnUntraced(function* (
  client: keyof typeof packages,
  answer: Answerer,
  providerAt: (standIn: ProviderStandIn) => { readonly id: string },
  members: object
) {
  const service = yield* TestService
  const program = yield* (yield* Programs)[client]
  const standIn = yield* startProvider(answer)
  const served = providerAt(standIn)
  yield* configure(
    service,
    [served],
    [model("gpt-5.5", [served.id], { aliases: ["claude-sonnet-5"], contextTokens: 50_000, ...members })]
  )
  const home = yield* directory
  return { service, standIn, home, program, ...(yield* spender(service, [{ limit: 1 }])) }
})

/** Codex offers the search of its provider in every request, and a hard cap admits no tool of an unknown fee. */
const toolUses = { webSearch: 0.01 }

const behindIt = (client: keyof typeof packages, way: keyof typeof servedBy) =>
  setUp(client, behind[way].answer, behind[way].of, { prices: { ...prices, toolUses } })

const withVendor = (client: keyof typeof packages, id: string, vendor: ScriptedVendor) =>
  setUp(client, vendor.answer, ({ url }) => ({ id, ...vendor.provider(url) }), {
    prices: { ...loopPrices, toolUses },
    targets: [{ provider: id, model: (client === "claude" ? vendor.modelOfClaudeCode : undefined) ?? vendor.model }]
  })

const twoCalls = Array.from({ length: 2 }, () => ({
  amount: String(costNanoUsd),
  state: "settled",
  method: "provider_usage"
}))

type Prepared = Effect.Success<ReturnType<typeof setUp>>

const runCodex = ({ home, key, program, service }: Prepared, task: string, members = "") =>
  Effect.gen(function* () {
    const settings = `
model = "gpt-5.5"
model_provider = "gateway"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.gateway]
name = "gateway"
base_url = "${service.url}/v1"
env_key = "GATEWAY_KEY"
wire_api = "responses"
${members}
`
    yield* Effect.promise(() => fs.writeFile(path.join(home, "config.toml"), settings))
    return yield* run(program, ["exec", "--skip-git-repo-check", task], home, {
      ...clean(home),
      CODEX_HOME: home,
      GATEWAY_KEY: key
    })
  })

/** How many WebSockets were opened, and how many requests for responses were answered. */
const answered = (service: TestService["Service"]) =>
  Effect.map(service.call("GET", "/metrics"), ({ text }) => {
    const counts = text.matchAll(
      /^http_server_request_duration_seconds_count\{http_request_method="(\w+)",http_route="\/v1\/responses",http_response_status_code="(\d+)"\} (\d+)$/gm
    )
    return Object.fromEntries([...counts].map(([, method, status, count]) => [`${method} ${status}`, Number(count)]))
  })

/** How each client runs a task, connected as its own documentation says. */
const tasks: Readonly<
  Record<
    CommandLineName,
    {
      readonly package: keyof typeof packages
      run(prepared: Prepared, task: string): Effect.Effect<string>
    }
  >
> = {
  Codex: { package: "codex", run: (prepared, task) => runCodex(prepared, task) },
  "Claude Code": {
    package: "claude",
    run: ({ home, key, program, service }, task) =>
      run(program, ["-p", task, "--dangerously-skip-permissions"], home, {
        ...clean(home),
        ANTHROPIC_BASE_URL: service.url,
        ANTHROPIC_AUTH_TOKEN: key,
        ANTHROPIC_MODEL: "claude-sonnet-5",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
        // It refuses to run without questions as root, unless it is told that nothing is at risk.
        IS_SANDBOX: "1"
      })
  }
}

layer(Layer.merge(serviceLayer(), Programs.layer), { excludeTestServices: true, timeout: "240 seconds" })(
  "command-line clients",
  (it) => {
    for (const way of Record.keys(behind)) {
      it.effect(`Codex runs a task with a tool on a WebSocket behind ${servedBy[way]}, and is charged exactly`, () =>
        Effect.gen(function* () {
          const prepared = yield* behindIt("codex", way)
          const before = yield* answered(prepared.service)
          const said = yield* runCodex(prepared, "Print a word.", "supports_websockets = true")
          assert.include(said, "The tool printed: from-the-tool.")
          assert.deepStrictEqual(yield* charges(prepared.service, prepared.tenantId), twoCalls)
          const after = yield* answered(prepared.service)
          // One socket has all turns, and those that say nothing in advance, which cost nothing.
          assert.strictEqual((after["GET 101"] ?? 0) - (before["GET 101"] ?? 0), 1)
          assert.isAtLeast((after["POST 200"] ?? 0) - (before["POST 200"] ?? 0), 3)
        }).pipe(Effect.scoped)
      )
    }
    for (const [name, task] of Record.toEntries(tasks)) {
      for (const [way, api] of Record.toEntries(servedBy)) {
        it.effect(`${name} runs a task with a tool behind ${api}, and is charged exactly`, () =>
          Effect.gen(function* () {
            const prepared = yield* behindIt(task.package, way)
            assert.include(yield* task.run(prepared, "Print a word."), "The tool printed: from-the-tool.")
            assert.deepStrictEqual(yield* charges(prepared.service, prepared.tenantId), twoCalls)
          }).pipe(Effect.scoped)
        )
      }
      for (const [id, vendor] of Object.entries(scriptedVendors)) {
        it.effect(`${name} calls a tool twice with ${id} behind, and is charged exactly`, () =>
          Effect.gen(function* () {
            const prepared = yield* withVendor(task.package, id, vendor)
            assert.include(yield* task.run(prepared, question), conclusion)
            assert.isTrue(wholeTurns(vendor, prepared.standIn.requests))
            const charge = { amount: String(turnCostNanoUsd), state: "settled", method: "provider_usage" }
            assert.deepStrictEqual(
              yield* charges(prepared.service, prepared.tenantId),
              Array.from({ length: cities.length + 1 }, () => charge)
            )
          }).pipe(Effect.scoped)
        )
      }
    }
  }
)

layer(Layer.merge(serviceLayer({ Api__WebSockets__Enabled: "false" }), Programs.layer), {
  excludeTestServices: true,
  timeout: "240 seconds"
})("where WebSockets are refused", (it) => {
  it.effect("Codex goes on by HTTP, and is charged exactly", () =>
    Effect.gen(function* () {
      const prepared = yield* behindIt("codex", "gpt")
      const before = yield* answered(prepared.service)
      const said = yield* runCodex(prepared, "Print a word.", "supports_websockets = true")
      assert.include(said, "The tool printed: from-the-tool.")
      assert.deepStrictEqual(yield* charges(prepared.service, prepared.tenantId), twoCalls)
      const after = yield* answered(prepared.service)
      assert.strictEqual(after["GET 101"], before["GET 101"])
      assert.isAtLeast((after["GET 426"] ?? 0) - (before["GET 426"] ?? 0), 1)
      assert.strictEqual((after["POST 200"] ?? 0) - (before["POST 200"] ?? 0), 2)
    }).pipe(Effect.scoped)
  )
})
