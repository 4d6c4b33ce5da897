/** Serializes an event's data, one `data:` line for each of its lines. */
export const dataText = (data: string): string =>
  `data: ${data.includes("\n") ? data.replaceAll("\n", "\ndata: ") : data}\n\n`

/** Events whose name is their type, as Anthropic's and the Responses API have them. */
export const namedEvents = (
  events: ReadonlyArray<Readonly<Record<string, unknown>> & { readonly type: string }>
): string => events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("")

/** Events without a name, as OpenAI's chat completions have them. */
export const dataEvents = (values: ReadonlyArray<object>): string =>
  values.map((value) => `data: ${JSON.stringify(value)}\n\n`).join("")

/** The event that ends a chat completion. */
export const terminator = "data: [DONE]\n\n"
