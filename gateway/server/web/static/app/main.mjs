// The page: login, list of sessions, and a conversation or a panel.

import { Chat } from "./chat-view.mjs"
import { connect, hasKey, login, logout } from "./connection.mjs"
import { pathOf, shortPath } from "./folders.mjs"
import { html, render, useEffect, useMemo, useRef, useState } from "./html.mjs"
import { BellIcon } from "./icons.mjs"
import { visible } from "./markdown.mjs"
import { canNotify, isOn, MARKS, notify, switchOn } from "./notifications.mjs"
import { Panel, PANELS } from "./panels-view.mjs"
import { Sidebar } from "./sidebar-view.mjs"
import { LANGUAGE, t, withCode } from "./texts.mjs"
import { askBeforeUnload, mayLeave } from "./unsaved-changes.mjs"

// Chat commands change sessions without an event, so the list is also refreshed periodically.
const REFRESH_INTERVAL_MS = 300_000
const REFRESH_DELAY_MS = 150
const NOTICE_TIMEOUT_MS = 8_000

// Events that change the list of sessions.
const LISTED = ["session_changed", "session_created", "session_closed", "session_start", "turn_end", "approval_asked", "approval_answered", "done", "attention"]

function App() {
  const [isIn, setIn] = useState(null)
  const [refused, setRefused] = useState("")
  useEffect(() => void enter(setRefused).then(setIn), [])
  if (isIn === null) return html`<p class="dim center">${t("Connecting …")}</p>`
  if (!isIn) return html`<${Login} refused=${refused} onIn=${() => setIn(true)} />`
  return html`<${Workbench} onOut=${() => setIn(false)} />`
}

// Logs in with the code in the address, which is then removed, or with a stored key. `refuse` is
// called with the reason if the code is invalid.
async function enter(refuse) {
  if (!isSecureContext) {
    refuse(t("This page needs https, or an address of this machine such as 127.0.0.1."))
    return false
  }
  const code = /^#login=([\w-]+)$/.exec(location.hash)?.[1]
  if (code) {
    history.replaceState(null, "", location.pathname)
    try {
      await login(code)
      return true
    } catch (error) {
      // Shown unless this browser has a stored key.
      refuse(reason(error))
    }
  }
  return hasKey().catch(() => false)
}

const reason = (error) =>
  error.code === "foreign"
    ? t("Another program answers at this address.")
    : [error.message || t("No connection; try again."), error.hint].filter(Boolean).join(" ")

function Login({ refused, onIn }) {
  const [token, setToken] = useState("")
  const [error, setError] = useState(refused)
  useEffect(() => {
    // Opening a login link in this tab changes only the fragment.
    const onLink = () => location.reload()
    addEventListener("hashchange", onLink)
    return () => removeEventListener("hashchange", onLink)
  }, [])
  const submit = async (event) => {
    event.preventDefault()
    try {
      await login(token.trim())
      onIn()
    } catch (error) {
      setError(reason(error))
    }
  }
  return html`<main class="login">
    <form onSubmit=${submit}>
      <h1><img src="/web/icon.svg" alt="" width="40" height="40" /> Kore</h1>
      <p>${withCode(t("Run `kore web` for a link that lets this browser in, or enter a token (`kore token add NAME --scope admin`)."))}</p>
      <label>${t("Token")} <input type="password" autocomplete="current-password" value=${token} onInput=${(event) => setToken(event.target.value)} /></label>
      <button class="send" disabled=${!token}>${t("Log in")}</button>
      ${error && html`<p role="alert" class="bad">${withCode(error)}</p>`}
    </form>
  </main>`
}

