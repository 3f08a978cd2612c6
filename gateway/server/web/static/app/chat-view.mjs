// A conversation: its feed, its questions, and where one writes.

import { Approval } from "./approval-view.mjs"
import { newId } from "./protocol.mjs"
import { emptyConversation, take } from "./conversation.mjs"
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./html.mjs"
import { Call, Draft, Item } from "./message-view.mjs"
import { isPicture, kept } from "./pictures.mjs"
import { t } from "./texts.mjs"

const PAGE = 150
// Messages of a block, which is laid out and drawn as one while it is far away.
const BLOCK = 25
// So many of the newest may still change: results come after their calls.
const UNSETTLED = 100
const MODES = {
  ask: "Ask before risky steps",
  plan: "Plan only, change nothing",
  "accept-edits": "Edit files without asking",
  auto: "Nothing is asked",
}

export function Chat({ connection, session, onSession, onTurn, say }) {
  const talk = useConversation(connection, session, onTurn, say)
  const [count, setCount] = useState(PAGE)
  useEffect(() => setCount(PAGE), [session])
  const send = async (text, mode, files) => {
    try {
      const media = await Promise.all(files.map((file) => kept(connection, file)))
      const id = session ?? (await connection.until("create_session"))
      const said = { session: id, text, event_id: newId(), mode, media }
      await connection.until("send_message", said)
      if (id !== session) onSession(id)
    } catch (error) {
      say(error)
      return false
    }
    return true
  }
  const answer = async (asked, kind, words) => {
    const args = { nonce: asked.nonce, answer: kind, by: "web", words: kind === "deny" || asked.server_question ? words : "" }
    await connection.until("answer_approval", args).catch(say)
  }
  const stop = () => connection.call("stop_session", { session }).catch(say)
  const isRunning = talk.isRunning || talk.approvals.length > 0
  const onKey = (event) => event.key === "Escape" && isRunning && stop()
  const blocks = blocksOf(talk.messages, count)
  const agents = [...talk.live.values()].filter((one) => String(one.id).startsWith("agent "))
  return html`<section class="chat" onKeyDown=${onKey}>
    <${Feed} version=${talk.version} session=${session}>
      ${talk.messages.length > count &&
      html`<button class="earlier" onClick=${() => setCount(count + PAGE)}>${t("Show earlier messages")}</button>`}
      ${!talk.messages.length && !talk.isRunning && html`<p class="welcome">${t("What would you like to do?")}</p>`}
      ${blocks.map((one) => html`<${Block} key=${`${session}/${one.number}`} block=${one} talk=${talk} />`)}
      ${agents.map((one) => html`<${Call} key=${one.id} call=${one} live=${one} />`)}
      ${talk.isRunning && talk.draft && html`<${Draft} draft=${talk.draft} />`}
      ${talk.approvals.map((asked) => html`<${Approval} key=${asked.nonce} asked=${asked} answer=${answer} />`)}
    <//>
    <${Composer} session=${session} isRunning=${isRunning} send=${send} stop=${stop} usage=${talk.usage} />
  </section>`
}

// The newest messages, cut where a longer conversation is cut, too.
function blocksOf(messages, count) {
  const from = Math.max(0, messages.length - count)
  const blocks = []
  for (let n = Math.floor(from / BLOCK); n * BLOCK < messages.length; n++) {
    const [first, end] = [Math.max(from, n * BLOCK), Math.min(messages.length, (n + 1) * BLOCK)]
    blocks.push({ number: n, first, end, version: end > messages.length - UNSETTLED ? NaN : 0 })
  }
  return blocks
}

function Block({ block: { first, end, version }, talk }) {
  // NaN equals nothing, not even itself.
  const items = useMemo(
    () => talk.messages.slice(first, end).map((item) => html`<${Item} key=${item.key} item=${item} talk=${talk} />`),
    [first, end, version, talk.messages],
  )
  return html`<div class="block">${items}</div>`
}

// The conversation of a session, kept up to date; drawn at most once a frame.
function useConversation(connection, session, onTurn, say) {
  const talk = useRef(emptyConversation())
  const [, draw] = useState(0)
  useLayoutEffect(() => {
    const own = (talk.current = emptyConversation())
    draw((n) => n + 1)
    if (!session) return
    let frame = 0
    const onItem = (event) => {
      take(own, event)
      if (event.type === "turn_end" || event.type === "delivered") onTurn()
      frame ||= requestAnimationFrame(() => {
        frame = 0
        draw((n) => n + 1)
      })
    }
    const stop = connection.followSession({ session }, onItem, say)
    return () => {
      cancelAnimationFrame(frame)
      stop()
    }
  }, [connection, session])
  return talk.current
}

