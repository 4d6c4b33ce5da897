import { assert, layer } from "@effect/vitest"
import { Effect, Record } from "effect"
import { spawn } from "node:child_process"
import * as fs from "node:fs/promises"
import * as os from "node:os"
import * as path from "node:path"
import { type CommandLineName } from "../support/client-features.ts"
import { charges, configure, model, provider, spender } from "../support/gateway.ts"
import { type Answerer, json, sse, startProvider } from "../support/provider.ts"
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

/** A model that calls the client's shell, and repeats what it printed. */
const callingShell: Answerer = ({ body }, response) => {
  const last = body.messages.at(-1)
  const names: ReadonlyArray<string> = (body.tools ?? []).map(
    (tool: { function: { name: string } }) => tool.function.name
  )
  const shell = names.find((name) => Object.hasOwn(shells, name))
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
    : { content: `The tool printed: ${JSON.stringify(last.content).match(/from-the-tool/)?.[0] ?? "nothing"}.` }
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

const setUp = Effect.fnUntraced(function* (client: keyof typeof packages) {
  const service = yield* TestService
  const standIn = yield* startProvider(callingShell)
  yield* configure(service, [provider("p", standIn)], [model("gpt-5.5", ["p"], { aliases: ["claude-sonnet-5"] })])
  const home = yield* directory
  yield* run("npm", ["install", "--prefix", home, "--no-audit", "--no-fund", packages[client]], home, process.env)
  return {
    service,
    home,
    program: path.join(home, "node_modules", ".bin", client),
    ...(yield* spender(service, [{ limit: 1 }]))
  }
})

const twoCalls = Array.from({ length: 2 }, () => ({
  amount: String(costNanoUsd),
  state: "settled",
  method: "provider_usage"
}))

type Prepared = Effect.Success<ReturnType<typeof setUp>>

/** How each client runs a task, connected as its own documentation says. */
const tasks: Readonly<
  Record<CommandLineName, { readonly package: keyof typeof packages; run(prepared: Prepared): Effect.Effect<string> }>
> = {
  Codex: {
    package: "codex",
    run: ({ home, key, program, service }) =>
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
`
        yield* Effect.promise(() => fs.writeFile(path.join(home, "config.toml"), settings))
        return yield* run(program, ["exec", "--skip-git-repo-check", "Print a word."], home, {
          ...clean(home),
          CODEX_HOME: home,
          GATEWAY_KEY: key
        })
      })
  },
  "Claude Code": {
    package: "claude",
    run: ({ home, key, program, service }) =>
      run(program, ["-p", "Print a word.", "--dangerously-skip-permissions"], home, {
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

layer(serviceLayer(), { excludeTestServices: true, timeout: "120 seconds" })("command-line clients", (it) => {
  for (const [name, task] of Record.toEntries(tasks)) {
    it.effect(`${name} runs a task with a tool, and is charged exactly`, () =>
      Effect.gen(function* () {
        const prepared = yield* setUp(task.package)
        assert.include(yield* task.run(prepared), "The tool printed: from-the-tool.")
        assert.deepStrictEqual(yield* charges(prepared.service, prepared.tenantId), twoCalls)
      }).pipe(Effect.scoped)
    )
  }
})
