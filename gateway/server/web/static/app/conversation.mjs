// What is known of one session, from its events: messages, the reply that streams, calls, questions.

const OUTPUT_CHARS = 20_000

export const emptyConversation = () => ({
  seq: 0,
  messages: [],
  results: new Map(),
  live: new Map(),
  draft: null,
  approvals: [],
  isRunning: false,
  usage: null,
  version: 0,
})

// Changes `talk`, and counts its `version` up. A message takes the place of what streamed of it.
export function take(talk, event) {
  talk.version++
  switch (event.type) {
    case "message":
      return takeMessage(talk, event)
    case "reset":
      return Object.assign(talk, emptyConversation(), { version: talk.version })
    case "iteration_start":
    case "retry":
      talk.isRunning = true
      talk.draft = { text: "", thinking: "" }
      if (event.type === "retry") say(talk, "notice", event.reason)
      return
    case "text_delta":
      talk.isRunning = true
      return void (draft(talk).text += event.text)
    case "thinking_delta":
      return void (draft(talk).thinking += event.text)
    case "tool_start":
      talk.isRunning = true
      return void talk.live.set(event.id, { ...event, output: "" })
    case "tool_output": {
      const call = talk.live.get(event.id)
      if (call) call.output = (call.output + event.text).slice(-OUTPUT_CHARS)
      return
    }
    case "tool_result": {
      const call = talk.live.get(event.id)
      if (call) Object.assign(call, { result: event, output: "" })
      return
    }
    case "approval_asked":
      talk.approvals = [...talk.approvals.filter((one) => one.nonce !== event.nonce), event]
      return
    case "approval_answered":
      talk.approvals = talk.approvals.filter((one) => one.nonce !== event.nonce)
      return
    case "from_agent":
      return takeAgent(talk, event)
    case "usage":
      talk.usage = event
      return
    case "error":
      return say(talk, "error", event.hint ? `${event.message}\n${event.hint}` : event.message)
    case "notice":
      return say(talk, event.level === "warning" ? "warning" : "notice", event.text)
    case "delivered":
      return takeDelivered(talk, event)
    case "done":
    case "idle":
    case "turn_end":
      talk.isRunning = false
      if (event.type !== "done") Object.assign(talk, { draft: null, live: new Map() })
  }
}

const draft = (talk) => (talk.draft ??= { text: "", thinking: "" })

export const textOf = (message) =>
  message.content
    .filter((part) => part.type === "text")
    .map((part) => part.text)
    .join("\n\n")

function takeMessage(talk, { seq, at, message }) {
  if (seq <= talk.seq) return
  talk.seq = seq
  if (message.role === "tool") {
    talk.results.set(`${lastCaller(talk)}/${message.tool_call_id}`, message)
    return
  }
  if (message.role === "assistant") talk.draft = null
  talk.messages.push({ key: `m${seq}`, seq, at, kind: message.role, message })
}

// Ids of calls are a reply's own: vendors use them again.
const lastCaller = (talk) => talk.messages.findLast((one) => one.message?.tool_calls)?.seq ?? 0

export const resultOf = (talk, seq, call) => talk.results.get(`${seq}/${call.id}`)

function say(talk, kind, text) {
  talk.messages.push({ key: `n${talk.version}`, kind, text })
}

// A turn's answer is among its messages; what Kore says itself, such as a command's answer, is not.
function takeDelivered(talk, event) {
  talk.isRunning = talk.isRunning && !event.last
  const sinceAsked = talk.messages.slice(talk.messages.findLastIndex((one) => one.kind === "user"))
  const isKnown = sinceAsked.some((one) => {
    const text = one.kind === "assistant" ? textOf(one.message).trim() : ""
    return text && event.text.includes(text.slice(0, 200))
  })
  if (!isKnown) talk.messages.push({ key: `d${talk.version}`, kind: "kore", text: event.text })
}

function takeAgent(talk, event) {
  const id = `agent ${event.number}`
  const known = talk.live.get(id) ?? { id, name: event.agent, arguments: { task: event.title }, output: "" }
  const inner = event.event ?? {}
  if (inner.type === "tool_start") known.output += `● ${inner.name} ${JSON.stringify(inner.arguments)}\n`
  if (inner.type === "done") known.result = { content: "", is_error: false }
  known.output = known.output.slice(-OUTPUT_CHARS)
  talk.live.set(id, known)
}
