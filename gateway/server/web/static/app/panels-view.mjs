// The panels: status, schedule and permissions, and a table of all panels by name.

import { html, useState } from "./html.mjs"
import { visible } from "./markdown.mjs"
import { dollars, Refusable, useCall, Wait } from "./use-call.mjs"
import { Config } from "./config-view.mjs"
import { Files } from "./files-view.mjs"
import { People } from "./people-view.mjs"
import { Plugins } from "./plugins-view.mjs"
import { Policy } from "./policy-view.mjs"
import { Audit, Costs, Logs, Notes } from "./records-view.mjs"
import { Terminals } from "./terminal-view.mjs"
import { duration, t } from "./texts.mjs"

export const PANELS = {
  ...{ status: "Status", costs: "Costs", schedule: "Schedule", memory: "Memory", files: "Files", terminal: "Terminal" },
  ...{ plugins: "Plugins", people: "People and roles", permissions: "Permissions", policy: "Policy check" },
  ...{ config: "Configuration", logs: "Logs", audit: "Audit log" },
}

export function Panel({ name, connection, say }) {
  const View = VIEWS[name]
  return html`<section class="panel" aria-label=${t(PANELS[name])}>
    <div class="column"><h2>${t(PANELS[name])}</h2><${Refusable}><${View} connection=${connection} say=${say} /><//></div>
  </section>`
}

function Status({ connection, say }) {
  const [facts] = useCall(connection, say, "status")
  if (!facts) return html`<${Wait} />`
  const spent = facts.spent_today
  const rows = [
    [t("Version"), facts.version],
    [t("Model"), facts.model],
    [t("Sandbox"), facts.sandbox],
    [t("Running for"), duration(facts.uptime_s)],
    ["RAM", `${facts.memory_mb} MB`],
    [t("At work"), facts.lanes_busy],
    [t("Messages waiting"), facts.messages_waiting],
    [t("Open questions"), facts.open_questions],
    [t("Spent today"), `${dollars(spent.cost_usd)} · ${(spent.input_tokens + spent.output_tokens).toLocaleString()} ${t("tokens")} · ${spent.calls} ${t("calls")}`],
    ...Object.entries(facts.channels).map(([name, way]) => [name, way.state]),
  ]
  return html`<table class="facts"><tbody>
    ${rows.map(([name, value]) => html`<tr><th scope="row">${name}</th><td>${visible(String(value ?? "–"))}</td></tr>`)}
  </tbody></table>`
}

function Schedule({ connection, say }) {
  const [jobs, act] = useCall(connection, say, "list_jobs")
  const [when, setWhen] = useState("")
  const [text, setText] = useState("")
  const [isTask, setTask] = useState(false)
  const add = async (event) => {
    event.preventDefault()
    const key = [...crypto.getRandomValues(new Uint8Array(8))].join("-")
    if (!(await act("add_job", { job: { key, when, text, is_task: isTask } }))) return
    setWhen("")
    setText("")
  }
  if (!jobs) return html`<${Wait} />`
  const change = (job, kind, label) =>
    html`<button aria-label=${`${t(label)}: ${job.title}`} onClick=${() => act("change_job", { number: job.id, change: kind })}>${t(label)}</button>`
  return html`<form class="row" onSubmit=${add}>
      <input required class="wide" aria-label=${t("When")} placeholder=${t("tomorrow 9:00, every weekday at 8 …")} value=${when} onInput=${(event) => setWhen(event.target.value)} />
      <input required class="wide" aria-label=${t("What")} placeholder=${t("What")} value=${text} onInput=${(event) => setText(event.target.value)} />
      <label><input type="checkbox" checked=${isTask} onChange=${(event) => setTask(event.target.checked)} /> ${t("a task for the agent")}</label>
      <button class="send">${t("Add")}</button>
    </form>
    ${jobs.length === 0 && html`<p class="dim">${t("Nothing is scheduled.")}</p>`}
    <ul class="cards">
      ${jobs.map(
        (job) => html`<li key=${job.id}>
          <b>${job.id}. ${visible(job.title)}</b>
          <p class="dim">${visible(job.rule_in_words ?? "")} ${job.next_at ? `· ${moment(job.next_at)}` : ""} · ${t(job.state)}</p>
          ${job.last && html`<p class="dim">${visible(String(job.last))}</p>`}
          <p class="actions">
            ${change(job, "run", "Run now")}
            ${job.state === "paused" ? change(job, "resume", "Continue") : change(job, "pause", "Pause")}
            ${change(job, "remove", "Remove")}
          </p>
        </li>`,
      )}
    </ul>`
}

function Permissions({ connection, say }) {
  const [grants, act] = useCall(connection, say, "list_grants")
  if (!grants) return html`<${Wait} />`
  return html`${grants.length === 0 && html`<p class="dim">${t("Nothing is allowed for good.")}</p>`}
    <ul class="cards">
      ${grants.map(
        (grant) => html`<li key=${grant.id}>
          <b>${visible(grant.title)}</b>
          <p class="dim">${visible(grant.folder ?? "")} · ${grant.session ? t("Allow for this session") : t("Always")} · ${moment(grant.granted_at)}</p>
          <p class="actions"><button aria-label=${`${t("Revoke")}: ${grant.title}`} onClick=${() => act("revoke_grants", { grant: grant.id })}>${t("Revoke")}</button></p>
        </li>`,
      )}
    </ul>`
}

const moment = (seconds) => new Date(seconds * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })

const VIEWS = {
  ...{ status: Status, costs: Costs, schedule: Schedule, memory: Notes, people: People, files: Files, terminal: Terminals, plugins: Plugins },
  ...{ permissions: Permissions, policy: Policy, config: Config, logs: Logs, audit: Audit },
}
