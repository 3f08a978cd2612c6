// Files of the owner's folders: a tree, and one of them to read and change.

import { html, useEffect, useState } from "./html.mjs"
import { visible } from "./markdown.mjs"
import { t } from "./texts.mjs"
import { useCall, Wait } from "./use-call.mjs"

export function Files({ connection, say }) {
  const [places] = useCall(connection, say, "list_places")
  const [place, setPlace] = useState(null)
  const [path, setPath] = useState(null)
  const [isChanged, setChanged] = useState(false)
  if (!places) return html`<${Wait} />`
  const current = place ?? places[0]
  const choose = (event) => {
    setPlace(event.target.value)
    setPath(null)
  }
  return html`<div class="project-files">
    <nav aria-label=${t("Files")}>
      <select aria-label=${t("Folder")} value=${current} disabled=${isChanged} onChange=${choose}>
        ${places.map((one) => html`<option value=${one}>${visible(one)}</option>`)}
      </select>
      <${Folder} key=${current} ...${{ connection, say, place: current, path: "", open: path, isLocked: isChanged, onOpen: setPath }} />
      <${NewFile} isLocked=${isChanged} onOpen=${setPath} />
    </nav>
    ${path === null
      ? html`<p class="dim">${t("Choose a file.")}</p>`
      : html`<${Editor} key=${`${current}/${path}`} ...${{ connection, say, place: current, path, isChanged, setChanged }} />`}
  </div>`
}

// Asked for when it is opened, and again each time.
function Folder({ connection, say, place, path, open, isLocked, onOpen }) {
  const [entries] = useCall(connection, say, "list_folder", { place, path })
  const [isOpen, setOpen] = useState({})
  if (!entries) return html`<${Wait} />`
  const row = (entry) => {
    const whole = path ? `${path}/${entry.name}` : entry.name
    if (!entry.is_folder) {
      return html`<li key=${entry.name}>
        <button type="button" disabled=${isLocked} aria-current=${whole === open ? "true" : null} title=${`${entry.size.toLocaleString()} B`} onClick=${() => onOpen(whole)}>${visible(entry.name)}</button>
      </li>`
    }
    const toggle = () => setOpen({ ...isOpen, [entry.name]: !isOpen[entry.name] })
    return html`<li key=${entry.name}>
      <button type="button" aria-expanded=${Boolean(isOpen[entry.name])} onClick=${toggle}>${isOpen[entry.name] ? "▾" : "▸"} ${visible(entry.name)}</button>
      ${isOpen[entry.name] && html`<${Folder} ...${{ connection, say, place, path: whole, open, isLocked, onOpen }} />`}
    </li>`
  }
  return html`<ul class="tree">
    ${entries.length === 0 && html`<li class="dim">${t("empty")}</li>`}
    ${entries.map(row)}
  </ul>`
}

function NewFile({ isLocked, onOpen }) {
  const [name, setName] = useState("")
  const begin = (event) => {
    event.preventDefault()
    onOpen(name.trim())
    setName("")
  }
  return html`<form class="row" onSubmit=${begin}>
    <input required class="wide" aria-label=${t("Path of a file")} placeholder=${t("Path of a file")} value=${name} onInput=${(event) => setName(event.target.value)} />
    <button disabled=${isLocked}>${t("Open")}</button>
  </form>`
}

function Editor({ connection, say, place, path, isChanged, setChanged }) {
  const [file, setFile] = useState(null)
  const [text, setText] = useState("")
  const show = (one) => {
    setFile(one)
    setText(plain(one.text))
    setChanged(false)
  }
  useEffect(() => {
    connection.until("read_file", { place, path }).then(show, say)
  }, [])
  const edit = (value) => {
    setText(value)
    setChanged(value !== plain(file.text))
  }
  const save = async (event) => {
    event?.preventDefault()
    try {
      show(await connection.call("write_file", { place, path, text, digest: file.digest }))
      say({ message: t("Saved."), isGood: true })
    } catch (error) {
      say(error)
    }
  }
  const onKey = (event) => {
    if (event.key === "s" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault()
      save()
    } else if (event.key === "Tab" && !event.shiftKey && !event.ctrlKey && !event.altKey) {
      event.preventDefault()
      const area = event.target
      area.setRangeText(indentOf(text), area.selectionStart, area.selectionEnd, "end")
      edit(area.value)
    }
  }
  return html`<form class="editor" onSubmit=${save}>
    <p class="row">
      <b>${visible(path)}</b>
      ${file?.digest === "" && html`<span class="dim">${t("not there yet")}</span>`}
      <button class="send" disabled=${!isChanged}>${t("Save")}</button>
      ${isChanged && html`<button type="button" onClick=${() => edit(plain(file.text))}>${t("Take back")}</button>`}
    </p>
    <textarea aria-label=${path} spellcheck="false" wrap="off" disabled=${file === null} value=${text} onInput=${(event) => edit(event.target.value)} onKeyDown=${onKey}></textarea>
  </form>`
}

// As a text field holds it.
const plain = (text) => text.replaceAll("\r\n", "\n")

const indentOf = (text) => (/^\t/m.test(text) ? "\t" : /^ {2}\S/m.test(text) ? "  " : "    ")
