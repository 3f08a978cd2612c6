// Kore's records: costs, notes, the log and the audit log.

import { html, useEffect, useLayoutEffect, useState } from "./html.mjs"
import { visible } from "./markdown.mjs"
import { t, withCode } from "./texts.mjs"
import { markUnsaved } from "./unsaved-changes.mjs"
import { dollars, useCall, Wait } from "./use-call.mjs"

const SHOWN_DAYS = 30
const WIDTH_PIXELS = 760
const HEIGHT_PIXELS = 180

export function Costs({ connection, say }) {
  const [days] = useCall(connection, say, "list_costs", { days: SHOWN_DAYS })
  if (!days) return html`<${Wait} />`
  const most = Math.max(...days.map((day) => day.cost_usd ?? 0), 0.0001)
  const sum = days.reduce((total, day) => total + (day.cost_usd ?? 0), 0)
  const step = WIDTH_PIXELS / days.length
  const spent = days.filter((day) => day.calls)
  return html`<p>${t("The last 30 days")}: $${sum.toFixed(4)}</p>
    ${sum > 0 && html`<svg class="chart" viewBox=${`0 0 ${WIDTH_PIXELS} ${HEIGHT_PIXELS}`} role="img" aria-label=${`${t("The last 30 days")}: $${sum.toFixed(4)}`}>
      ${days.map((day, n) => {
        const height = ((day.cost_usd ?? 0) / most) * (HEIGHT_PIXELS - 10)
        return html`<rect x=${n * step + 2} y=${HEIGHT_PIXELS - height} width=${step - 4} height=${height}><title>${day.day}: ${dollars(day.cost_usd)}</title></rect>`
      })}
      <line x1="0" y1=${HEIGHT_PIXELS} x2=${WIDTH_PIXELS} y2=${HEIGHT_PIXELS} />
    </svg>`}
    <table class="facts list"><thead><tr><th>${t("Day")}</th><th>${t("Costs")}</th><th>${t("Tokens")}</th><th>${t("Calls")}</th></tr></thead>
      <tbody>${spent.toReversed().map(
        (day) => html`<tr><td>${day.day}</td><td>${dollars(day.cost_usd)}</td><td>${(day.input_tokens + day.output_tokens).toLocaleString()}</td><td>${day.calls}</td></tr>`,
      )}</tbody></table>`
}

const NOTES = ["memory/MEMORY.md", "USER.md", "SOUL.md", "AGENT.md", "IDENTITY.md", "HEARTBEAT.md"]

export function Notes({ connection, say }) {
  const [name, setName] = useState(NOTES[0])
  const [note, setNote] = useState(null)
  const [text, setText] = useState("")
  const show = (newNote) => {
    setNote(newNote)
    setText(newNote.text)
  }
  useEffect(() => {
    setNote(null)
    connection.until("read_note", { name }).then(show, say)
  }, [name])
  const isChanged = note !== null && text !== note.text
  // Update together with the screen, not after it, because "Saved." may be visible already.
  useLayoutEffect(() => {
    markUnsaved(setNote, isChanged)
    return () => markUnsaved(setNote, false)
  }, [isChanged])
  const save = async (event) => {
    event.preventDefault()
    try {
      show(await connection.call("write_note", { name, text, digest: note.digest }))
      say({ message: t("Saved."), isGood: true })
    } catch (error) {
      say(error)
    }
  }
  return html`<form class="note" onSubmit=${save}>
    <p class="row">
      <select aria-label=${t("File")} value=${name} disabled=${isChanged} onChange=${(event) => setName(event.target.value)}>
        ${NOTES.map((name) => html`<option>${name}</option>`)}
      </select>
      <button class="send" disabled=${!isChanged}>${t("Save")}</button>
      ${isChanged && html`<button type="button" onClick=${() => setText(note.text)}>${t("Take back")}</button>`}
    </p>
    <textarea aria-label=${name} rows="24" spellcheck="false" disabled=${note === null} value=${text} onInput=${(event) => setText(event.target.value)}></textarea>
  </form>`
}

export function Logs({ connection, say }) {
  const [level, setLevel] = useState("info")
  const [lines] = useCall(connection, say, "read_log", { lines: 300, level })
  return html`<p><select aria-label=${t("Level")} value=${level} onChange=${(event) => setLevel(event.target.value)}>
      ${["debug", "info", "warning", "error"].map((name) => html`<option>${name}</option>`)}
    </select></p>
    ${lines?.length === 0 && html`<p class="dim">${withCode(t("There is no log yet: `kore gateway` writes it."))}</p>`}
    <${Entries} entries=${lines?.toReversed()} of=${(line) => [moment(line.ts), line.level, shown(line.text)]} />`
}

export function Audit({ connection, say }) {
  const [entries] = useCall(connection, say, "list_audit", { limit: 300 })
  if (entries?.length === 0) return html`<p class="dim">${t("Nothing was written down yet.")}</p>`
  return html`<${Entries} entries=${entries} of=${(entry) => [moment(entry.ts), entry.allowed ? "✓" : "✗", summary(entry)]} />`
}

// Facts that the row shows elsewhere, or that are meaningless to people.
const NOT_LISTED = new Set(["ts", "allowed", "hash", "prev_hash", "tool", "reason"])

// The intended action, the reason for the decision, and the other facts below.
function summary(entry) {
  const facts = Object.entries(entry)
    .filter(([key, value]) => !NOT_LISTED.has(key) && value !== null && value !== "")
    .map(([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`)
  return html`<b>${shown(entry.tool)}</b> ${shown(entry.reason)}<br /><span class="dim">${shown(facts.join(" "))}</span>`
}

function Entries({ entries, of }) {
  if (!entries) return html`<${Wait} />`
  return html`<table class="facts list entries"><tbody>
    ${entries.map((entry) => html`<tr>${of(entry).map((cell) => html`<td>${cell}</td>`)}</tr>`)}
  </tbody></table>`
}

const shown = (text) => visible(String(text ?? ""))

const moment = (seconds) => new Date(seconds * 1000).toLocaleString([], { dateStyle: "short", timeStyle: "medium" })
