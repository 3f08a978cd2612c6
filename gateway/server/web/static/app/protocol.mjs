// Client of Kore's protocol for browsers and Node: calls and streams over one WebSocket, with
// automatic reconnection. The types of all calls and events are in `protocol.d.mts`.

const ACK_AFTER = 64
const FIRST_RETRY_INTERVAL_MS = 200
const MAX_RETRY_INTERVAL_MS = 5000
const PROOF_TIMEOUT_MS = 15_000
// Transient errors, to be retried shortly: the data has a new owner, or this client was too slow.
const PASSING = new Set(["owner-lost", "handed-over"])

export class CallError extends Error {
  constructor({ code = "error", message = "", hint = null }) {
    super(message)
    this.code = code
    this.hint = hint
  }
}

// Derives the key, with its id, from a token or a login code.
export const keyOf = async (secret) => keyOfBytes(await digest(new TextEncoder().encode(secret)))

export async function keyOfBytes(bytes) {
  const named = [...new TextEncoder().encode("kore key id\n"), ...new Uint8Array(bytes)]
  const id = hex(await digest(new Uint8Array(named))).slice(0, 32)
  // Not extractable: no script, and no other page of this origin, can read the key.
  const key = await subtle().importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"])
  return { id, key }
}

// Opens a WebSocket on which both sides prove that they know a key, the server first; the key is not
// sent. `sign` signs values for this connection only. Rejects with a CallError: "denied" for an
// invalid key, "foreign" for a server that does not know the key, otherwise "owner-lost".
export async function openProven(address, path, { id, key }) {
  const url = new URL(path, address.replace(/^http/, "ws"))
  // "localhost" may also resolve to ::1, where another user of the machine may listen.
  if (url.protocol === "ws:" && url.hostname === "localhost") url.hostname = "127.0.0.1"
  const nonce = newId()
  const socket = new WebSocket(url, ["kore", `${id}.${nonce}`])
  const opening = await firstFrame(socket)
  const sign = (label) => {
    const text = [`kore ${label}`, url.host, id, nonce, opening.nonce].join("\n")
    return subtle().sign("HMAC", key, new TextEncoder().encode(text))
  }
  try {
    if (opening.error) throw new CallError(opening.error)
    if (opening.proof !== hex(await sign("server"))) throw new CallError({ code: "foreign" })
  } catch (error) {
    socket.close()
    throw error
  }
  socket.send(JSON.stringify({ proof: hex(await sign("client")) }))
  return { socket, sign }
}

const firstFrame = (socket) =>
  new Promise((resolve, reject) => {
    const end = (settle, value) => {
      clearTimeout(timer)
      socket.onmessage = socket.onclose = socket.onerror = null
      settle(value)
    }
    const fail = () => {
      end(reject, lost("not connected"))
      socket.close()
    }
    const timer = setTimeout(fail, PROOF_TIMEOUT_MS)
    socket.onmessage = ({ data }) => {
      try {
        end(resolve, JSON.parse(data))
      } catch {
        fail()
      }
    }
    // Some versions of Node report a failed connection only as an error.
    socket.onclose = socket.onerror = fail
  })

export class Connection {
  // Takes a `token`, or a function `key` that returns a key in the form of `keyOf`. `onState` is called
  // with "open", "closed", "foreign" (a different program answers at the address) or "denied". With
  // `blocks`, streams also deliver the blocks of each event.
  constructor({ address, token = "", key = () => keyOf(token), onState = () => {}, blocks = false }) {
    this.address = address.replace(/\/$/, "")
    this.key = key
    this.onState = onState
    this.blocks = blocks
    this.numbers = 0
    this.calls = new Map()
    this.streams = new Set()
    this.waitMs = FIRST_RETRY_INTERVAL_MS
    this.socket = null
    this.open()
  }

  get isOpen() {
    return this.socket?.readyState === WebSocket.OPEN
  }

  async open() {
    try {
      const key = await this.key()
      if (!key) return this.deny()
      const { socket } = await openProven(this.address, "/v1/connect", key)
      if (this.isClosed) return socket.close()
      this.socket = socket
    } catch (error) {
      return error.code === "denied" ? this.deny() : this.lose(error.code === "foreign" ? "foreign" : "closed")
    }
    this.waitMs = FIRST_RETRY_INTERVAL_MS
    this.socket.onmessage = (event) => this.take(JSON.parse(event.data))
    let isOver = false
    const onEnd = () => {
      if (!isOver) this.lose("closed")
      isOver = true
    }
    this.socket.onclose = this.socket.onerror = onEnd
    if (!this.isOpen) return onEnd()
    this.onState("open")
    for (const stream of this.streams) this.begin(stream)
  }

