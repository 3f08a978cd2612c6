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
  const rename = (entry) => {
    const name = prompt(t("New name"), entry.name)
    if (name !== null) act("rename_session", { session: entry.id, name })
  }
  const fork = async (entry) => {
    const id = await act("fork_session", { session: entry.id })
    if (id) open(id)
  }
  const close = async (entry) => {
    await act("set_session_status", { session: entry.id, status: "closed" })
    if (entry.id === current) open(null)
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
            ({ entry, depth, count, isFolded }) => html`<li key=${entry.id} class=${`${entry.id === current ? "current" : ""} depth-${Math.min(depth, 4)}`} aria-level=${depth + 1}>
              ${count > 0 &&
              html`<button class="fold" aria-expanded=${!isFolded} aria-label=${`${t("Branches")}: ${entry.name}`} onClick=${() => fold(entry.id)}>${isFolded ? "▸" : "▾"}</button>`}
              <button class="session" aria-current=${entry.id === current ? "page" : null} title=${visible(entry.name)} onClick=${() => open(entry.id)}>
                <b>${depth > 0 && html`<span aria-hidden="true">↳ </span>`}${visible(entry.name) || t("New session")}</b>
                <span class=${`dim ${entry.status}`}>${facts(entry, isFolded ? count : 0)}</span>
              </button>
              <span class="row-actions">
                <button title=${t("Rename")} aria-label=${`${t("Rename")}: ${entry.name}`} onClick=${() => rename(entry)}>✎</button>
                <button title=${t("Branch")} aria-label=${`${t("Branch")}: ${entry.name}`} onClick=${() => fork(entry)}>↳</button>
                <button title=${t("Close")} aria-label=${`${t("Close")}: ${entry.name}`} onClick=${() => close(entry)}>×</button>
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
  const known = new Map(sessions.map((entry) => [entry.id, { entry, children: [], at: entry.last_active_at }]))
  const roots = []
  for (const node of known.values()) (known.get(node.entry.parent)?.children ?? roots).push(node)
  const rows = []
  const touch = (node) => (node.at = Math.max(node.at, ...node.children.map(touch)))
  const show = (nodes, depth) => {
    for (const { entry, children } of nodes.sort((a, b) => b.at - a.at)) {
      const isFolded = folded.has(entry.id)
      rows.push({ entry, depth, count: children.length, isFolded })
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

const facts = (entry, hidden) =>
  [
    day(entry.last_active_at),
    titleOf(channelOf(entry)),
    entry.status === "idle" ? "" : t(entry.status),
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