function Workbench({ onOut }) {
  const [state, setState] = useState("")
  const [said, setSaid] = useState(null)
  const [place, setPlace] = useState(placeOfAddress)
  const [sessions, setSessions] = useState([])
  const [facts, setFacts] = useState({})
  const [isMenuOpen, setMenuOpen] = useState(false)
  const [mark, setMark] = useState("")
  const [isNotified, setNotified] = useState(isOn)
  const menu = useRef()
  // Sessions that were opened here; others belong to other screens and chats.
  const opened = useRef(new Set())
  const onAttention = useRef()
  useEffect(() => {
    const onShown = () => document.hidden || setMark("")
    document.addEventListener("visibilitychange", onShown)
    return () => document.removeEventListener("visibilitychange", onShown)
  }, [])
  const connection = useMemo(() => connect(setState), [])
  useEffect(() => () => connection.close(), [])
  useEffect(() => state === "denied" && onOut(), [state])
  const say = (error) => setSaid({ text: error.hint ? `${error.message} ${error.hint}` : error.message, isGood: error.isGood })
  // A notice belongs to the place where it appeared.
  useEffect(() => setSaid(null), [place])
  useEffect(() => {
    if (!said) return
    const timer = setTimeout(() => setSaid(null), NOTICE_TIMEOUT_MS)
    return () => clearTimeout(timer)
  }, [said])
  const refresh = () => connection.call("list_sessions", { limit: 100 }).then(setSessions, () => {})
  useEffect(() => {
    if (state !== "open") return
    refresh()
    connection.call("status").then(setFacts, () => {})
    const timer = setInterval(refresh, REFRESH_INTERVAL_MS)
    let soon = 0
    const onNews = (news) => {
      if (news?.event?.type === "attention") onAttention.current(news.event.reason, news.session)
      soon ||= setTimeout(() => {
        soon = 0
        refresh()
      }, REFRESH_DELAY_MS)
    }
    // Refresh the list whenever the stream opens: it includes no past events.
    const stop = connection.follow("follow_sessions", () => ({ kinds: LISTED }), onNews, say, onNews)
    return () => {
      stop()
      clearInterval(timer)
      clearTimeout(soon)
    }
  }, [state])
  const open = (id) => {
    if (id !== place && !mayLeave()) return
    refresh()
    setPlace(id)
    setMenuOpen(false)
    history.pushState(null, "", id ? `#${id}` : location.pathname)
  }
  useEffect(() => {
    const onBack = () => {
      if (mayLeave()) setPlace(placeOfAddress())
      else history.pushState(null, "", place ? `#${place}` : location.pathname)
    }
    addEventListener("popstate", onBack)
    return () => removeEventListener("popstate", onBack)
  }, [place])
  const session = isPanel(place) ? null : place
  const current = sessions.find((info) => info.id === session)
  if (session) opened.current.add(session)
  onAttention.current = (reason, id) => {
    if (!document.hidden || !opened.current.has(id)) return
    setMark(MARKS[reason])
    notify(reason, id, sessions.find((info) => info.id === id)?.name ?? "", open)
  }
  const title = isPanel(place) ? t(PANELS[place]) : (current?.name || t("New session"))
  useEffect(() => void (document.title = `${mark}${title} · Kore`), [title, mark])
  const leave = () => mayLeave() && logout().then(onOut)
  const onKey = (event) => {
    if (event.key !== "Escape" || !isMenuOpen) return
    setMenuOpen(false)
    menu.current.focus()
  }
  return html`<div class=${`workbench ${isMenuOpen ? "menu-open" : ""}`} onKeyDown=${onKey}>
    ${!isPanel(place) && html`<a class="skip" href="#feed" onClick=${skip}>${t("Skip to the conversation")}</a>`}
    <header>
      <button class="menu" ref=${menu} aria-label=${t("Sessions")} aria-expanded=${isMenuOpen} onClick=${() => setMenuOpen(!isMenuOpen)}>☰</button>
      <h1>${title}</h1>
      ${current?.folder && html`<span class="dim folder" title=${visible(pathOf(current.folder))}>${visible(shortPath(current.folder, facts.home))}</span>`}
      <span class="dim model">${facts.model ?? ""}</span>
      ${canNotify() && html`<button title=${t("Notify me while I look elsewhere")} aria-label=${t("Notify me while I look elsewhere")} aria-pressed=${isNotified} onClick=${() => switchOn(!isNotified).then(setNotified)}><${BellIcon} isOff=${!isNotified} /></button>`}
      <button title=${t("Theme")} aria-label=${t("Theme")} onClick=${nextTheme}>◐</button>
      <button onClick=${leave}>${t("Log out")}</button>
    </header>
    <${Sidebar} connection=${connection} sessions=${sessions} current=${place} open=${open} refresh=${refresh} say=${say} />
    <main>
      ${OFFLINE[state] && html`<p class="offline" role="status">${t(OFFLINE[state])}</p>`}
      ${isPanel(place)
        ? html`<${Panel} key=${place} name=${place} connection=${connection} say=${say} />`
        : html`<${Chat} connection=${connection} session=${session} onSession=${open} onTurn=${refresh} folder=${current?.folder} home=${facts.home} say=${say} />`}
    </main>
    ${said && html`<p class=${`toast ${said.isGood ? "good" : ""}`} role="alert">${said.text}</p>`}
  </div>`
}

const OFFLINE = {
  closed: "No connection; trying again …",
  foreign: "Another program answers at this address; do not reload this page. Trying again …",
}

// The session or panel in the address; null if there is none.
const placeOfAddress = () =>
  /^#(\d{8}_\d{6}(_\d+)?|[a-z]+)$/.test(location.hash) ? location.hash.slice(1) : null

const isPanel = (place) => place !== null && Object.hasOwn(PANELS, place)

function skip(event) {
  event.preventDefault()
  document.getElementById("feed")?.focus()
}

const THEMES = ["", "light", "dark"]

function nextTheme() {
  const root = document.documentElement
  const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "") + 1) % THEMES.length]
  root.dataset.theme = next
  localStorage.setItem("theme", next)
}

document.documentElement.dataset.theme = localStorage.getItem("theme") ?? ""
document.documentElement.lang = LANGUAGE
askBeforeUnload()
render(html`<${App} />`, document.getElementById("app"))
