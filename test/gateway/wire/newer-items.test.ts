import { assert, layer } from "@effect/vitest"
import { Effect, Result, Schema } from "effect"
import { ResponseItem, ResponsesRequest } from "../../../src/gateway/formats/openai-responses/domain.ts"
import { responsesToChat } from "../../../src/gateway/formats/openai-responses/to-chat.ts"
import { configure, model, provider, readAll, spender } from "../../support/gateway.ts"
import { startProvider } from "../../support/provider.ts"
import { hasRecorded, readRecorded } from "../../support/recorded.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { anthropicVendor, openAiVendor } from "../../support/vendors.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- requests of every shape
type Any = any

const hello = { type: "message", role: "user", content: [{ type: "input_text", text: "Hello" }] }
const parameters = { type: "object", properties: { city: { type: "string" } } }
const weather = { type: "function", name: "weather", description: "The weather", parameters, strict: false }
const patch = { type: "custom", name: "patch", description: "Changes a file" }
const sea = {
  type: "namespace",
  name: "sea",
  description: "The sea",
  tools: [
    { type: "function", name: "tide", parameters, strict: false },
    { type: "function", name: "waves", parameters, strict: false }
  ]
}
const search = {
  type: "tool_search_call",
  call_id: "ts_1",
  execution: "client",
  status: "completed",
  arguments: { queries: ["weather"] }
}
const found = {
  type: "tool_search_output",
  call_id: "ts_1",
  execution: "client",
  status: "completed",
  tools: [weather]
}

/** Items that clients send besides messages, calls and results: by OpenAI's SDK, and by Codex. */
const others: ReadonlyArray<Any> = [
  { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "of another provider" },
  { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query: "noon" } },
  { type: "file_search_call", id: "fs_1", status: "completed", queries: ["noon"] },
  { type: "code_interpreter_call", id: "ci_1", status: "completed", code: "1", container_id: null },
  { type: "image_generation_call", status: "completed", result: "AA==" },
  { type: "computer_call", call_id: "cu_1", action: { type: "wait" } },
  { type: "computer_call_output", call_id: "cu_1", output: { type: "computer_screenshot" } },
  { type: "local_shell_call", call_id: "ls_1", status: "completed", action: { type: "exec", command: ["ls"] } },
  { type: "local_shell_call_output", output: "a" },
  { type: "shell_call", call_id: "sh_1", action: { commands: ["ls"] } },
  { type: "shell_call_output", call_id: "sh_1", output: [] },
  { type: "apply_patch_call", call_id: "ap_1", status: "completed", operation: { type: "delete_file", path: "a" } },
  { type: "apply_patch_call_output", call_id: "ap_1", status: "completed" },
  { type: "mcp_list_tools", server_label: "docs", tools: [] },
  { type: "mcp_call", name: "read", server_label: "docs", arguments: "{}" },
  { type: "mcp_approval_request", name: "read", server_label: "docs", arguments: "{}" },
  { type: "mcp_approval_response", approval_request_id: "mcpr_1", approve: true },
  { type: "program", code: "1", call_id: "p_1", fingerprint: "f" },
  { type: "program_output", call_id: "p_1", result: "1", status: "completed" },
  { type: "compaction", encrypted_content: "of another provider" },
  { type: "compaction_trigger" },
  { type: "context_compaction" },
  { type: "ghost_snapshot", ghost_commit: { id: "1" } },
  {
    type: "agent_message",
    author: "/root",
    recipient: "/root/a",
    content: [{ type: "encrypted_content", encrypted_content: "E" }]
  },
  { type: "of_next_year", payload: { deep: [1] } },
  { type: "a\r\nheader: x" },
  search
]

const namesIn = ({ tools = [] }: Any) => tools.map(({ function: called, name }: Any) => called?.name ?? name)

const allowed = (mode: string, ...tools: ReadonlyArray<object>) => ({ type: "allowed_tools", mode, tools })

