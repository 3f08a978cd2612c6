// State of one session, built from its events and their blocks: messages, the streamed reply, calls
// and questions.

const MAX_OUTPUT_CHARS = 20_000

export const emptyConversation = () => ({
  seq: 0,
  messages: [],
  results: new Map(),
  // Blocks of calls, by the number of the reply and the id of the call.
  calls: new Map(),
  live: new Map(),
  draft: null,
  approvals: [],
  pending: [],
  isRunning: false,
  usage: null,
  goal: null,
  version: 0,
})

// Updates `talk` and increments its `version`. A message replaces its streamed text.
export function take(talk, event, blocks = []) {
  talk.version++
  const block = blocks[0]
  if (block?.kind === "note") sayBlock(talk, block, event)
  switch (event.type) {
    case "message":
      return takeMessage(talk, event, blocks)
    case "reset":
      return Object.assign(talk, emptyConversation(), { version: talk.version, goal: talk.goal })
    case "iteration_start":
    case "retry":
      talk.isRunning = true
      talk.draft = { text: "", thinking: "" }
      return
    case "text_delta":
      talk.isRunning = true
      return void (draft(talk).text += event.text)
    case "thinking_delta":
      return void (draft(talk).thinking += event.text)
    case "tool_start":
      talk.isRunning = true
      return void talk.live.set(event.id, { ...event, block, output: "" })
    case "tool_output": {
      const call = talk.live.get(event.id)
      if (call) call.output = (call.output + event.text).slice(-MAX_OUTPUT_CHARS)
      return
    }
    case "tool_result": {
      const call = talk.live.get(event.id)
      if (call) Object.assign(call, { result: event, block: merged(call.block, block), output: "" })
      return
    }
    case "approval_asked":
      talk.approvals = [...talk.approvals.filter((approval) => approval.nonce !== event.nonce), event]
      return
    case "approval_answered":
      if (block) sayVerdict(talk, block, event)
      talk.approvals = talk.approvals.filter((approval) => approval.nonce !== event.nonce)
      return
    case "from_agent":
      return takeAgent(talk, event, block)
    case "steered":
      return settle(talk, event.text)
    case "usage":
      talk.usage = event
      return
    case "goal":
      talk.goal = event.state === "active" || event.state === "paused" ? event : null
      return
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

function takeMessage(talk, { seq, at, message }, blocks) {
  if (seq <= talk.seq) return
  talk.seq = seq
  if (message.role === "tool") {
    const key = `${lastCaller(talk)}/${message.tool_call_id}`
    talk.results.set(key, message)
    const live = talk.live.get(message.tool_call_id)?.block
    talk.calls.set(key, merged(merged(talk.calls.get(key), blocks[0]), live))
    return
  }
  if (message.role === "assistant") talk.draft = null
  for (const block of blocks) talk.calls.set(`${seq}/${block.id}`, block)
  if (message.role === "user") settle(talk, textOf(message))
  talk.messages.push({ key: `m${seq}`, seq, at, kind: message.role, message })
}

// Call ids are unique only within a reply, because vendors reuse them.
const lastCaller = (talk) => talk.messages.findLast((message) => message.message?.tool_calls)?.seq ?? 0

// Merges the blocks of a call: values of a later block win unless they are empty.
const merged = (block, later) =>
  Object.fromEntries(Object.entries({ ...block, ...later }).map(([name, value]) => [name, isEmpty(value) ? (block?.[name] ?? value) : value]))

const isEmpty = (value) => value === null || value === "" || (Array.isArray(value) && !value.length)

// The block of a call, merged with the block of the running call, if there is one.
export const blockOf = (talk, seq, call) => merged(talk.calls.get(`${seq}/${call.id}`), talk.live.get(call.id)?.block)

export const resultOf = (talk, seq, call) => talk.results.get(`${seq}/${call.id}`)

const STYLES = { error: "error", warning: "warning" }

function say(talk, kind, text, error = null) {
  talk.messages.push({ key: `n${talk.version}`, kind, text, error })
}

function sayBlock(talk, { style, mark, text }, event) {
  say(talk, STYLES[style] ?? "notice", mark ? `${mark} ${text}` : text, event.type === "error" ? event.message : null)
}

function sayVerdict(talk, { mark, text }, { nonce }) {
  const asked = talk.approvals.find((approval) => approval.nonce === nonce)
  say(talk, "notice", `${mark} ${asked ? `${asked.view.title}: ` : ""}${text}`)
}

// Adds a sent message that waits for its turn; it is shown until it appears among the messages.
export const addPending = (talk, sent) => {
  talk.version++
  talk.pending = [...talk.pending, sent]
}

export const dropPending = (talk, eventId) => {
  talk.version++
  talk.pending = talk.pending.filter((message) => message.eventId !== eventId)
}

// Ends a pending message. A command never becomes a message of the session, so its text is kept.
export function endPending(talk, eventId) {
  const sent = talk.pending.find((message) => message.eventId === eventId)
  if (!sent) return
  dropPending(talk, eventId)
  if (!sent.text.startsWith("/")) return
  const message = { role: "user", content: [{ type: "text", text: sent.text }] }
  talk.messages.push({ key: `c${talk.version}`, kind: "user", message })
}

// Several pending messages may have been joined into one.
function settle(talk, text) {
  const first = talk.pending.findIndex((message) => text.includes(message.text))
  if (first < 0) return
  const rest = talk.pending[first]
  dropPending(talk, rest.eventId)
  settle(talk, text.replace(rest.text, ""))
}

// The answer of a turn is among its messages; Kore's own texts, such as the result of a command, are not.
function takeDelivered(talk, event) {
  talk.isRunning = talk.isRunning && !event.last
  endPending(talk, event.event_id)
  // The next message may have arrived already.
  const asked = talk.messages.findLastIndex((message) => message.kind === "user")
  const askedBefore = talk.messages.slice(0, Math.max(asked, 0)).findLastIndex((message) => message.kind === "user")
  const isKnown = talk.messages.some((message, n) => {
    const text = n > askedBefore && message.kind === "assistant" ? textOf(message.message).trim().slice(0, 200) : ""
    return text && (n > asked ? event.text.includes(text) : event.text.trim().startsWith(text))
  })
  if (isKnown) return
  // The error may have been shown while the turn ran.
  const isReported = (note) => note.error !== null && note.error !== undefined && event.text.includes(note.error)
  // Kore marks failures with this sign in every language.
  const isFailure = event.text.startsWith("⚠")
  talk.messages = talk.messages.filter((message) => !isReported(message))
  talk.messages.push({ key: `d${talk.version}`, kind: "kore", text: event.text, isFailure })
}

function takeAgent(talk, event, step) {
  const id = `agent ${event.number}`
  const title = [[`${event.agent} (${event.number}) `, ""], [event.title, "title"]]
  const known = talk.live.get(id) ?? { id, arguments: { task: event.title }, block: { title }, output: "" }
  if (step) known.output += `${step.text}\n`
  if (event.event?.type === "done") known.result = { content: "", is_error: false }
  known.output = known.output.slice(-MAX_OUTPUT_CHARS)
  talk.live.set(id, known)
}
