// Dry run of the policy for a call.

import { html, useState } from "./html.mjs"
import { visible } from "./markdown.mjs"
import { t } from "./texts.mjs"
import { Failure, useCall, Wait } from "./use-call.mjs"

const MODES = ["plan", "ask", "accept-edits", "auto"]
const VERDICTS = { allow: "runs without asking", ask: "asks first", deny: "is refused" }
const SIGNS = { allow: "✓", ask: "?", deny: "✗" }

export function Policy({ connection, say }) {
  const [facts] = useCall(connection, say, "list_roles")
  const [tool, setTool] = useState("exec")
  const [text, setText] = useState("")
  const [role, setRole] = useState("build")
  const [mode, setMode] = useState("")
  const [channel, setChannel] = useState("cli")
  const [result, setResult] = useState(null)
  const [error, setError] = useState(null)
  const [status] = useCall(connection, say, "status")
  const channels = [...new Set(["cli", ...Object.keys(status?.channels ?? {}).map((name) => name.split(":")[0])])]
  if (!facts) return html`<${Wait} />`
  const tools = [...new Set(facts.roles.flatMap((role) => Object.keys(role.tools)))].filter((name) => name !== "exec" && !name.includes("*"))
  const check = async (event) => {
    event?.preventDefault()
    setResult(null)
    setError(null)
    try {
      const args = tool === "exec" ? { command: text } : argumentsOf(text)
      setResult(await connection.call("check_policy", { tool, arguments: args, role, channel, ...(mode ? { mode } : {}) }))
    } catch (refused) {
      setError(refused)
    }
  }
  const choice = (label, value, set, options) => html`<label>${label}
    <select value=${value} onChange=${(event) => set(event.target.value)}>${options.map(([name, shown]) => html`<option value=${name}>${visible(shown)}</option>`)}</select></label>`
  const same = (names) => names.map((name) => [name, name])
  return html`<p class="dim">${t("What would happen to a command or another call. Nothing runs.")}</p>
    <form class="install policy" onSubmit=${check}>
      ${choice(t("Call"), tool, setTool, [["exec", t("Command")], ...same(tools.toSorted())])}
      ${tool === "exec"
        ? html`<label>${t("Command")} <input required spellcheck="false" autocomplete="off" value=${text} onInput=${(event) => setText(event.target.value)} placeholder="make test && git push" /></label>`
        : html`<label>${t("Arguments, as JSON")} <textarea required rows="3" spellcheck="false" value=${text} onInput=${(event) => setText(event.target.value)} placeholder='{"path": "notes.txt"}'></textarea></label>`}
      <div class="row">
        ${choice(t("Role"), role, setRole, same(facts.roles.map((entry) => entry.name)))}
        ${choice(t("Mode"), mode, setMode, [["", t("as the channel begins")], ...same(MODES)])}
        ${choice(t("Channel"), channel, setChannel, same(channels))}
      </div>
      <p><button class="send">${t("Check")}</button></p>
    </form>
    ${error && html`<${Failure} error=${error} leave=${() => setError(null)} />`}
    <div role="status">${result && html`<${Verdict} result=${result} />`}</div>`
}

function Verdict({ result }) {
  return html`<p class=${`verdict ${result.decision}`}><b>${SIGNS[result.decision]} ${t(VERDICTS[result.decision])}</b> <span class="dim">(${result.rule}, ${t("Mode")}: ${result.mode})</span></p>
    <p>${visible(result.reason)}</p>
    ${result.verdicts.length > 0 && html`<details><summary>${t("What each rule says")}</summary>
      <table class="facts list verdicts"><thead><tr><th>${t("Verdict")}</th><th>${t("Rule")}</th><th>${t("Part")}</th><th>${t("Reason")}</th></tr></thead>
        <tbody>${result.verdicts.map((verdict) => html`<tr><td>${t(VERDICTS[verdict.decision])}</td><td>${verdict.rule}</td><td>${visible(verdict.part)}</td><td>${visible(verdict.reason)}</td></tr>`)}</tbody>
      </table></details>`}`
}

function argumentsOf(text) {
  try {
    const value = JSON.parse(text)
    if (value !== null && typeof value === "object" && !Array.isArray(value)) return value
  } catch {
    // Reported below.
  }
  throw new Error(t('The arguments have to be a JSON object such as {"path": "notes.txt"}.'))
}