const allowedInChat = (mode: string, ...names: ReadonlyArray<string>) => ({
  type: "allowed_tools",
  allowed_tools: { mode, tools: names.map((name) => ({ type: "function", function: { name } })) }
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("items of newer clients", (it) => {
  const setUp = Effect.gen(function* () {
    const service = yield* TestService
    const openai = yield* startProvider(openAiVendor)
    const anthropic = yield* startProvider(anthropicVendor)
    yield* configure(
      service,
      [provider("oa", openai), provider("an", anthropic, { dialect: "anthropic", baseUrl: anthropic.url })],
      [model("gpt", ["oa"]), model("claude", ["an"])]
    )
    const { key } = yield* spender(service, [{ limit: 1 }])
    const ask = Effect.fnUntraced(function* (name: string, body: object) {
      const answer = yield* readAll(service, key, "/v1/responses", { model: name, store: false, ...body })
      assert.strictEqual(answer.status, 200, answer.text)
      const sent = { gpt: openai, claude: anthropic }[name]?.requests.at(-1)?.body
      return { ...answer, output: JSON.parse(answer.text).output as ReadonlyArray<Any>, sent }
    })
    return { ask, service, key }
  })

  for (const name of ["gpt", "claude"]) {
    it.effect(`add their tools to those of a request to ${name}`, () =>
      Effect.gen(function* () {
        const { ask } = yield* setUp
        const tools = [sea, weather, patch]
        const added = { type: "additional_tools", role: "developer", tools }
        const { headers, output, sent } = yield* ask(name, { input: [added, hello] })
        assert.deepStrictEqual(namesIn(sent), ["sea__tide", "sea__waves", "weather", "patch"])
        assert.deepStrictEqual(
          output.map(({ name: called, namespace, type }) => [type, namespace, called]),
          [
            ["function_call", "sea", "tide"],
            ["function_call", "sea", "waves"],
            ["function_call", undefined, "weather"],
            ["custom_tool_call", undefined, "patch"]
          ]
        )
        assert.isNull(headers.get("x-omitted-items"))
        const chosen = { type: "function", name: "tide", namespace: "sea" }
        const forced = yield* ask(name, { input: [added, hello], tool_choice: chosen })
        assert.include(JSON.stringify(forced.sent.tool_choice), '"sea__tide"')
      }).pipe(Effect.scoped)
    )

    it.effect(`of a search among tools are read with an object as arguments, for ${name}`, () =>
      Effect.gen(function* () {
        const { ask } = yield* setUp
        // What was found was declared before, or not.
        for (const tools of [[], [{ ...weather, defer_loading: true }], [sea]]) {
          const { headers, sent } = yield* ask(name, { tools, input: [hello, search, found] })
          assert.include(namesIn(sent), "weather")
          assert.strictEqual(new Set(namesIn(sent)).size, namesIn(sent).length)
          assert.strictEqual(headers.get("x-omitted-items"), "tool_search_call")
        }
      }).pipe(Effect.scoped)
    )

    it.effect(`are words where they have any, for ${name}`, () =>
      Effect.gen(function* () {
        const { ask } = yield* setUp
        const agent = {
          type: "agent_message",
          author: "/root",
          recipient: "/root/a",
          content: [{ type: "input_text", text: "Check the rollback." }]
        }
        const input = [
          hello,
          agent,
          { type: "of_next_year", text: "A note." },
          { type: "memo", role: "developer", content: "Be kind." }
        ]
        const { headers, sent } = yield* ask(name, { input })
        for (const words of ["Hello", "Check the rollback.", "A note.", "Be kind."]) {
          assert.include(JSON.stringify(sent), words)
        }
        assert.isNull(headers.get("x-omitted-items"))
      }).pipe(Effect.scoped)
    )

    it.effect(`are left out and named where they have none, for ${name}`, () =>
      Effect.gen(function* () {
        const { ask } = yield* setUp
        for (const item of others) {
          const { headers, sent } = yield* ask(name, { input: [hello, item] })
          assert.lengthOf(sent.messages, 1)
          const named = headers.get("x-omitted-items")
          if (item.type === "reasoning") assert.isNull(named)
          else assert.strictEqual(named, /\s/.test(item.type) ? "other" : item.type)
        }
        const { headers } = yield* ask(name, { input: [hello, ...others, ...others], stream: false })
        assert.lengthOf(headers.get("x-omitted-items")?.split(", ") ?? [], 20)
      }).pipe(Effect.scoped)
    )
  }

  it.effect("are faults where their tools cannot be read", () =>
    Effect.gen(function* () {
      const { key, service } = yield* setUp
      for (const tools of ["x", [{ name: "f" }]]) {
        const input = [{ type: "additional_tools", tools }, hello]
        const { status, text } = yield* readAll(service, key, "/v1/responses", { model: "gpt", input })
        assert.strictEqual(status, 400, text)
        assert.strictEqual(JSON.parse(text).error.param, "input.0.tools")
      }
    }).pipe(Effect.scoped)
  )

  it.skipIf(!hasRecorded)("that were recorded are all read", () => {
    const recorded = readRecorded().flatMap(({ id, request }) =>
      Array.isArray(request?.input) ? [{ id, request }] : []
    )
    let read = 0
    for (const { id, request } of recorded) {
      const decoded = Schema.decodeUnknownResult(ResponsesRequest)({ model: "m", ...request })
      if (Result.isFailure(decoded)) continue
      const items = Schema.decodeUnknownSync(Schema.Array(ResponseItem))(request.input)
      const made = responsesToChat(decoded.success, items)
      const faults = Result.isFailure(made)
        ? made.failure.filter(({ path }) => path.at(-1) === "type" && path.length < 4)
        : []
      assert.deepStrictEqual(
        faults.filter(({ path }) => path[0] === "input"),
        [],
        id
      )
      read++
    }
    assert.isAbove(read, 50)
  })

  it.effect("tools that may not be called are not declared, in any direction", () =>
    Effect.gen(function* () {
      const { ask, key, service } = yield* setUp
      const tools = [weather, patch, sea]
      const cases: ReadonlyArray<readonly [choice: object, names: ReadonlyArray<string>]> = [
        [allowed("required", { type: "function", name: "weather" }), ["weather"]],
        [allowed("auto", { type: "custom", name: "patch" }), ["patch"]],
        [allowed("auto", { type: "function", name: "tide", namespace: "sea" }, { type: "web_search" }), ["sea__tide"]],
        [allowed("required", { type: "namespace", name: "sea" }), ["sea__tide", "sea__waves"]]
      ]
      for (const name of ["gpt", "claude"]) {
        for (const [tool_choice, names] of cases) {
          const { sent } = yield* ask(name, { input: [hello], tools, tool_choice, parallel_tool_calls: false })
          assert.deepStrictEqual(namesIn(sent), names)
          const choice = sent.tool_choice.type ?? sent.tool_choice
          const isRequired = (tool_choice as Any).mode === "required"
          assert.strictEqual(choice, isRequired ? (name === "gpt" ? "required" : "any") : "auto")
          if (name === "gpt") assert.isFalse(sent.parallel_tool_calls)
          else assert.isTrue(sent.tool_choice.disable_parallel_tool_use)
        }
        const nothing = yield* ask(name, { input: [hello], tools, tool_choice: allowed("auto") })
        assert.strictEqual(nothing.sent.tool_choice.type ?? nothing.sent.tool_choice, "none")
        const none = yield* ask(name, { input: [hello], tools, tool_choice: "none" })
        assert.strictEqual(none.sent.tool_choice.type ?? none.sent.tool_choice, "none")
        const body = {
          model: name,
          input: [hello],
          tools,
          tool_choice: allowed("required", { type: "function", name: "x" })
        }
        const { status, text } = yield* readAll(service, key, "/v1/responses", body)
        assert.deepStrictEqual([status, JSON.parse(text).error.param], [400, "tool_choice.tools"])
      }
    }).pipe(Effect.scoped)
  )

  it.effect("a chat that allows some tools declares no others to Claude", () =>
    Effect.gen(function* () {
      const { key, service } = yield* setUp
      const anthropic = yield* startProvider(anthropicVendor)
      yield* configure(
        service,
        [provider("an", anthropic, { dialect: "anthropic", baseUrl: anthropic.url })],
        [model("claude", ["an"])]
      )
      const tools = ["weather", "tide", "waves"].map((name) => ({ type: "function", function: { name, parameters } }))
      const ask = (tool_choice: unknown, members: object = {}) => {
        const messages = [{ role: "user", content: "Hi" }]
        const body = { model: "claude", messages, tools, tool_choice, reasoning_effort: "low", ...members }
        return readAll(service, key, "/v1/chat/completions", body)
      }
      for (const [mode, type] of [
        ["auto", "auto"],
        ["required", "any"]
      ] as const) {
        const { status, text } = yield* ask(allowedInChat(mode, "tide", "weather"), { parallel_tool_calls: false })
        assert.strictEqual(status, 200, text)
        const sent = anthropic.requests.at(-1)?.body
        assert.deepStrictEqual(namesIn(sent), ["weather", "tide"])
        assert.deepStrictEqual(sent.tool_choice, { type, disable_parallel_tool_use: true })
      }
      yield* ask(allowedInChat("auto"))
      assert.deepStrictEqual(anthropic.requests.at(-1)?.body.tool_choice, { type: "none" })
      const { status, text } = yield* ask(allowedInChat("required", "nope"))
      assert.strictEqual(status, 400)
      assert.strictEqual(JSON.parse(text).error.param, "tool_choice.allowed_tools")
    }).pipe(Effect.scoped)
  )
})
