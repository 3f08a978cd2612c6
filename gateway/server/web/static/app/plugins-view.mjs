// Plugins and markets. Their descriptions are untrusted text; nothing is installed without a review.

import { html, useEffect, useRef, useState } from "./html.mjs"
import { visible } from "./markdown.mjs"
import { t } from "./texts.mjs"
import { Busy, Certain, Failure, useCall, Wait } from "./use-call.mjs"

const MAX_SHOWN = 40

export function Plugins({ connection, say }) {
  const [plugins, act, refresh] = useCall(connection, say, "list_plugins")
  const [target, setTarget] = useState(null)
  // Number of changes of the markets, to refresh the lists.
  const [edition, setEdition] = useState(0)
  if (target) {
    const leave = (sentence) => {
      if (sentence) say({ message: sentence, isGood: true })
      setTarget(null)
      refresh()
    }
    return html`<${InstallPage} key=${JSON.stringify(target)} ...${{ connection, target, leave, look: setTarget }} />`
  }
  if (!plugins) return html`<${Wait} />`
  return html`<h3>${t("Installed")}</h3>
    ${plugins.length === 0 && html`<p class="dim">${t("No plugins are installed.")}</p>`}
    <ul class="cards">
      ${plugins.map((plugin) => html`<${Installed} key=${plugin.name} plugin=${plugin} act=${act} look=${setTarget} />`)}
    </ul>
    <h3>${t("Find plugins")}</h3>
    <${Find} ...${{ connection, say, edition, look: setTarget }} />
    <${Markets} ...${{ connection, say, onChange: () => setEdition((n) => n + 1) }} />`
}

function Installed({ plugin, act, look }) {
  const change = (kind, label) =>
    html`<button aria-label=${`${t(label)}: ${plugin.name}`} onClick=${() => act("change_plugin", { name: plugin.name, change: kind })}>${t(label)}</button>`
  return html`<li>
    <b>${visible(plugin.name)}</b> ${visible(plugin.version)}
    ${!plugin.enabled && html` <span class="dim">· ${t("disabled")}</span>`}
    ${plugin.pinned && html` <span class="dim">· ${t("not updated")}</span>`}
    ${plugin.description && html`<p>${visible(plugin.description)}</p>`}
    <details><summary>${t("What it brings")}</summary><${Rows} rows=${plugin.rows} /></details>
    <p class="actions">
      ${plugin.enabled ? change("disable", "Disable") : change("enable", "Enable")}
      <button aria-label=${`${t("Look for an update")}: ${plugin.name}`} onClick=${() => look({ source: plugin.name, update: true })}>${t("Look for an update")}</button>
      ${plugin.pinned ? change("unpin", "Update it again") : change("pin", "Keep this version")}
      <${Certain} label=${t("Remove")} name=${plugin.name} onYes=${() => act("change_plugin", { name: plugin.name, change: "remove" })} />
    </p>
  </li>`
}

const Rows = ({ rows }) => html`<table class="facts list"><tbody>
  ${rows.map(([name, value]) => html`<tr><th scope="row">${visible(name)}</th><td>${visible(value)}</td></tr>`)}
</tbody></table>`

