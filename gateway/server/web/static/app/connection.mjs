// Calls and streams over one WebSocket, which is opened again whenever it breaks.

const ACK_AFTER = 64
const FIRST_WAIT_MS = 200
const LONGEST_WAIT_MS = 5000
// Errors that a moment's wait mends: the data has another owner, or this page was too slow.
const PASSING = new Set(["owner-lost", "handed-over"])

export class CallError extends Error {
  constructor({ code = "error", message = "", hint = null }) {
    super(message)
    this.code = code
    this.hint = hint
  }
}

export class Connection {
  // `onState` is told "open", "closed" or "denied".
  constructor(onState) {
    this.onState = onState
    this.numbers = 0
    this.calls = new Map()
    this.streams = new Set()
    this.waitMs = FIRST_WAIT_MS
    this.open()
  }

  open() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:"
    const socket = new WebSocket(`${scheme}//${location.host}/v1/connect`, ["kore", key() || "none"])
    this.socket = socket
    socket.onopen = () => {
      this.waitMs = FIRST_WAIT_MS
      this.onState("open")
      for (const stream of this.streams) this.begin(stream)
    }
    socket.onmessage = (event) => this.take(JSON.parse(event.data))
    socket.onclose = () => this.lose()
  }

  async lose() {
    for (const call of this.calls.values()) {
      call.reject?.(new CallError({ code: "owner-lost", message: "the connection broke" }))
    }
    this.calls.clear()
    if (this.isClosed) return
    this.onState("closed")
    await pause(this.waitMs)
    this.waitMs = Math.min(2 * this.waitMs, LONGEST_WAIT_MS)
    if ((await isLoggedIn()) === false) this.onState("denied")
    else if (!this.isClosed) this.open()
  }

  close() {
    this.isClosed = true
    this.streams.clear()
    this.socket.close()
  }

  // The result of a call. Rejects with a CallError.
  call(name, args = {}) {
    return new Promise((resolve, reject) => this.send(name, args, { resolve, reject }))
  }

  // A call that may be made again until it is answered.
  async until(name, args) {
    for (;;) {
      try {
        return await this.call(name, args)
      } catch (error) {
        if (!PASSING.has(error.code)) throw error
        await pause(FIRST_WAIT_MS)
      }
    }
  }

  // Tells `onItem` of each event until the function that this returns is called. `args` gives the
  // arguments anew each time the stream has to be opened.
  follow(name, args, onItem, onError = () => {}) {
    const stream = { name, args, onItem, onError }
    this.streams.add(stream)
    if (this.socket.readyState === WebSocket.OPEN) this.begin(stream)
    return () => {
      this.streams.delete(stream)
      this.write({ id: stream.id, cancel: true })
    }
  }

  begin(stream) {
    const again = async (error) => {
      if (!this.streams.has(stream)) return
      if (!PASSING.has(error.code)) return stream.onError(error)
      await pause(FIRST_WAIT_MS)
      if (this.streams.has(stream) && this.socket.readyState === WebSocket.OPEN) this.begin(stream)
    }
    const isClosedSocket = () => this.socket.readyState !== WebSocket.OPEN
    stream.id = this.send(stream.name, stream.args(), {
      stream,
      // With the connection all streams are opened again.
      reject: (error) => (isClosedSocket() ? undefined : again(error)),
    })
  }

  send(name, args, call) {
    const id = ++this.numbers
    if (this.socket.readyState !== WebSocket.OPEN) {
      call.reject(new CallError({ code: "owner-lost", message: "not connected" }))
      return id
    }
    this.calls.set(id, call)
    this.write({ id, call: name, arguments: args })
    return id
  }

  write(frame) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(frame))
  }

  acknowledge(id, call) {
    call.unacknowledged = (call.unacknowledged ?? 0) + 1
    if (call.unacknowledged < ACK_AFTER) return
    this.write({ id, ack: call.unacknowledged })
    call.unacknowledged = 0
  }

  take(frame) {
    const call = this.calls.get(frame.id)
    if (!call) return
    if ("item" in frame) {
      // A promise says when the item is worked off.
      const work = this.streams.has(call.stream) ? call.stream.onItem(frame.item) : undefined
      if (work instanceof Promise) work.then(() => this.acknowledge(frame.id, call))
      else this.acknowledge(frame.id, call)
      return
    }
    if (frame.ready) return
    this.calls.delete(frame.id)
    if (frame.error) call.reject(new CallError(frame.error))
    else call.resolve?.(frame.value)
  }
}

// Whether this browser's cookie counts; null when nobody answers.
export async function isLoggedIn() {
  try {
    const response = await post("/v1/calls/status", {})
    return response.status !== 401 && response.status !== 403
  } catch {
    return null
  }
}

// A code of one use or a token for a cookie. Throws a CallError.
export async function login(secret) {
  const response = await post("/v1/login", secret)
  const answer = await response.json()
  if (!response.ok) throw new CallError(answer.error ?? {})
  localStorage.setItem("key", answer.value.key)
}

// The half of this browser's token that belongs to this page; the other is in its cookie.
const key = () => localStorage.getItem("key") ?? ""

export const logout = () => post("/v1/logout", {})

export const newId = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((n) => n.toString(16).padStart(2, "0")).join("")

function post(path, body) {
  return fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Kore-Key": key() },
    body: JSON.stringify(body),
    credentials: "same-origin",
  })
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