// Stays at the end as long as one is there.
function Feed({ version, session, children }) {
  const box = useRef()
  const isAtEnd = useRef(true)
  const [isAway, setAway] = useState(false)
  const toEnd = () => box.current && (box.current.scrollTop = box.current.scrollHeight)
  useEffect(() => {
    isAtEnd.current = true
    setAway(false)
  }, [session])
  useEffect(() => {
    if (isAtEnd.current) toEnd()
  })
  useEffect(() => {
    // What is drawn later, such as highlighted code, moves the end.
    const watcher = new ResizeObserver(() => isAtEnd.current && toEnd())
    watcher.observe(box.current.firstElementChild)
    return () => watcher.disconnect()
  }, [])
  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current
    isAtEnd.current = scrollHeight - scrollTop - clientHeight < 60
    setAway(!isAtEnd.current)
  }
  return html`<div class="feed-frame">
    <div class="feed" id="feed" ref=${box} onScroll=${onScroll} tabindex="0" role="log" aria-live="polite" aria-label=${t("Message")}>
      <div class="column">${children}</div>
    </div>
    ${isAway && html`<button class="to-end" onClick=${toEnd} aria-label=${t("To the end")}>↓</button>`}
  </div>`
}

function Composer({ session, isRunning, send, stop, usage }) {
  const [text, setText] = useState("")
  const [mode, setMode] = useState("ask")
  const [files, setFiles] = useState([])
  const box = useRef()
  useEffect(() => box.current.focus(), [session])
  useLayoutEffect(() => {
    box.current.style.height = "auto"
    box.current.style.height = `${Math.min(box.current.scrollHeight, 320)}px`
  }, [text])
  const submit = async (event) => {
    event?.preventDefault()
    const said = text.trim()
    if (!said && !files.length) return
    setText("")
    setFiles([])
    if (await send(said, mode, files)) return
    setText((now) => now || said)
    setFiles(files)
  }
  const add = (list) => setFiles((now) => [...now, ...[...list].filter(isPicture)])
  const onPaste = (event) => add(event.clipboardData.files)
  const onDrop = (event) => {
    event.preventDefault()
    add(event.dataTransfer.files)
  }
  const onKey = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event)
  }
  const cost = usage?.session_cost_usd ?? usage?.cost_usd
  return html`<form class="composer" onSubmit=${submit} onPaste=${onPaste} onDrop=${onDrop} onDragOver=${(event) => event.preventDefault()}>
    <div class="column">
      <textarea rows="1" ref=${box} value=${text} aria-label=${t("Message")} placeholder=${t("What would you like to do?")} title=${t("Enter sends, Shift+Enter makes a new line")} onInput=${(event) => setText(event.target.value)} onKeyDown=${onKey}></textarea>
      ${files.length > 0 &&
      html`<ul class="files">
        ${files.map((file) => html`<li>${file.name} <button type="button" aria-label=${`${t("Remove")}: ${file.name}`} onClick=${() => setFiles(files.filter((one) => one !== file))}>×</button></li>`)}
      </ul>`}
      <div class="tools">
        <label class="attach" title=${t("Add a picture")}>
          <span aria-hidden="true">⊕</span><span class="unseen">${t("Add a picture")}</span>
          <input type="file" accept="image/*" multiple class="unseen" onChange=${(event) => (add(event.target.files), (event.target.value = ""))} />
        </label>
        <select aria-label=${t("Mode")} value=${mode} onChange=${(event) => setMode(event.target.value)}>
          ${Object.entries(MODES).map(([value, label]) => html`<option value=${value}>${t(label)}</option>`)}
        </select>
        <span class="dim usage">
          ${usage && `${(usage.usage.input + usage.usage.output).toLocaleString()} ${t("tokens")}`}
          ${cost != null && ` · $${cost.toFixed(4)}`}
        </span>
        ${isRunning && html`<button type="button" class="stop" onClick=${stop}>${t("Stop")} <kbd>Esc</kbd></button>`}
        <button class="send" disabled=${!text.trim() && !files.length}>${t("Send")}</button>
      </div>
    </div>
  </form>`
}
