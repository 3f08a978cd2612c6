// People who may write to Kore, and their roles.

import { html, useState } from "./html.mjs"
import { ConfirmChange } from "./config-view.mjs"
import { visible } from "./markdown.mjs"
import { t } from "./texts.mjs"
import { useCall, Wait } from "./use-call.mjs"

export function People({ connection, say }) {
  const [people, act] = useCall(connection, say, "list_people")
  const [facts, , refresh] = useCall(connection, say, "list_roles")
  const [code, setCode] = useState("")
  if (!people || !facts) return html`<${Wait} />`
  const approve = (event) => {
    event.preventDefault()
    act("approve_pairing", { code: code.trim() })
    setCode("")
  }
  const role = (who, fallback, name) => html`<${RoleOf} key=${who} ...${{ connection, say, facts, who, fallback, name, refresh }} />`
  const row = (person, state) => html`<li key=${`${state}/${person.id}`}>
    <b>${visible(person.name || person.id)}</b> <span class="dim">${visible(person.id)} · ${t(state)}</span>
    ${state === "owner" && html`<p class="dim">${t("Role")}: build</p>`}
    ${state === "may write" && role(person.id, "general", person.name || person.id)}
    <p class="actions"><button aria-label=${`${t("Remove")}: ${person.name}`} onClick=${() => act("revoke_pairing", { who: person.id })}>${t("Remove")}</button></p>
  </li>`
  const ids = new Set(people.paired.map((person) => person.id))
  const others = Object.keys(facts.assigned).filter((who) => !ids.has(who))
  return html`<form class="row" onSubmit=${approve}>
      <input required aria-label=${t("Code of a person who asks")} placeholder=${t("Code of a person who asks")} value=${code} onInput=${(event) => setCode(event.target.value)} />
      <button class="send">${t("Let in")}</button>
    </form>
    <ul class="cards">
      ${people.asking.map((person) => row(person, "asks"))}
      ${people.paired.map((person) => row(person, person.owner ? "owner" : "may write"))}
    </ul>
    ${!people.asking.length && !people.paired.length && html`<p class="dim">${t("Nobody has asked.")}</p>`}
    <h3>${t("Roles of chats, channels and others")}</h3>
    <ul class="cards">${others.map((who) => html`<li key=${who}><b>${visible(who)}</b>${role(who, null, who)}</li>`)}</ul>
    <${NewRole} ...${{ connection, say, facts, refresh }} />
    <h3>${t("What each role may do")}</h3>
    ${facts.roles.map((role) => html`<${Role} key=${role.name} role=${role} />`)}`
}

// Role of a person, chat or channel; `fallback` applies if none is assigned.
function RoleOf({ connection, say, facts, who, fallback, name, refresh }) {
  const assigned = Object.hasOwn(facts.assigned, who) ? facts.assigned[who] : ""
  const [checked, setChecked] = useState(null)
  const choose = (event) => checkRole(connection, who, event.target.value || null).then(setChecked, say)
  const close = () => {
    setChecked(null)
    refresh()
  }
  return html`<p><label>${t("Role")} <select aria-label=${`${t("Role")}: ${name}`} value=${checked ? (checked.value ?? "") : assigned} disabled=${checked !== null} onChange=${choose}>
      <option value="">${fallback ? `${fallback} (${t("default")})` : t("no role of its own")}</option>
      ${facts.roles.map((entry) => html`<option value=${entry.name}>${visible(entry.name)}</option>`)}
    </select></label></p>
    ${checked && html`<${ConfirmChange} ...${{ connection, say, checked, close, back: () => setChecked(null) }} />`}`
}

function NewRole({ connection, say, facts, refresh }) {
  const [who, setWho] = useState("")
  const [role, setRole] = useState("general")
  const [checked, setChecked] = useState(null)
  const begin = (event) => {
    event.preventDefault()
    checkRole(connection, who.trim(), role).then(setChecked, say)
  }
  const close = () => {
    setChecked(null)
    setWho("")
    refresh()
  }
  if (checked) return html`<${ConfirmChange} ...${{ connection, say, checked, close, back: () => setChecked(null) }} />`
  return html`<form class="row" onSubmit=${begin}>
    <input required class="wide" spellcheck="false" aria-label=${t("Person, chat or channel")} placeholder="CHANNEL:ID, CHANNEL:chat:ID, CHANNEL" value=${who} onInput=${(event) => setWho(event.target.value)} />
    <select aria-label=${t("Role")} value=${role} onChange=${(event) => setRole(event.target.value)}>${facts.roles.map((entry) => html`<option value=${entry.name}>${visible(entry.name)}</option>`)}</select>
    <button>${t("Give this role")}</button>
  </form>`
}

const checkRole = async (connection, who, value) => ({ ...(await connection.call("check_setting", { key: `access.roles.${who}`, value })), value })

function Role({ role }) {
  const tools = Object.entries(role.tools)
  const limits = Object.entries(role.agents).map(([key, value]) => `${key}: ${value}`)
  return html`<details class="role"><summary><b>${visible(role.name)}</b> <span class="dim">${role.source === "built in" ? t("built in") : visible(role.source)}</span></summary>
    ${limits.length > 0 && html`<p class="dim">${t("Narrowed by the setting agents:")} ${visible(limits.join(", "))}</p>`}
    <table class="facts list"><tbody>${tools.map(([name, scopes]) => html`<tr><th scope="row">${name === "*" ? t("all other tools") : visible(name)}</th><td>${visible(line(scopes))}</td></tr>`)}</tbody></table>
  </details>`
}

function line(scopes) {
  const words = [scopes.allow ? t("allowed") : t("denied")]
  if (scopes.ask) words.push(t("asks each time"))
  if (scopes.new_files_only) words.push(t("new files only"))
  for (const name of ["paths", "commands", "hosts"]) {
    if (scopes[name]) words.push(`${t(name)}: ${scopes[name].join(", ") || "–"}`)
  }
  return words.join("; ")
}
