// What is known of one session, from its events: messages, the reply that streams, calls, questions.

const OUTPUT_CHARS = 20_000
const DIFF_CHARS = 20_000

export const emptyConversation = () => ({
  seq: 0,
  messages: [],
  results: new Map(),
  diffs: new Map(),
  live: new Map(),
  draft: null,
  approvals: [],
  pending: [],
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
    case "steered":
      return settle(talk, event.text)
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
    const key = `${lastCaller(talk)}/${message.tool_call_id}`
    talk.results.set(key, message)
    const diff = talk.live.get(message.tool_call_id)?.result?.diff
    if (diff) talk.diffs.set(key, diff)
    return
  }
  if (message.role === "assistant") talk.draft = null
  if (message.role === "user") settle(talk, textOf(message))
  talk.messages.push({ key: `m${seq}`, seq, at, kind: message.role, message })
}

// Ids of calls are a reply's own: vendors use them again.
const lastCaller = (talk) => talk.messages.findLast((one) => one.message?.tool_calls)?.seq ?? 0

const CHANGES = new Set(["edit_file", "write_file", "append_file"])

// What a call changed: as it was told, or after a reload as its arguments say it.
export function diffOf(talk, seq, call) {
  const known = talk.diffs.get(`${seq}/${call.id}`)
  const result = resultOf(talk, seq, call)
  if (known || !result || result.is_error || !CHANGES.has(call.name)) return known
  const given = call.arguments ?? {}
  const edits = Array.isArray(given.edits) ? given.edits : [given]
  const lines = (text, sign) =>
    typeof text === "string" && text ? text.replace(/\n$/, "").split("\n").map((line) => sign + line) : []
  const changes = edits.flatMap((one) => [...lines(one?.old_string, "-"), ...lines(one?.new_string ?? one?.content, "+")])
  return [`--- ${given.path}`, `+++ ${given.path}`, ...changes].join("\n").slice(0, DIFF_CHARS)
}

export const resultOf = (talk, seq, call) => talk.results.get(`${seq}/${call.id}`)

function say(talk, kind, text) {
  talk.messages.push({ key: `n${talk.version}`, kind, text })
}

// What was sent and waits for its turn: shown until it is among the messages.
export const addPending = (talk, sent) => {
  talk.version++
  talk.pending = [...talk.pending, sent]
}

export const dropPending = (talk, eventId) => {
  talk.version++
  talk.pending = talk.pending.filter((one) => one.eventId !== eventId)
}

// What was sent is over: of a command, which is among no messages, its words stay.
export function endPending(talk, eventId) {
  const sent = talk.pending.find((one) => one.eventId === eventId)
  if (!sent) return
  dropPending(talk, eventId)
  if (!sent.text.startsWith("/")) return
  const message = { role: "user", content: [{ type: "text", text: sent.text }] }
  talk.messages.push({ key: `c${talk.version}`, kind: "user", message })
}

// Several may have become one message.
function settle(talk, text) {
  const first = talk.pending.findIndex((one) => text.includes(one.text))
  if (first < 0) return
  const rest = talk.pending[first]
  dropPending(talk, rest.eventId)
  settle(talk, text.replace(rest.text, ""))
}

// A turn's answer is among its messages; what Kore says itself, such as a command's answer, is not.
function takeDelivered(talk, event) {
  talk.isRunning = talk.isRunning && !event.last
  endPending(talk, event.event_id)
  // The next message may have come meanwhile.
  const asked = talk.messages.findLastIndex((one) => one.kind === "user")
  const askedBefore = talk.messages.slice(0, Math.max(asked, 0)).findLastIndex((one) => one.kind === "user")
  const isKnown = talk.messages.some((one, n) => {
    const text = n > askedBefore && one.kind === "assistant" ? textOf(one.message).trim().slice(0, 200) : ""
    return text && (n > asked ? event.text.includes(text) : event.text.trim().startsWith(text))
  })
  if (isKnown) return
  // The same error was told while the turn ran.
  const isTold = (one) => one.kind === "error" && event.text.includes(one.text.split("\n")[0])
  // In every language Kore says so with this sign.
  const isFailure = event.text.startsWith("⚠")
  talk.messages = talk.messages.filter((one) => !isTold(one))
  talk.messages.push({ key: `d${talk.version}`, kind: "kore", text: event.text, isFailure })
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