function Find({ connection, say, edition, look }) {
  const [words, setWords] = useState("")
  const [source, setSource] = useState("")
  const [entries, , refresh] = useCall(connection, say, "search_plugins", { words, limit: MAX_SHOWN + 1 })
  useEffect(() => void (edition && refresh()), [edition])
  const begin = (event) => {
    event.preventDefault()
    look({ source: source.trim() })
  }
  return html`<p><input type="search" class="whole" aria-label=${t("Search the markets")} placeholder=${t("Search the markets")} value=${words} onInput=${(event) => setWords(event.target.value)} /></p>
    ${entries?.length === 0 && html`<p class="dim">${words ? t("No market has a plugin like that.") : t("Add a market below, or name a source.")}</p>`}
    <ul class="cards entries-found">
      ${(entries ?? []).slice(0, MAX_SHOWN).map(
        (entry) => html`<li key=${`${entry.name}@${entry.market}`}>
          <b>${visible(entry.name)}</b> ${visible(entry.version)} <span class="dim">· ${visible(entry.market)}${entry.pinned ? ` · ${t("pinned")}` : ""}</span>
          <p>${visible(entry.description)}</p>
          ${entry.problem
            ? html`<p class="bad">${visible(entry.problem)}</p>`
            : html`<p class="actions">
                ${entry.installed
                  ? html`<span class="dim">${t("Installed")}</span>`
                  : html`<button aria-label=${`${t("Look at it")}: ${entry.name}`} onClick=${() => look({ source: `${entry.name}@${entry.market}` })}>${t("Look at it")}</button>`}
              </p>`}
        </li>`,
      )}
    </ul>
    ${entries?.length > MAX_SHOWN && html`<p class="dim">${t("There are more; search for what you need.")}</p>`}
    <form class="row" onSubmit=${begin}>
      <input required class="wide" aria-label=${t("Source of a plugin")} placeholder=${t("owner/repository, https://…, npm:NAME or /a/folder")} value=${source} onInput=${(event) => setSource(event.target.value)} />
      <button>${t("Look at it")}</button>
    </form>`
}

function Markets({ connection, say, onChange }) {
  const [markets, act, refresh] = useCall(connection, say, "list_markets")
  const [source, setSource] = useState("")
  // Current or failed fetch, with `call` and `args` for a retry.
  const [fetching, setFetching] = useState(null)
  const fetchMarket = async (call, args, name) => {
    setFetching({ name })
    try {
      say({ message: await connection.call(call, args), isGood: true })
      setFetching(null)
      if (call === "add_market") setSource("")
    } catch (error) {
      setFetching({ name, error, again: () => fetchMarket(call, args, name) })
    }
    refresh()
    onChange()
  }
  const remove = async (name) => {
    await act("remove_market", { name })
    onChange()
  }
  const isBusy = fetching !== null && !fetching.error
  const add = (event) => {
    event.preventDefault()
    fetchMarket("add_market", { source: source.trim() }, source.trim())
  }
  return html`<h3>${t("Markets")}</h3>
    <ul class="cards">
      ${(markets ?? []).map(
        (market) => html`<li key=${market.name}>
          <b>${visible(market.name)}</b> <span class="dim">· ${t("Plugins")}: ${market.plugins.toLocaleString()}</span>
          <p class="dim">${visible(market.from)}</p>
          <p class="actions">
            <button disabled=${isBusy} aria-label=${`${t("Fetch again")}: ${market.name}`} onClick=${() => fetchMarket("update_market", { name: market.name }, market.name)}>${t("Fetch again")}</button>
            <${Certain} label=${t("Remove")} name=${market.name} onYes=${() => remove(market.name)} />
          </p>
        </li>`,
      )}
    </ul>
    <form class="row market" onSubmit=${add}>
      <input required class="wide" disabled=${isBusy} aria-label=${t("Source of a market")} placeholder=${t("owner/repository, https://… or /a/folder")} value=${source} onInput=${(event) => setSource(event.target.value)} />
      <button disabled=${isBusy}>${t("Add a market")}</button>
    </form>
    ${isBusy && html`<${Busy} text=${fetching.name} goesOn />`}
    ${fetching?.error && html`<${Failure} error=${fetching.error} again=${fetching.again} leave=${() => setFetching(null)} />`}`
}

