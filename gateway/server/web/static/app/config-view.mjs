// The settings, with search. Each change is checked and shown before it is made.

import { html, useEffect, useRef, useState } from "./html.mjs"
import { visible } from "./markdown.mjs"
import { t } from "./texts.mjs"
import { Failure, useCall, Wait } from "./use-call.mjs"

const EFFECTS = {
  now: "Changed, and in use.",
  restart: "Changed. Restart Kore to use it.",
  none: "Saved. It changes nothing now.",
}
const SECRET = /(token|secret|key|keys|password)$/i

export function Config({ connection, say }) {
  const [facts, , refresh] = useCall(connection, say, "list_settings")
  const [words, setWords] = useState("")
  const [open, setOpen] = useState(null)
  const [other, setOther] = useState("")
  if (!facts) return html`<${Wait} />`
  const close = () => {
    setOpen(null)
    refresh()
  }
  const wanted = words.trim().toLowerCase()
  const shown = facts.settings.filter((setting) => setting.key.includes(wanted))
  const begin = (event) => {
    event.preventDefault()
    setOpen({ key: other.trim(), value: null, own: null, choices: [], is_secret: SECRET.test(other.trim()), isOther: true })
  }
  return html`<p class="dim">${t("Changes go to")} <code>${visible(facts.file)}</code></p>
    ${facts.problem && html`<p class="bad" role="alert">${t("The file has an error; Kore uses the previous settings:")} ${visible(facts.problem)}</p>`}
    <p><input type="search" class="whole" aria-label=${t("Search")} placeholder=${t("Search")} value=${words} onInput=${(event) => setWords(event.target.value)} /></p>
    <table class="facts list settings"><tbody>
      ${shown.map((row) => html`<${Row} key=${row.key} ...${{ row, isOpen: open?.key === row.key, connection, say, close, setOpen }} />`)}
    </tbody></table>
    <h3>${t("A key inside a list or a map")}</h3>
    <form class="row" onSubmit=${begin}>
      <input required class="wide" spellcheck="false" aria-label=${t("Key")} placeholder="model_list.NAME.api_key" value=${other} onInput=${(event) => setOther(event.target.value)} />
      <button>${t("Change")}</button>
    </form>
    ${open?.isOther && html`<${ChangeSetting} key=${open.key} ...${{ row: open, connection, say, close }} />`}`
}

function Row({ row, isOpen, connection, say, close, setOpen }) {
  const shown = row.is_secret && row.value ? t("a secret") : JSON.stringify(row.value)
  return html`<tr>
      <th scope="row">${visible(row.key)}<br /><span class="dim from">${row.locked ? visible(row.locked) : row.from === "default" ? t("default") : visible(row.from)}</span></th>
      <td><code>${visible(shown)}</code></td>
      <td>${!row.locked && html`<button type="button" aria-expanded=${isOpen} aria-label=${`${t("Change")}: ${row.key}`} onClick=${() => (isOpen ? close() : setOpen(row))}>${t("Change")}</button>`}</td>
    </tr>
    ${isOpen && html`<tr><td colspan="3"><${ChangeSetting} ...${{ row, connection, say, close }} /></td></tr>`}`
}

function ChangeSetting({ row, connection, say, close }) {
  const [text, setText] = useState(() => textOf(row))
  const [checked, setChecked] = useState(null)
  const [error, setError] = useState(null)
  const field = useRef(null)
  useEffect(() => field.current?.focus(), [checked])
  const check = async (value) => {
    setError(null)
    try {
      setChecked({ ...(await connection.call("check_setting", { key: row.key, value })), value })
    } catch (refused) {
      setError(refused)
    }
  }
  const submit = (event) => {
    event.preventDefault()
    check(text)
  }
  if (checked) return html`<${ConfirmChange} ...${{ connection, say, checked, close, back: () => setChecked(null) }} />`
  const onInput = (event) => setText(event.target.value)
  const label = row.is_secret ? `${row.key} (${t("a secret")})` : row.key
  const input = row.choices.length
    ? html`<select ref=${field} aria-label=${label} value=${text} onChange=${onInput}>${row.choices.map((choice) => html`<option>${choice}</option>`)}</select>`
    : row.is_secret
      ? html`<input ref=${field} type="password" autocomplete="off" required aria-label=${label} value=${text} onInput=${onInput} />`
      : text.includes("\n") || text.length > 60
        ? html`<textarea ref=${field} rows="10" spellcheck="false" aria-label=${label} value=${text} onInput=${onInput}></textarea>`
        : html`<input ref=${field} spellcheck="false" autocomplete="off" aria-label=${label} value=${text} onInput=${onInput} />`
  return html`<form class="install setting" onSubmit=${submit}>
    ${row.isOther && html`<b>${visible(row.key)}</b>`}
    ${input}
    <p class="actions"><button class="send">${t("Check")}</button>
      ${(row.is_set || row.isOther) && html`<button type="button" onClick=${() => check(null)}>${t("Remove from the file")}</button>`}
      <button type="button" onClick=${close}>${t("Cancel")}</button></p>
    ${error && html`<${Failure} error=${error} leave=${() => setError(null)} />`}
  </form>`
}

// Old and new value of a change; `checked` is the result of `check_setting` with the `value`.
export function ConfirmChange({ connection, say, checked, close, back }) {
  const [isConfirmed, setConfirmed] = useState(false)
  const [error, setError] = useState(null)
  const heading = useRef(null)
  useEffect(() => heading.current?.focus(), [])
  const change = async (event) => {
    event.preventDefault()
    setError(null)
    try {
      const { key, value, proposal } = checked
      const facts = await connection.call("change_setting", { key, value, proposal, confirmed: isConfirmed })
      say({ message: [t(EFFECTS[facts.effect]), ...facts.notes].join(" "), isGood: true })
      close()
    } catch (refused) {
      setError(refused)
    }
  }
  const shown = (value) => html`<pre>${value === null ? t("not set") : visible(typeof value === "string" ? value : JSON.stringify(value, null, 1))}</pre>`
  return html`<form class="install setting" onSubmit=${change}>
    <h4 tabindex="-1" ref=${heading}>${visible(checked.key)}</h4>
    <div class="sides"><div><span class="dim">${t("Now")}</span>${shown(checked.old)}</div><div><span class="dim">${t("Then")}</span>${shown(checked.new)}</div></div>
    ${checked.secrets.length > 0 && html`<p class="dim">${t("The secret is kept in secrets.json.")}</p>`}
    ${checked.notes.map((note) => html`<p class="dim">${visible(note)}</p>`)}
    <p>${t({ now: "It counts at once.", restart: "It counts after a restart of Kore.", none: "It changes nothing now." }[checked.effect])}</p>
    ${checked.widens && html`<label class="widens"><span><input type="checkbox" required checked=${isConfirmed} onChange=${(event) => setConfirmed(event.target.checked)} />
      ${" "}${t("This setting decides what Kore may do or spend, where it sends data, who may reach it or what it starts. I have compared both values.")}</span></label>`}
    <p class="actions"><button class="send" disabled=${checked.widens && !isConfirmed}>${t("Change")}</button>
      <button type="button" onClick=${back}>${t("Back")}</button></p>
    ${error && html`<${Failure} error=${error} leave=${back} />`}
  </form>`
}

function textOf(row) {
  const value = row.is_set ? row.own : row.value
  if (row.is_secret || value === null || value === undefined) return row.choices[0] ?? ""
  return typeof value === "string" ? value : JSON.stringify(value, null, typeof value === "object" ? 1 : 0)
}
