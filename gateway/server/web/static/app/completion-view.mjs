// Completion while typing: commands after a slash, files after an @.

import { html, useEffect, useState } from "./html.mjs"
import { visible } from "./markdown.mjs"
import { t } from "./texts.mjs"

const MAX_ENTRIES = 8
// Commands that switch the session, for which the page has buttons.
const ELSEWHERE = new Set(["resume", "fork", "start", "exit", "quit"])

// Returns the `choices` for the text and their key handler; `put` replaces the word. Files are those
// of the session's `folder`, or of the workspace.
export function useCompletion(connection, text, put, folder) {
  const [choices, setChoices] = useState([])
  const [at, setAt] = useState(0)
  const close = () => setChoices([])
  useEffect(() => {
    let isWanted = true
    offered(connection, text, folder).then((list) => {
      if (!isWanted) return
      setChoices(list)
      setAt(0)
    })
    return () => (isWanted = false)
  }, [text, folder])
  const take = (choice) => {
    put(choice.value)
    close()
  }
  // Returns whether the key was handled.
  const onKey = (event) => {
    if (!choices.length) return false
    const isWhole = choices[at].value.trim() === text.trim()
    if (event.key === "ArrowDown") setAt((at + 1) % choices.length)
    else if (event.key === "ArrowUp") setAt((at + choices.length - 1) % choices.length)
    else if (event.key === "Escape") close()
    else if (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey && !isWhole)) take(choices[at])
    else return false
    event.preventDefault()
    return true
  }
  return { choices, at, take, onKey }
}

async function offered(connection, text, folder) {
  const command = /^\/([\w:.-]*)$/.exec(text)
  if (command) return (await commands(connection, command[1].toLowerCase(), folder)).slice(0, MAX_ENTRIES)
  const file = /(?:^|[\s(])@([^\s@]*)$/.exec(text)
  return file ? (await files(connection, text, file[1], folder)).slice(0, MAX_ENTRIES) : []
}

async function commands(connection, letters, folder) {
  const place = folder?.workspace ?? ""
  connection.commands ??= new Map()
  if (!connection.commands.has(place)) connection.commands.set(place, listCommands(connection, place))
  const list = (await connection.commands.get(place)).filter((command) => !ELSEWHERE.has(command.name) && command.name.startsWith(letters))
  return list.map(({ name, summary }) => ({ value: `/${name} `, label: `/${name}`, hint: summary }))
}

// Only a token with the owner's rights may name a folder.
function listCommands(connection, place) {
  const all = () => connection.call("list_commands").catch(() => [])
  return place ? connection.call("list_commands", { folder: place }).catch(all) : all()
}

// Lists one folder at a time, starting at the session's folder. There are no files for a token that may
// not read them, or for a session in an untrusted folder.
async function files(connection, text, path, sessionFolder) {
  const cut = path.lastIndexOf("/") + 1
  const [folder, letters] = [path.slice(0, cut), path.slice(cut).toLowerCase()]
  connection.places ??= connection.call("list_places").catch(() => [])
  const places = await connection.places
  const place = sessionFolder ? places.find((path) => path === sessionFolder.workspace) : places[0]
  if (!place) return []
  const start = sessionFolder?.start_folder ? `${sessionFolder.start_folder.slice(place.length + 1)}/` : ""
  const entries = await connection.call("list_folder", { place, path: `${start}${folder}` }).catch(() => [])
  const before = text.slice(0, text.length - path.length)
  return entries
    .filter((entry) => entry.name.toLowerCase().startsWith(letters) && !/\s/.test(entry.name))
    .map((entry) => {
      const whole = `${folder}${entry.name}`
      // After a folder, completion continues with its files; after a file, the @ is removed.
      const value = entry.is_folder ? `${before}${whole}/` : `${before.slice(0, -1)}${whole} `
      return { value, label: entry.is_folder ? `${whole}/` : whole, hint: "" }
    })
}

export function Completion({ choices, at, take }) {
  if (!choices.length) return null
  return html`<ul class="completion" role="listbox" id="completion" aria-label=${t("Suggestions")}>
    ${choices.map(
      (choice, n) => html`<li role="option" id=${`choice-${n}`} aria-selected=${n === at} onMouseDown=${(event) => (event.preventDefault(), take(choice))}>
        <code>${visible(choice.label)}</code> <span class="dim">${visible(choice.hint)}</span>
      </li>`,
    )}
  </ul>`
}
