// Shells on the server's machine, as allowed by `server.terminal`.

import { html, useEffect, useRef, useState } from "./html.mjs"
import { visible } from "./markdown.mjs"
import { t, withCode } from "./texts.mjs"
import { useCall, Wait } from "./use-call.mjs"

export function Terminals({ connection, say }) {
  const [status, , refresh] = useCall(connection, say, "terminal_status")
  const [places] = useCall(connection, say, "list_places")
  const [place, setPlace] = useState("")
  const [current, setCurrent] = useState(null)
  if (!status || !places) return html`<${Wait} />`
  if (status.mode === "off") return html`<p>${withCode(t("The terminal is switched off. Run `kore config set server.terminal sandbox` and restart Kore; `full` instead of `sandbox` gives a shell without a sandbox."))}</p>`
  const running = status.terminals.filter((terminal) => terminal.exit_code === null || terminal.id === current)
  const shown = running.find((terminal) => terminal.id === current) ?? running.at(-1)
  const begin = async (event) => {
    event.preventDefault()
    try {
      setCurrent(await connection.call("open_terminal", { place: place || places[0] }))
    } catch (error) {
      say(error)
    }
    refresh()
  }
  const close = async (id) => {
    try {
      await connection.call("close_terminal", { terminal: id })
    } catch (error) {
      say(error)
    }
    refresh()
  }
  return html`<div class="terminals">
    <form class="row" onSubmit=${begin}>
      <select aria-label=${t("Folder")} value=${place || places[0]} onChange=${(event) => setPlace(event.target.value)}>
        ${places.map((place) => html`<option value=${place}>${visible(place)}</option>`)}
      </select>
      <button class="send">${t("New terminal")}</button>
      ${running.map((terminal, n) => html`<button type="button" key=${terminal.id} aria-pressed=${terminal === shown} title=${visible(terminal.folder)} onClick=${() => setCurrent(terminal.id)}>${n + 1}</button>`)}
      ${shown && html`<button type="button" onClick=${() => close(shown.id)}>${t("Close")}</button>`}
    </form>
    <p class=${status.mode === "full" ? "bad" : "dim"}>
      ${status.mode === "full" ? `${t("Without a sandbox, as the user")} ${visible(status.user)}.` : t("In the sandbox of commands.")}
      ${" "}${t("Ctrl-F6 leaves the terminal.")}
    </p>
    ${shown && html`<${Screen} key=${shown.id} ...${{ connection, say, id: shown.id }} />`}
  </div>`
}

// Keys that are missing on a phone's keyboard.
const KEYS = [["Esc", "\x1b"], ["Tab", "\t"], ["Ctrl-C", "\x03"], ["Ctrl-D", "\x04"], ["↑", "\x1b[A"], ["↓", "\x1b[B"]]

function Screen({ connection, say, id }) {
  const host = useRef(null)
  const keys = useRef(null)
  const screen = useRef(null)
  const [title, setTitle] = useState("")
  const [ending, setEnding] = useState(null)
  const [isRead, setRead] = useState(localStorage.getItem("terminal-reader") === "yes")
  useEffect(() => {
    let isGone = false
    const open = async () => {
      try {
        const { loadStyle, TerminalScreen } = await import("./terminal-screen.mjs")
        await loadStyle()
        if (isGone) return
        const onLeave = () => keys.current?.querySelector("button")?.focus()
        screen.current = new TerminalScreen(host.current, { connection, id, isRead, onTitle: setTitle, onEnd: (code) => setEnding({ code }), onLeave, say })
        screen.current.focus()
      } catch (error) {
        say(error)
      }
    }
    open()
    return () => {
      isGone = true
      screen.current?.close()
      screen.current = null
    }
  }, [isRead])
  const type = (text) => {
    screen.current?.type(text)
    screen.current?.focus()
  }
  const toggle = (event) => {
    localStorage.setItem("terminal-reader", event.target.checked ? "yes" : "no")
    setRead(event.target.checked)
  }
  return html`<div class="terminal">
    ${title && html`<p class="dim title">${title}</p>`}
    <div class="screen" ref=${host}></div>
    ${ending && html`<p role="status">${t("The shell has ended.")} ${ending.code === null ? "" : `(${ending.code})`}</p>`}
    <p class="row keys" ref=${keys}>
      ${KEYS.map(([label, text]) => html`<button type="button" key=${label} disabled=${ending !== null} onClick=${() => type(text)}>${label}</button>`)}
      <label><input type="checkbox" checked=${isRead} onChange=${toggle} /> ${t("For screen readers")}</label>
    </p>
  </div>`
}