  async lose(state) {
    for (const call of this.calls.values()) call.reject?.(lost("the connection broke"))
    this.calls.clear()
    if (this.isClosed) return
    this.onState(state)
    await pause(this.waitMs)
    this.waitMs = Math.min(2 * this.waitMs, MAX_RETRY_INTERVAL_MS)
    if (!this.isClosed) this.open()
  }

  deny() {
    this.wasDenied = true
    this.onState("denied")
    for (const stream of this.streams) stream.onError(denied())
  }

  close() {
    this.isClosed = true
    this.streams.clear()
    this.socket?.close()
  }

  // Returns the result of a call. Rejects with a CallError; after "owner-lost" it is unknown whether
  // the call was made.
  call(name, args = {}) {
    return new Promise((resolve, reject) => this.send(name, args, { resolve, reject }))
  }

  // Repeats an idempotent call until it is answered; may be used before the connection is open.
  async until(name, args) {
    for (;;) {
      try {
        return await this.call(name, args)
      } catch (error) {
        if (!PASSING.has(error.code) || this.isClosed) throw error
        await pause(FIRST_RETRY_INTERVAL_MS)
      }
    }
  }

  // Sends a message exactly once, even if the connection breaks. Returns the session's id.
  async say(session, text, more = {}) {
    const place = session ?? (await this.until("create_session", {}))
    return this.until("send_message", { session: place, text, event_id: newId(), ...more })
  }

  // Calls `onItem` for each event until the returned function is called. Whenever the stream has to be
  // opened, `args` is called for the arguments, and `onReady` once it is open.
  follow(name, args, onItem, onError = () => {}, onReady = () => {}) {
    const stream = { name, args, onItem, onError, onReady }
    this.streams.add(stream)
    if (this.isOpen) this.begin(stream)
    return () => {
      this.streams.delete(stream)
      this.write({ id: stream.id, cancel: true })
    }
  }

  // Follows a session after message number `after`; each message arrives once, across reconnections.
  followSession({ after = 0, ...args }, onItem, onError, onReady) {
    let seq = after
    const take = (event, blocks) => {
      if (event.type === "message") seq = event.seq
      if (event.type === "reset") seq = 0
      return onItem(event, blocks)
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
      await pause(FIRST_RETRY_INTERVAL_MS)
      if (this.streams.has(stream) && this.isOpen) this.begin(stream)
    }
    stream.id = this.send(stream.name, stream.args(), {
      stream,
      // A new connection reopens all streams.
      reject: (error) => (this.isOpen ? again(error) : undefined),
    })
  }

  send(name, args, call) {
    const id = ++this.numbers
    if (!this.isOpen) {
      call.reject(this.wasDenied || this.isClosed ? denied() : lost("not connected"))
      return id
    }
    this.calls.set(id, call)
    this.write({ id, call: name, arguments: args, ...(call.stream && this.blocks && { blocks: true }) })
    return id
  }

  write(frame) {
    if (this.isOpen) this.socket.send(JSON.stringify(frame))
  }

  take(frame) {
    const call = this.calls.get(frame.id)
    if (!call) return
    if ("item" in frame) {
      // If the handler returns a promise, the item is acknowledged once it resolves.
      const work = this.streams.has(call.stream) ? call.stream.onItem(frame.item, frame.blocks ?? []) : undefined
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

export const newId = () => hex(crypto.getRandomValues(new Uint8Array(16)))

const hex = (bytes) => [...new Uint8Array(bytes)].map((n) => n.toString(16).padStart(2, "0")).join("")

// Browsers provide it on pages over https, and at 127.0.0.1 and localhost.
const subtle = () => {
  if (!globalThis.crypto?.subtle) throw new CallError({ code: "denied", message: "this page needs https" })
  return crypto.subtle
}

const digest = (bytes) => subtle().digest("SHA-256", bytes)

const lost = (message) => new CallError({ code: "owner-lost", message })

const denied = () => new CallError({ code: "denied", message: "this connection is closed or was refused" })

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
