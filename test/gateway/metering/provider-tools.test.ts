import { assert, describe, it as plain, layer } from "@effect/vitest"
import { Effect } from "effect"
import { inputWithTools, toolLimits } from "../../../src/gateway/formats/provider-tools.ts"
import { ToolUseReader } from "../../../src/gateway/metering/tool-uses.ts"
import { knownModel, providerToolsOf } from "../../support/formats.ts"
import { asks, configure, model, provider, spender, usageRows } from "../../support/gateway.ts"
import { type Answerer, json, sse, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { eventually } from "../../support/waiting.ts"

const fees = { webSearch: 10n, codeExecution: 50n, fileSearch: 2n, imageGeneration: 250n }

const mcp = { type: "mcp", server_label: "a", server_url: "https://mcp.example/a" }
const allowing = { models: [], mcpServers: [[{ urlPrefix: "https://mcp.example/", maxSteps: 4 }]] }
const refusedPaths = (body: object, api: "chat" | "messages" | "responses", terms: object = {}) =>
  providerToolsOf({ ...body }, api, { ...allowing, ...terms }).unbounded.map(({ path }) => path.join("."))

const limitsOf = (body: object, api: "chat" | "messages" | "responses") => {
  const { tools } = providerToolsOf({ ...body }, api, allowing)
  if (tools === undefined) return undefined
  const { limit, maxFees, uses } = toolLimits(tools, 5)
  return [uses, limit, maxFees(fees)]
}

describe("the bound of tools that a provider runs", () => {
  plain("counts the limit of the request, or else the one that is sent", () => {
    const search = { type: "web_search_20250305", name: "web_search" }
    const code = { type: "code_execution_20250825", name: "code_execution" }
    const fetching = { type: "web_fetch_20250910", name: "web_fetch", max_uses: 3 }
    const cases: ReadonlyArray<readonly [object, "chat" | "messages" | "responses", unknown]> = [
      [{ tools: [{ name: "mine", input_schema: {} }] }, "messages", undefined],
      [{ tools: [search] }, "messages", [5, 5, 50n]],
      [{ tools: [{ ...search, max_uses: 2 }] }, "messages", [2, undefined, 20n]],
      [{ tools: [search, fetching] }, "messages", [8, 5, 50n]],
      // All code runs in one container, free of charge beside a search of the newer versions.
      [{ tools: [code] }, "messages", [10, undefined, 50n]],
      [{ tools: [code, { ...search, type: "web_search_20260209" }] }, "messages", [15, 5, 50n]],
      [{ tools: [{ type: "mcp_toolset" }], mcp_servers: [{}] }, "messages", [10, undefined, 0n]],
      // Tools without a limit share the steps of a turn.
      [{ tools: [code, search], mcp_servers: [{}, {}] }, "messages", [15, 5, 100n]],
      [{ web_search_options: {} }, "chat", [1, undefined, 10n]],
      [{ tools: [{ type: "web_search" }, { type: "file_search" }] }, "responses", [5, 5, 50n]],
      [{ tools: [{ type: "web_search" }, mcp], max_tool_calls: 3 }, "responses", [3, undefined, 30n]],
      // The operator's limit is sent where it is below the usual one.
      [{ tools: [mcp] }, "responses", [4, 4, 0n]],
      // Wherever tools stand.
      [{ input: [{ type: "additional_tools", tools: [{ type: "web_search" }] }] }, "responses", [5, 5, 50n]],
      [{ input: [{ type: "tool_search_output", tools: [{ type: "file_search" }] }] }, "responses", [5, 5, 10n]],
      [{ tools: [{ type: "namespace", tools: [{ type: "image_generation" }] }] }, "responses", [5, 5, 1250n]],
      [{ messages: [{ content: [{ type: "tool_addition", tool: search }] }] }, "messages", [5, 5, 50n]],
      [{ tools: [{ type: "shell", environment: { type: "container_auto" } }] }, "responses", [5, 5, 250n]],
      [{ tools: [{ type: "shell", environment: { type: "local" } }] }, "responses", undefined],
      [{ tools: [{ type: "tool_search", execution: "client" }] }, "responses", undefined]
    ]
    for (const [body, api, expected] of cases)
      assert.deepStrictEqual(limitsOf(body, api), expected, JSON.stringify(body))
  })

  plain("is none for what the caller decides, or for what nobody knows the fee of", () => {
    const search = { type: "web_search_20250305", name: "web_search" }
    const large = { memory_limit: "4g" }
    const elsewhere = { ...mcp, server_url: "https://mcp.example.evil.test/a" }
    const cases: ReadonlyArray<readonly [object, "chat" | "messages" | "responses", ReadonlyArray<string>]> = [
      [{ tools: [{ ...search, max_uses: 1e9 }] }, "messages", ["tools.0"]],
      [{ tools: [mcp], max_tool_calls: 5 }, "responses", ["max_tool_calls"]],
      [{ tools: [mcp, elsewhere] }, "responses", ["tools.1"]],
      [{ tools: [{ ...mcp, connector_id: "connector_gmail" }] }, "responses", ["tools.0"]],
      [{ tools: [{ ...mcp, tunnel_id: "t" }] }, "responses", ["tools.0"]],
      [{ tools: [{ ...mcp, server_url: "https://mcp.example@evil.test/" }] }, "responses", ["tools.0"]],
      [{ tools: [{ ...mcp, server_url: "https://a:b@mcp.example/" }] }, "responses", ["tools.0"]],
      [{ tools: [{ ...mcp, server_url: "http://mcp.example/a" }] }, "responses", ["tools.0"]],
      [{ input: [{ type: "additional_tools", tools: [elsewhere] }] }, "responses", ["input.0.tools.0"]],
      [{ input: [{ type: "tool_search_output", tools: [elsewhere] }] }, "responses", ["input.0.tools.0"]],
      [{ tools: [{ type: "namespace", tools: [{ type: "x_search" }] }] }, "responses", ["tools.0.tools.0"]],
      [{ tools: [{ type: "code_interpreter", container: large }] }, "responses", ["tools.0"]],
      [{ tools: [{ type: "shell", environment: { type: "container_auto", ...large } }] }, "responses", ["tools.0"]],
      [{ tools: [{ type: "function_of_ours" }] }, "responses", ["tools.0"]],
      [{ mcp_servers: [{ type: "url", url: "https://evil.test/" }] }, "messages", ["mcp_servers.0"]],
      [{ mcp_servers: [{ type: "url", url: "https://evil.test/" }] }, "chat", ["mcp_servers.0"]],
      [{ tools: [{ type: "advisor_20260301" }] }, "messages", ["tools.0"]],
      [
        {
          messages: [
            {
              content: [
                { type: "compaction", tool_changes: [{ type: "tool_addition", tool: { type: "advisor_20260301" } }] }
              ]
            }
          ]
        },
        "messages",
        ["messages.0.content.0.tool_changes.0.tool"]
      ],
      [{ tools: [{ type: "builtin_function", function: { name: "$web_search" } }] }, "chat", ["tools.0"]],
      [{ tools: [{ type: "bash_20250124" }, { type: "computer_toolset_20260801" }] }, "messages", []]
    ]
    for (const [body, api, expected] of cases) {
      assert.deepStrictEqual(refusedPaths(body, api), expected, JSON.stringify(body))
    }
    for (const model of ["perplexity/sonar-pro", "openai/gpt-4o:online", "o3-deep-research", "groq/compound-mini"]) {
      assert.deepStrictEqual(refusedPaths({}, "chat", { models: [knownModel(model)] }), ["model"], model)
    }
    // Every target has to allow a server.
    const { mcpServers } = allowing
    assert.deepStrictEqual(refusedPaths({ tools: [mcp] }, "responses", { mcpServers: [...mcpServers, []] }), [
      "tools.0"
    ])
    assert.deepStrictEqual(
      refusedPaths({ tools: [mcp] }, "responses", { mcpServers: [...mcpServers, ...mcpServers] }),
      []
    )
  })

  plain("has the model read the conversation again after each use, and never more than its context", () => {
    const limits = { maxSteps: 10, uses: 3 }
    assert.strictEqual(inputWithTools(100, limits, 10, null), 100 + 110 + 120 + 130)
    assert.strictEqual(inputWithTools(100, limits, 10, 115), 100 + 110 + 115 + 115)
    assert.strictEqual(inputWithTools(100, limits, Infinity, 500), 100 + 3 * 500)
    // Two uses in one step.
    assert.strictEqual(inputWithTools(100, { ...limits, maxSteps: 2 }, 10, null), 100 + 120 + 130)
  })
})

const item = (type: string, id: string, members: object = {}) => ({ type, id, ...members })
const block = (id: string) => ({
  type: "content_block_start",
  content_block: { type: "server_tool_use", id, name: "web_search" }
})

const used = ({ tools }: Partial<ReturnType<typeof providerToolsOf>>, events: ReadonlyArray<unknown>) => {
  const reader = new ToolUseReader(tools)
  for (const event of events) reader.read(event)
  return reader.uses
}

describe("the uses that an answer reports", () => {
  plain("are the provider's own count, or else what the answer contains, once", () => {
    const all = {
      tools: ["web_search", "code_interpreter", "file_search", "image_generation"].map((type) => ({ type }))
    }
    const responses = providerToolsOf(all, "responses")
    const search = item("web_search_call", "ws_1", { action: { type: "search" } })
    const opened = item("web_search_call", "ws_2", { action: { type: "open_page" } })
    const code = item("code_interpreter_call", "ci_1", { container_id: "c_1" })
    const again = item("code_interpreter_call", "ci_2", { container_id: "c_1" })
    const image = item("image_generation_call", "ig_1")
    assert.deepStrictEqual(
      used(responses, [
        { type: "response.output_item.added", item: item("web_search_call", "ws_1") },
        { type: "response.output_item.added", item: item("web_search_call", "ws_2") },
        { type: "response.output_item.done", item: search },
        { type: "response.output_item.done", item: opened },
        { type: "response.completed", response: { output: [search, opened, code, again, image] } }
      ]),
      { webSearch: 1, codeExecution: 1, imageGeneration: 1 }
    )
    const messages = providerToolsOf({ tools: [{ type: "web_search_20250305" }] }, "messages")
    const begun = { type: "message_start", message: { usage: { server_tool_use: { web_search_requests: 0 } } } }
    assert.deepStrictEqual(used(messages, [begun, block("1"), block("2")]), { webSearch: 2 })
    const counted = { type: "message_delta", usage: { server_tool_use: { web_search_requests: 1 } } }
    assert.deepStrictEqual(used(messages, [begun, block("1"), block("2"), counted]), { webSearch: 1 })
    assert.isUndefined(used(messages, [begun]))
    const chat = providerToolsOf({ web_search_options: {} }, "chat")
    assert.deepStrictEqual(used(chat, [{ choices: [{ delta: { content: "Hi" } }] }]), { webSearch: 1 })
    assert.isUndefined(used(chat, []))
  })

  plain("count whether or not the request declares them, unless they are free in it", () => {
    const answers: ReadonlyArray<readonly [object, object | undefined]> = [
      [{ choices: [{}], usage: { server_tool_use: { web_search_requests: 3 } } }, { webSearch: 3 }],
      [{ choices: [{}], usage: { num_search_queries: 2 } }, { webSearch: 2 }],
      [{ choices: [{ message: { annotations: [{ type: "url_citation" }] } }] }, { webSearch: 1 }],
      [{ output: [item("file_search_call", "fs")] }, { fileSearch: 1 }],
      [{ output: [item("shell_call", "s", { environment: { type: "local" } })] }, undefined],
      [
        { output: [item("shell_call", "s", { environment: { type: "container_reference", container_id: "c" } })] },
        { codeExecution: 1 }
      ],
      [{ content: [{ type: "server_tool_use", id: "1", name: "bash_code_execution" }] }, { codeExecution: 1 }]
    ]
    for (const [answer, expected] of answers)
      assert.deepStrictEqual(used({}, [answer]), expected, JSON.stringify(answer))
    const free = { tools: [{ type: "web_search_20260209" }, { type: "code_execution_20260120" }] }
    const code = { content: [{ type: "server_tool_use", id: "1", name: "code_execution" }] }
    assert.isUndefined(used(providerToolsOf(free, "messages"), [code]))
  })
})

const toolFees = { webSearch: 0.01, codeExecution: 0.05 }
const priced = { inputUsdPerMTok: 2, outputUsdPerMTok: 10, toolUses: toolFees }
const searching = { type: "web_search_20250305", name: "web_search" }

const messageUsage = { input_tokens: 100, output_tokens: 20, server_tool_use: { web_search_requests: 2 } }
const event = (type: string, members: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`

/** Searches twice, whatever it is asked. */
const searches: Answerer = ({ body }, response) => {
  if (body.stream !== true) {
    const content = [{ type: "text", text: "Noon." }]
    return json(response, 200, {
      id: "m",
      type: "message",
      role: "assistant",
      content,
      stop_reason: "end_turn",
      usage: messageUsage
    })
  }
  sse(response, [
    event("message_start", {
      message: { id: "m", usage: { input_tokens: 40, output_tokens: 1, server_tool_use: null } }
    }),
    event("content_block_start", { index: 0, content_block: { type: "server_tool_use", id: "s", name: "web_search" } }),
    event("content_block_stop", { index: 0 }),
    event("content_block_start", { index: 1, content_block: { type: "text", text: "Noon." } }),
    event("content_block_stop", { index: 1 }),
    event("message_delta", { delta: { stop_reason: "end_turn" }, usage: messageUsage }),
    event("message_stop", {})
  ])
  response.end()
}
/** Completes with an annotation of what was found. */
const annotates: Answerer = ({ body }, response) => {
  const usage = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 }
  const said = { content: "Noon.", annotations: [{ type: "url_citation" }] }
  if (body.stream !== true) return json(response, 200, { choices: [{ message: said, finish_reason: "stop" }], usage })
  sse(response, [
    { choices: [{ index: 0, delta: said, finish_reason: "stop" }] },
    { choices: [], usage },
    "data: [DONE]\n\n"
  ])
  response.end()
}
const tokensNanoUsd = 100 * 2000 + 20 * 10_000

const setUp = Effect.fnUntraced(function* (cap: object, members: object = {}) {
  const service = yield* TestService
  const anthropic = yield* startProvider(searches)
  const openai = yield* startProvider(annotates)
  const an = provider("an", anthropic, { dialect: "anthropic", baseUrl: anthropic.url })
  const models = [
    model("claude", ["an"], { prices: priced, contextTokens: 20_000, ...members }),
    model("gpt", ["oa"], { prices: priced, contextTokens: 20_000, ...members })
  ]
  yield* configure(service, [an, provider("oa", openai)], models)
  return { service, anthropic, openai, ...(yield* spender(service, [cap])) }
})

const charged = (service: TestService["Service"], tenantId: string) =>
  eventually(usageRows(service, tenantId), (rows) => rows.length > 0)

const hard = { limit: 3 }
const soft = { limit: 3, mode: "soft" }

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("tools that a provider runs", (it) => {
  for (const [name, cap] of [
    ["hard", hard],
    ["soft", soft]
  ] as const) {
    for (const stream of [false, true]) {
      it.effect(`are charged by use under a ${name} cap, ${stream ? "streamed" : "whole"}`, () =>
        Effect.gen(function* () {
          const { anthropic, key, openai, service, tenantId } = yield* setUp(cap)
          const body = { model: "claude", tools: [searching, { ...searching, max_uses: 1 }], stream }
          const answered = yield* asks(service, key, "/v1/messages", { max_tokens: 30, ...body })
          assert.strictEqual(answered.status, 200, answered.text)
          const limits = anthropic.requests[0]?.body.tools.map(
            ({ max_uses }: { readonly max_uses?: number }) => max_uses
          )
          assert.deepStrictEqual(limits, [cap === hard ? 5 : undefined, 1])
          const [row] = yield* charged(service, tenantId)
          assert.strictEqual(row.cost, tokensNanoUsd + 20_000_000)
          assert.deepInclude(row, { method: "provider_usage", toolUses: { webSearch: 2 } })
          assert.strictEqual(row.rates.webSearch, "10000000")
          const chat = { model: "gpt", max_tokens: 30, web_search_options: {}, stream }
          assert.strictEqual((yield* asks(service, key, "/v1/chat/completions", chat)).status, 200)
          const rows = yield* eventually(usageRows(service, tenantId), ({ length }) => length === 2)
          assert.strictEqual(rows[1].cost, tokensNanoUsd + 10_000_000)
          assert.lengthOf(openai.requests, 1)
        }).pipe(Effect.scoped)
      )
    }
  }

  it.effect("are held for by their limit, and refused where it does not fit", () =>
    Effect.gen(function* () {
      const { anthropic, key, service } = yield* setUp({ limit: 0.5 })
      const send = (max_uses: number) =>
        asks(service, key, "/v1/messages", { model: "claude", max_tokens: 30, tools: [{ ...searching, max_uses }] })
      const refused = yield* send(20)
      assert.deepStrictEqual([refused.status, refused.body.error.type], [402, "billing_error"])
      assert.strictEqual((yield* send(2)).status, 200)
      // Before the refusal the provider was asked to count.
      assert.lengthOf(
        anthropic.requests.filter(({ path }) => path.endsWith("/messages")),
        1
      )
    }).pipe(Effect.scoped)
  )

  it.effect("are used once where the usual limit does not fit", () =>
    Effect.gen(function* () {
      const { anthropic, key, service } = yield* setUp({ limit: 0.2 })
      const body = { model: "claude", max_tokens: 30, tools: [searching] }
      const answered = yield* asks(service, key, "/v1/messages", body)
      assert.strictEqual(answered.status, 200, answered.text)
      const sent = anthropic.requests.find(({ path }) => path.endsWith("/messages"))
      assert.strictEqual(sent?.body.tools[0].max_uses, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("are charged as the answer reports them, whether or not the request declares them", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const usage = { input_tokens: 10, output_tokens: 2 }
      const calls = Array.from({ length: 5 }, (_, index) => ({
        type: "web_search_call",
        id: `ws_${index}`,
        action: { type: "search" }
      }))
      const standIn = yield* startProvider(({ body, path }, response) => {
        if (path.endsWith("/responses")) {
          const answer = { id: "resp_1", object: "response", status: "completed", output: calls, usage }
          if (body.stream !== true) return json(response, 200, answer)
          sse(response, [
            ...calls.map((item) => event("response.output_item.done", { item })),
            event("response.completed", { response: answer })
          ])
          return response.end()
        }
        const choices = [{ index: 0, message: { role: "assistant", content: "Noon." }, finish_reason: "stop" }]
        json(response, 200, { choices, usage: { prompt_tokens: 10, completion_tokens: 2, ...body.reports } })
      })
      const re = provider("re", standIn, { apis: ["chat", "responses"] })
      const members = { prices: priced, contextTokens: 20_000 }
      yield* configure(service, [re], [model("r", ["re"], members)])
      const tokens = 10 * 2000 + 2 * 10_000
      const added = { type: "additional_tools", role: "developer", tools: [{ type: "web_search" }] }
      const requests: ReadonlyArray<readonly [path: string, body: object, searches: number]> = [
        ["/v1/responses", { input: [added, { role: "user", content: "Go" }] }, 5],
        ["/v1/responses", { input: [added, { role: "user", content: "Go" }], stream: true }, 5],
        ["/v1/responses", { input: "Go", prompt: { id: "pmpt_1" } }, 5],
        ["/v1/chat/completions", { reports: { server_tool_use: { web_search_requests: 3 } } }, 3],
        ["/v1/chat/completions", { reports: { num_search_queries: 2 } }, 2]
      ]
      for (const [path, body, searches] of requests) {
        const { key, tenantId } = yield* spender(service, [soft])
        const send = path.includes("chat")
          ? asks(service, key, path, { model: "r", ...body })
          : service.call("POST", path, { key, body: { model: "r", store: false, ...body } })
        const answered = yield* send
        assert.strictEqual(answered.status, 200, answered.text)
        const [row] = yield* charged(service, tenantId)
        assert.strictEqual(row.cost, tokens + searches * 10_000_000, JSON.stringify(body))
        assert.deepStrictEqual(row.toolUses, { webSearch: searches })
      }
      // Under a hard cap they are held for wherever they stand, and refused where nothing bounds them.
      const { key } = yield* spender(service, [{ limit: 0.02 }])
      const refused = (body: object) =>
        Effect.map(
          service.call("POST", "/v1/responses", { key, body: { model: "r", ...body } }),
          ({ body: { error }, status }) => [status, error.code]
        )
      assert.deepStrictEqual(yield* refused({ input: [added, { role: "user", content: "Go" }] }), [
        402,
        "request_exceeds_budget"
      ])
      assert.deepStrictEqual(yield* refused({ input: "Go", prompt: { id: "pmpt_1" } }), [403, "cost_unbounded"])
    }).pipe(Effect.scoped)
  )

  it.effect("are refused under a hard cap in money while their fee is not known, and pass under others", () =>
    Effect.gen(function* () {
      const prices = { inputUsdPerMTok: 2, outputUsdPerMTok: 10 }
      const { anthropic, key, service } = yield* setUp(hard, { prices })
      const body = { model: "claude", max_tokens: 30, tools: [{ ...searching, max_uses: 1 }] }
      const refused = yield* asks(service, key, "/v1/messages", body)
      assert.strictEqual(refused.status, 403)
      assert.include(refused.body.error.message, "prices.toolUses.webSearch")
      // A tool without a fee costs the tokens of its results.
      const fetching = { type: "web_fetch_20250910", name: "web_fetch", max_uses: 1 }
      assert.strictEqual((yield* asks(service, key, "/v1/messages", { ...body, tools: [fetching] })).status, 200)
      for (const cap of [soft, { unit: "tokens", limit: 1_000_000 }]) {
        const other = yield* spender(service, [cap])
        assert.strictEqual((yield* asks(service, other.key, "/v1/messages", body)).status, 200)
      }
      assert.lengthOf(anthropic.requests, 3)
    }).pipe(Effect.scoped)
  )

  it.effect("let documents pass that stand elsewhere, as long as the model reads", () =>
    Effect.gen(function* () {
      const { key, service } = yield* setUp(hard, { contextTokens: 200_000 })
      const content = [{ type: "document", source: { type: "url", url: "https://example.com/a.pdf" } }]
      const body = { model: "claude", max_tokens: 30, messages: [{ role: "user", content }] }
      assert.strictEqual((yield* asks(service, key, "/v1/messages", body)).status, 200)
      const dry = { model: "claude", messages: [{ role: "user", content: "Hi" }], dryRun: true }
      assert.strictEqual((yield* service.call("POST", "/api/llm/complete", { key, body: dry })).status, 200)
    }).pipe(Effect.scoped)
  )
})
