// An xterm.js screen for one terminal of the server. Loaded when a terminal is shown.
//
// Output of programs is untrusted: it may draw, and nothing else. xterm.js by itself has no access to
// the clipboard, no window operations and no file transfer; links open after a click and a question.

import "./adopted-style.mjs"
import { FitAddon } from "../vendor/xterm/addon-fit.mjs"
import { Terminal } from "../vendor/xterm/xterm.mjs"
import { visible } from "./markdown.mjs"
import { t } from "./texts.mjs"

const STYLE = "/web/vendor/xterm/xterm.css"
const MAX_SCROLLBACK_LINES = 5_000
// Keys are collected for this long and sent together, because the server limits calls.
const INPUT_INTERVAL_MS = 30
const MAX_INPUT_CHARS = 60_000
const RESIZE_INTERVAL_MS = 150

export async function loadStyle() {
  if (document.querySelector(`link[href="${STYLE}"]`)) return
  const link = document.createElement("link")
  link.rel = "stylesheet"
  link.href = STYLE
  const loaded = new Promise((resolve, reject) => {
    link.onload = resolve
    link.onerror = () => reject(new Error(`${STYLE} failed to load`))
  })
  document.head.append(link)
  await loaded
}

export class TerminalScreen {
  constructor(host, { connection, id, isRead, onTitle, onEnd, onLeave, say }) {
    Object.assign(this, { host, connection, id, onEnd, say, pending: "", isReplay: false, isSending: false })
    this.terminal = new Terminal({
      scrollback: MAX_SCROLLBACK_LINES,
      screenReaderMode: isRead,
      fontFamily: getComputedStyle(host).fontFamily,
      fontSize: 14,
      cursorBlink: false,
      linkHandler: { activate: (event, address) => openLink(address) },
      theme: themeOf(host),
    })
    this.fit = new FitAddon()
    this.terminal.loadAddon(this.fit)
    this.terminal.open(host)
    this.terminal.onTitleChange((title) => onTitle(visible(title).slice(0, 80)))
    // Replayed output contains queries that were already answered when it was new.
    this.terminal.onData((data) => this.isReplay || this.type(data))
    this.terminal.attachCustomKeyEventHandler((event) => this.isOwnKey(event, onLeave))
    host.addEventListener("paste", (event) => this.paste(event), true)
    this.sizes = new ResizeObserver(() => this.fit.fit())
    this.sizes.observe(host)
    this.themes = new MutationObserver(() => this.paint())
    this.themes.observe(document.documentElement, { attributeFilter: ["data-theme"] })
    this.dark = matchMedia("(prefers-color-scheme: dark)")
    this.dark.onchange = () => this.paint()
    this.fit.fit()
    this.terminal.onResize(() => this.resize())
    this.resize()
    this.leave = connection.follow("follow_terminal", () => ({ terminal: id }), (item) => this.take(item), (error) => {
      say(error)
      onEnd(null)
    })
  }

  // Resolves once the item is drawn, which lets the server send more.
  take(item) {
    if ("exit_code" in item) {
      this.leave()
      this.onEnd(item.exit_code)
      return undefined
    }
    const isScreen = "screen" in item
    if (isScreen) {
      this.isReplay = true
      this.terminal.reset()
    }
    return new Promise((resolve) => {
      this.terminal.write(isScreen ? item.screen : item.output, () => {
        if (isScreen) this.isReplay = false
        resolve()
      })
    })
  }

  type(text) {
    this.pending += text
    if (!this.isSending) this.send()
  }

  // One call at a time, so that keys stay in order. Failed input is dropped, so that it is not typed
  // unexpectedly later.
  async send() {
    this.isSending = true
    while (this.pending) {
      const text = this.pending.slice(0, MAX_INPUT_CHARS)
      this.pending = this.pending.slice(MAX_INPUT_CHARS)
      try {
        await this.connection.call("write_terminal", { terminal: this.id, text })
        await pause(INPUT_INTERVAL_MS)
      } catch (error) {
        this.pending = ""
        this.say(error)
      }
    }
    this.isSending = false
  }

  resize() {
    clearTimeout(this.resizing)
    this.resizing = setTimeout(() => {
      const { cols, rows } = this.terminal
      // Fails for a terminal that has ended.
      this.connection.call("resize_terminal", { terminal: this.id, columns: cols, rows }).catch(() => {})
    }, RESIZE_INTERVAL_MS)
  }

  // Returns false to leave the key to the browser.
  isOwnKey(event, onLeave) {
    if (event.type !== "keydown" || !(event.ctrlKey || event.metaKey) || event.altKey) return true
    if (event.key === "F6") {
      event.preventDefault()
      onLeave()
      return false
    }
    if (event.key === "v") return false
    return !(event.key === "c" && this.terminal.hasSelection())
  }

  // Removes control characters, so that pasted text cannot end the bracketed paste and run a command.
  paste(event) {
    event.preventDefault()
    event.stopImmediatePropagation()
    const text = (event.clipboardData?.getData("text/plain") ?? "").replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g, "")
    const isCommand = /[\r\n]/.test(text) && !this.terminal.modes.bracketedPasteMode
    if (text && (!isCommand || confirm(t("Paste several lines? Each may run as a command.")))) this.terminal.paste(text)
  }

  paint() {
    this.terminal.options.theme = themeOf(this.host)
  }

  focus() {
    this.terminal.focus()
  }

  close() {
    this.leave()
    clearTimeout(this.resizing)
    this.sizes.disconnect()
    this.themes.disconnect()
    this.dark.onchange = null
    this.terminal.dispose()
  }
}

function openLink(address) {
  if (!/^https?:\/\//i.test(address)) return
  if (confirm(`${t("Open this address?")}\n${visible(address)}`)) open(address, "_blank", "noopener,noreferrer")
}

const LIGHT = {
  ...{ black: "#1d1f20", red: "#a3261b", green: "#1c6b3a", yellow: "#7a5600", blue: "#1f55a5", magenta: "#8b2f8f", cyan: "#0b6470", white: "#6d7276" },
  ...{ brightBlack: "#5d6165", brightRed: "#b8392d", brightGreen: "#237a45", brightYellow: "#8a6300", brightBlue: "#2a66bd", brightMagenta: "#9d3fa1", brightCyan: "#117785", brightWhite: "#3b3f42" },
}

const DARK = {
  ...{ black: "#3b4045", red: "#ff9d90", green: "#98d0a2", yellow: "#e8c27d", blue: "#93bdf3", magenta: "#d7a1e8", cyan: "#7fd0dc", white: "#c9c6bf" },
  ...{ brightBlack: "#8a9096", brightRed: "#ffb5ab", brightGreen: "#b2e0bb", brightYellow: "#f3d69d", brightBlue: "#b2d0f7", brightMagenta: "#e5bff1", brightCyan: "#a3e0e9", brightWhite: "#ffffff" },
}

function themeOf(host) {
  const { color, backgroundColor } = getComputedStyle(host)
  const [red, green, blue] = backgroundColor.match(/\d+/g).map(Number)
  const isDark = red + green + blue < 384
  return { ...(isDark ? DARK : LIGHT), foreground: color, background: backgroundColor, cursor: color, selectionBackground: isDark ? "#4a5a66" : "#bcd6ea" }
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
