// Live view of a conversation's background commands and sub-agents.

import { emptyConversation, take } from "./conversation.mjs"
import { html, useEffect, useRef, useState } from "./html.mjs"
import { plain, visible } from "./markdown.mjs"
import { Call, Item } from "./message-view.mjs"
import { t } from "./texts.mjs"

const POLL_INTERVAL_MS = 2_000
const READ_INTERVAL_MS = 1_000
const MAX_SHOWN_CHARS = 100_000

export function Tasks({ connection, session, isRunning, say }) {
  const [tasks, refresh] = useTasks(connection, session, isRunning)
  const [isOpen, setOpen] = useState(false)
  useEffect(() => setOpen(false), [session])
  if (!tasks.length) return null
  const running = tasks.filter((task) => task.is_running)
  const stop = async (task) => {
    await connection.call("stop_task", { session, task: task.id }).catch(say)
    refresh()
  }
  const newest = running[0] ?? tasks[0]
  return html`<section class="tasks" aria-label=${t("In the background")}>
    <div class="column">
      <button type="button" class="tasks-head" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
        <span class=${`state ${running.length ? "running" : ""}`} aria-hidden="true">${running.length ? "●" : "✓"}</span>
        <b>${t("In the background")}: ${running.length}</b>
        <span class="subject">${visible(newest.title)}</span>
        <span aria-hidden="true">${isOpen ? "▾" : "▴"}</span>
      </button>
      ${isOpen && html`<ul>${tasks.map((item) => html`<${Task} key=${item.id} ...${{ connection, session, task: item, stop }} />`)}</ul>`}
    </div>
  </section>`
}

// The tasks, polled while they may change and the page is visible.
function useTasks(connection, session, isRunning) {
  const [tasks, setTasks] = useState([])
  const current = useRef(session)
  current.current = session
  const refresh = async () => {
    if (!session) return setTasks([])
    const list = await connection.call("list_tasks", { session }).catch(() => null)
    if (list && current.current === session) setTasks(list)
  }
  const isLive = isRunning || tasks.some((task) => task.is_running)
  useEffect(() => setTasks([]), [session])
  useEffect(() => {
    refresh()
    if (!isLive) return
    const timer = setInterval(() => document.hidden || refresh(), POLL_INTERVAL_MS)
    return () => clearInterval(timer)
  }, [session, isLive])
  return [tasks, refresh]
}

function Task({ connection, session, task, stop }) {
  const [isOpen, setOpen] = useState(false)
  const name = task.kind === "agent" ? `${task.agent}: ${task.title}` : task.title
  const state = task.is_running ? t("running") : visible(t(task.state))
  return html`<li>
    <div class="task-row">
      <button type="button" class="task" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
        <span class=${`state ${task.is_running ? "running" : ""}`} aria-hidden="true">${task.is_running ? "●" : "✓"}</span>
        <b>${visible(name)}</b>
        <span class="dim">${state} · ${t("since")} ${clock(task.began_at)}</span>
        ${task.last_line && html`<code class="subject">${visible(plain(task.last_line))}</code>`}
      </button>
      ${task.is_running && html`<button type="button" class="stop" aria-label=${`${t("Stop")}: ${visible(name)}`} onClick=${() => stop(task)}>${t("Stop")}</button>`}
    </div>
    ${isOpen && (task.kind === "agent" ? html`<${Steps} connection=${connection} session=${task.session} />` : html`<${Printed} ...${{ connection, session, task }} />`)}
  </li>`
}

// Live output of a command.
function Printed({ connection, session, task }) {
  const [text, setText] = useState("")
  const box = useRef()
  const position = useRef(0)
  useEffect(() => {
    let isWanted = true
    const read = async () => {
      const part = await connection.call("read_task", { session, task: task.id, position: position.current }).catch(() => null)
      if (!isWanted || !part) return
      const lost = part.begin > position.current ? "…\n" : ""
      position.current = part.end
      if (part.text) setText((now) => (now + lost + part.text).slice(-MAX_SHOWN_CHARS))
    }
    read()
    if (!task.is_running) return () => (isWanted = false)
    const timer = setInterval(() => document.hidden || read(), READ_INTERVAL_MS)
    return () => {
      isWanted = false
      clearInterval(timer)
    }
  }, [task.id, task.is_running])
  useEffect(() => void (box.current.scrollTop = box.current.scrollHeight), [text])
  return html`<pre class="printed" ref=${box} tabindex="0" role="log" aria-label=${visible(task.title)}>${text ? visible(plain(text)) : t("Nothing was printed yet.")}</pre>`
}

// Instructions, tool calls and messages of a sub-agent.
function Steps({ connection, session }) {
  const talk = useRef(emptyConversation())
  const box = useRef()
  const [, draw] = useState(0)
  useEffect(() => {
    const own = (talk.current = emptyConversation())
    const onItem = (event, blocks) => {
      take(own, event, blocks)
      draw((n) => n + 1)
    }
    return connection.follow("follow_session", () => ({ session, after: own.seq }), onItem, () => {})
  }, [session])
  const { messages, live } = talk.current
  const calls = new Set(messages.flatMap((message) => (message.message?.tool_calls ?? []).map((call) => call.id)))
  useEffect(() => void (box.current.scrollTop = box.current.scrollHeight), [messages.length, live.size])
  return html`<div class="steps" ref=${box} tabindex="0" role="log" aria-label=${t("Steps")}>
    ${messages.map((item) => html`<${Item} key=${item.key} item=${item} talk=${talk.current} />`)}
    ${[...live.values()].filter((call) => !calls.has(call.id)).map((call) => html`<${Call} key=${call.id} call=${call} live=${call} />`)}
  </div>`
}

const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { timeStyle: "medium" })
