// A client of Kore's protocol, for browsers and Node: calls and streams over one WebSocket, which is
// opened again whenever it breaks. `protocol.d.mts` beside it has the types of all calls and events.

const ACK_AFTER = 64
const FIRST_WAIT_MS = 200
const LONGEST_WAIT_MS = 5000
// Errors that a moment's wait mends: the data has another owner, or this client was too slow.
const PASSING = new Set(["owner-lost", "handed-over"])

export class CallError extends Error {
  constructor({ code = "error", message = "", hint = null }) {
    super(message)
    this.code = code
    this.hint = hint
  }
}

export class Connection {
  // `token` needs a WebSocket that sends headers (Node); a page has its cookie and `protocols`.
  // `onState` is told "open", "closed" or "denied", `isDenied` says whether asking again is in vain.
  constructor({ address, token = "", protocols = [], onState = () => {}, isDenied = null }) {
    this.address = address.replace(/\/$/, "")
    this.headers = token ? { Authorization: `Bearer ${token}` } : null
    this.protocols = protocols
    this.onState = onState
    this.isDenied = isDenied ?? (() => this.isRefused())
    this.numbers = 0
    this.calls = new Map()
    this.streams = new Set()
    this.waitMs = FIRST_WAIT_MS
    this.open()
  }

  open() {
    const url = `${this.address.replace(/^http/, "ws")}/v1/connect`
    const protocols = typeof this.protocols === "function" ? this.protocols() : this.protocols
    const socket = new WebSocket(url, this.headers ? { protocols, headers: this.headers } : protocols)
    this.socket = socket
    socket.onopen = () => {
      this.waitMs = FIRST_WAIT_MS
      this.onState("open")
      for (const stream of this.streams) this.begin(stream)
    }
    socket.onmessage = (event) => this.take(JSON.parse(event.data))
    // Some versions of Node tell of a connection that could not be made by an error alone.
    let isOver = false
    socket.onclose = socket.onerror = () => {
      if (!isOver) this.lose()
      isOver = true
    }
  }

  async lose() {
    for (const call of this.calls.values()) call.reject?.(lost("the connection broke"))
    this.calls.clear()
    if (this.isClosed) return
    this.onState("closed")
    await pause(this.waitMs)
    this.waitMs = Math.min(2 * this.waitMs, LONGEST_WAIT_MS)
    if (await this.isDenied()) this.deny()
    else if (!this.isClosed) this.open()
  }

  deny() {
    this.wasDenied = true
    this.onState("denied")
    for (const stream of this.streams) stream.onError(denied())
  }

  async isRefused() {
    try {
      const headers = { "Content-Type": "application/json", ...this.headers }
      const status = { method: "POST", headers, body: "{}" }
      const response = await fetch(`${this.address.replace(/^ws/, "http")}/v1/calls/status`, status)
      return response.status === 401 || response.status === 403
    } catch {
      return false
    }
  }

  close() {
    this.isClosed = true
    this.streams.clear()
    this.socket.close()
  }

  // The result of a call. Rejects with a CallError; "owner-lost" leaves open whether it was done.
  call(name, args = {}) {
    return new Promise((resolve, reject) => this.send(name, args, { resolve, reject }))
  }

  // A call that may be made again until it is answered, also before the connection is open.
  async until(name, args) {
    for (;;) {
      try {
        return await this.call(name, args)
      } catch (error) {
        if (!PASSING.has(error.code) || this.isClosed) throw error
        await pause(FIRST_WAIT_MS)
      }
    }
  }

  // Says something, once, also when the connection breaks. Returns the session's id.
  async say(session, text, more = {}) {
    const place = session ?? (await this.until("create_session", {}))
    return this.until("send_message", { session: place, text, event_id: newId(), ...more })
  }

  // Tells `onItem` of each event until the function that this returns is called. `args` gives the
  // arguments anew each time the stream has to be opened; then `onReady` is called.
  follow(name, args, onItem, onError = () => {}, onReady = () => {}) {
    const stream = { name, args, onItem, onError, onReady }
    this.streams.add(stream)
    if (this.socket.readyState === WebSocket.OPEN) this.begin(stream)
    return () => {
      this.streams.delete(stream)
      this.write({ id: stream.id, cancel: true })
    }
  }

  // A session's events from message number `after` on, each message once, over every loss.
  followSession({ after = 0, ...args }, onItem, onError, onReady) {
    let seq = after
    const take = (event) => {
      if (event.type === "message") seq = event.seq
      if (event.type === "reset") seq = 0
      onItem(event)
    }
    return this.follow("follow_session", () => ({ ...args, after: seq }), take, onError, onReady)
  }

  acknowledge(id, call) {
    call.unacknowledged = (call.unacknowledged ?? 0) + 1
    if (call.unacknowledged < ACK_AFTER) return
    this.write({ id, ack: call.unacknowledged })
    call.unacknowledged = 0
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
      call.reject(this.wasDenied || this.isClosed ? denied() : lost("not connected"))
      return id
    }
    this.calls.set(id, call)
    this.write({ id, call: name, arguments: args })
    return id
  }

  write(frame) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(frame))
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
    if (frame.ready) return call.stream.onReady()
    this.calls.delete(frame.id)
    if (frame.error) call.reject(new CallError(frame.error))
    else call.resolve?.(frame.value)
  }
}

export const newId = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((n) => n.toString(16).padStart(2, "0")).join("")

const lost = (message) => new CallError({ code: "owner-lost", message })

const denied = () => new CallError({ code: "denied", message: "this connection is closed or was refused" })

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
