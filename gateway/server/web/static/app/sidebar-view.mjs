// List of the sessions: search, and create, rename, copy or close them.

import { html, useEffect, useState } from "./html.mjs"
import { visible } from "./markdown.mjs"
import { PANELS } from "./panels-view.mjs"
import { t } from "./texts.mjs"

export function Sidebar({ connection, sessions, current, open, refresh, say }) {
  const [words, setWords] = useState("")
  const hits = useSearch(connection, words)
  const [folded, fold] = useFolded()
  const rows = asTree(sessions, folded)
  const act = async (name, args) => {
    try {
      const result = await connection.call(name, args)
      refresh()
      return result
    } catch (error) {
      say(error)
    }
  }
  const rename = (one) => {
    const name = prompt(t("New name"), one.name)
    if (name !== null) act("rename_session", { session: one.id, name })
  }
  const fork = async (one) => {
    const id = await act("fork_session", { session: one.id })
    if (id) open(id)
  }
  const close = async (one) => {
    await act("set_session_status", { session: one.id, status: "closed" })
    if (one.id === current) open(null)
  }
  return html`<nav class="sidebar" aria-label=${t("Sessions")}>
    <button class="new" onClick=${() => open(null)}>+ ${t("New session")}</button>
    <input type="search" placeholder=${t("Search")} aria-label=${t("Search")} value=${words} onInput=${(event) => setWords(event.target.value)} />
    <ul>
      ${hits
        ? hits.map(
            (hit) => html`<li key=${`${hit.session}/${hit.n}`}>
              <button class="session" onClick=${() => open(hit.session)}>
                <b>${visible(hit.name)}</b><span class="dim snippet">${visible(hit.snippet)}</span>
              </button>
            </li>`,
          )
        : rows.map(
            ({ one, depth, count, isFolded }) => html`<li key=${one.id} class=${`${one.id === current ? "current" : ""} depth-${Math.min(depth, 4)}`} aria-level=${depth + 1}>
              ${count > 0 &&
              html`<button class="fold" aria-expanded=${!isFolded} aria-label=${`${t("Branches")}: ${one.name}`} onClick=${() => fold(one.id)}>${isFolded ? "▸" : "▾"}</button>`}
              <button class="session" aria-current=${one.id === current ? "page" : null} title=${visible(one.name)} onClick=${() => open(one.id)}>
                <b>${depth > 0 && html`<span aria-hidden="true">↳ </span>`}${visible(one.name) || t("New session")}</b>
                <span class=${`dim ${one.status}`}>${facts(one, isFolded ? count : 0)}</span>
              </button>
              <span class="row-actions">
                <button title=${t("Rename")} aria-label=${`${t("Rename")}: ${one.name}`} onClick=${() => rename(one)}>✎</button>
                <button title=${t("Branch")} aria-label=${`${t("Branch")}: ${one.name}`} onClick=${() => fork(one)}>↳</button>
                <button title=${t("Close")} aria-label=${`${t("Close")}: ${one.name}`} onClick=${() => close(one)}>×</button>
              </span>
            </li>`,
          )}
      ${hits?.length === 0 && html`<li class="dim none" role="status">${t("Nothing was found.")}</li>`}
      ${!sessions.length && !hits && html`<li class="dim none">${t("No sessions")}</li>`}
    </ul>
    <div class="panels">
      ${Object.entries(PANELS).map(
        ([name, label]) => html`<button class=${name === current ? "current" : ""} aria-current=${name === current ? "page" : null} onClick=${() => open(name)}>${t(label)}</button>`,
      )}
    </div>
  </nav>`
}

// Forks are placed below their original session; the most recently used branch comes first.
function asTree(sessions, folded) {
  const known = new Map(sessions.map((one) => [one.id, { one, children: [], at: one.last_active_at }]))
  const roots = []
  for (const node of known.values()) (known.get(node.one.parent)?.children ?? roots).push(node)
  const rows = []
  const touch = (node) => (node.at = Math.max(node.at, ...node.children.map(touch)))
  const show = (nodes, depth) => {
    for (const { one, children } of nodes.sort((a, b) => b.at - a.at)) {
      const isFolded = folded.has(one.id)
      rows.push({ one, depth, count: children.length, isFolded })
      if (!isFolded) show(children, depth + 1)
    }
  }
  roots.forEach(touch)
  show(roots, 0)
  return rows
}

function useFolded() {
  const [folded, setFolded] = useState(() => new Set(JSON.parse(localStorage.getItem("folded") ?? "[]")))
  const fold = (id) => {
    const next = new Set(folded)
    if (!next.delete(id)) next.add(id)
    setFolded(next)
    localStorage.setItem("folded", JSON.stringify([...next].slice(-200)))
  }
  return [folded, fold]
}

const facts = (one, hidden) =>
  [
    day(one.last_active_at),
    titleOf(channelOf(one)),
    one.status === "idle" ? "" : t(one.status),
    hidden ? `↳ ${hidden}` : "",
  ]
    .filter(Boolean)
    .join(" · ")

const CHANNELS = { cli: t("terminal"), api: "API" }

const titleOf = (channel) => CHANNELS[channel] ?? channel.charAt(0).toUpperCase() + channel.slice(1)

// Channel of a session; empty for sessions of clients such as this page.
function channelOf({ lane, principal }) {
  if (lane?.startsWith("cli:local:session-")) return ""
  const channel = (lane ?? principal ?? "").split(":")[0]
  return lane === null && channel === "cli" ? "" : channel
}

const day = (seconds) => {
  const at = new Date(seconds * 1000)
  const isToday = at.toDateString() === new Date().toDateString()
  return isToday
    ? at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })
    : at.toLocaleDateString([], { month: "short", day: "numeric" })
}

// Hits of a debounced search; null without words.
function useSearch(connection, words) {
  const [hits, setHits] = useState(null)
  useEffect(() => {
    if (!words.trim()) return setHits(null)
    let isWanted = true
    const timer = setTimeout(async () => {
      const found = await connection.call("search_messages", { words }).catch(() => [])
      if (isWanted) setHits(found)
    }, 200)
    return () => {
      isWanted = false
      clearTimeout(timer)
    }
  }, [words])
  return hits
}