// Review of a plugin before its installation; `target` are the arguments of `look_at_plugin`.
function InstallPage({ connection, target, leave, look }) {
  const [plugin, setPlugin] = useState(null)
  const [error, setError] = useState(null)
  const [answers, setAnswers] = useState({})
  const [isInstalling, setInstalling] = useState(false)
  const heading = useRef(null)
  const isHere = useRef(true)
  const fetchPlugin = () => {
    setError(null)
    setPlugin(null)
    const failed = (reason) => isHere.current && setError(reason)
    connection.call("look_at_plugin", target).then((description) => isHere.current && setPlugin(description), failed)
  }
  useEffect(() => {
    fetchPlugin()
    return () => (isHere.current = false)
  }, [])
  useEffect(() => heading.current?.focus(), [plugin !== null])
  const install = async (event) => {
    event.preventDefault()
    setInstalling(true)
    setError(null)
    const filled = Object.fromEntries(Object.entries(answers).filter(([, text]) => text !== ""))
    try {
      leave(await connection.call("install_plugin", { ...target, review: plugin.review, answers: filled }))
    } catch (refused) {
      setError(refused)
      setInstalling(false)
    }
  }
  const back = html`<p><button type="button" class="back" onClick=${() => leave()}>← ${t("Back to the plugins")}</button></p>`
  if (error && !plugin) return html`${back}<${Failure} error=${error} again=${fetchPlugin} leave=${() => leave()} />`
  if (!plugin) return html`${back}<${Busy} text=${target.source} />`
  if (plugin.is_current) return html`${back}<p role="status">${visible(plugin.name)}: ${t("up to date.")}</p>`
  return html`${back}
    <h3 tabindex="-1" ref=${heading}>${plugin.is_update ? t("Update") : t("Install")}: ${visible(plugin.name)} ${visible(plugin.version)}</h3>
    ${plugin.description && html`<p>${visible(plugin.description)}</p>`}
    <p class="dim">${t("Someone else wrote this. Check where it comes from and what it would start: hooks and MCP servers run on Kore's machine, confined like commands. Nothing is kept until you install it.")}</p>
    <${Rows} rows=${plugin.rows} />
    <details><summary>${t("Files")} (${plugin.files.length})</summary><ul class="plain">${plugin.files.map((name) => html`<li><code>${visible(name)}</code></li>`)}</ul></details>
    ${plugin.needs.length > 0 && html`<p class="actions needs">${t("It needs these plugins first:")}
      ${plugin.needs.map((name) => html`<button type="button" onClick=${() => look({ source: name })}>${t("Look at it")}: ${visible(name)}</button>`)}</p>`}
    <form class="install" onSubmit=${install}>
      ${plugin.options.map((option) => html`<${Question} key=${option.key} option=${option} value=${answers[option.key] ?? ""} onChange=${(text) => setAnswers({ ...answers, [option.key]: text })} />`)}
      ${error && html`<${Failure} error=${error} again=${fetchPlugin} leave=${() => leave()} />`}
      ${isInstalling
        ? html`<${Busy} text=${plugin.name} goesOn />`
        : html`<p class="row"><button class="send" disabled=${plugin.needs.length > 0}>${plugin.is_update ? t("Update to exactly this") : t("Install exactly this")}</button>
            <button type="button" onClick=${() => leave()}>${t("Cancel")}</button></p>`}
    </form>`
}

function Question({ option, value, onChange }) {
  const isNeeded = option.is_required && option.default === null && !option.is_known
  const onInput = (event) => onChange(event.target.value)
  const hint = option.is_known ? t("answered before; leave empty to keep it") : option.default === null ? "" : String(option.default)
  const field =
    option.type === "boolean"
      ? html`<select value=${value} required=${isNeeded} onChange=${onInput}>
          <option value="">${hint ? visible(hint) : "–"}</option><option value="yes">${t("yes")}</option><option value="no">${t("no")}</option>
        </select>`
      : html`<input type=${option.is_secret ? "password" : "text"} autocomplete="off" required=${isNeeded} placeholder=${visible(hint)} value=${value} onInput=${onInput} />`
  return html`<label>${visible(option.title || option.key)}${isNeeded ? " *" : ""}
    ${option.description && html`<span class="dim">${visible(option.description)}</span>`}${field}</label>`
}
