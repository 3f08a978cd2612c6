// Files of the owner's folders: a tree, and one of them to read and change.

import { html, useEffect, useRef, useState } from "./html.mjs"
import { visible } from "./markdown.mjs"
import { t } from "./texts.mjs"
import { markUnsaved } from "./unsaved-changes.mjs"
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
      : html`<${isPicture(path) ? Picture : Editor} key=${`${current}/${path}`} ...${{ connection, say, place: current, path, isChanged, setChanged }} />`}
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
  const host = useRef(null)
  const editor = useRef(null)
  const [file, setFile] = useState(null)
  const [problem, setProblem] = useState("")
  const read = () => connection.call("read_file", { place, path })
  useEffect(() => {
    let isGone = false
    const open = async () => {
      try {
        const [one, { TextEditor }] = await Promise.all([read(), import("./text-editor.mjs")])
        if (isGone) return
        const onSave = () => saving.current()
        editor.current = new TextEditor(host.current, { text: plain(one.text), path, onChange: setChanged, onSave })
        setFile(one)
      } catch (error) {
        if (!isGone) setProblem(error.hint ? `${error.message} ${error.hint}` : error.message)
      }
    }
    open()
    return () => {
      isGone = true
      editor.current?.close()
      setChanged(false)
    }
  }, [])
  useEffect(() => {
    markUnsaved(host, isChanged)
    return () => markUnsaved(host, false)
  }, [isChanged])
  const save = async (event) => {
    event?.preventDefault()
    if (!isChanged) return
    const { text, document } = editor.current
    try {
      setFile(await connection.call("write_file", { place, path, text, digest: file.digest }))
      editor.current?.markSaved(document)
      say({ message: t("Saved."), isGood: true })
    } catch (error) {
      say(error)
    }
  }
  // The key's handler is made once, what it saves is of now.
  const saving = useRef(save)
  saving.current = save
  const takeBack = async () => {
    try {
      const one = await read()
      editor.current.replace(plain(one.text))
      setFile(one)
    } catch (error) {
      say(error)
    }
  }
  return html`<form class="editor" onSubmit=${save}>
    <p class="row">
      <b>${visible(path)}</b>
      ${file?.digest === "" && html`<span class="dim">${t("not there yet")}</span>`}
      <button class="send" disabled=${!isChanged}>${t("Save")}</button>
      ${isChanged && html`<button type="button" onClick=${takeBack}>${t("Take back")}</button>`}
    </p>
    ${problem && html`<p class="bad" role="alert">${visible(problem)}</p>`}
    ${!problem && file === null && html`<${Wait} />`}
    <div class="code-editor" ref=${host} hidden=${file === null}></div>
    ${file && html`<p class="dim">${t("Tab indents. Press Esc, then Tab, to leave the editor.")}</p>`}
  </form>`
}

// A picture cannot be changed here.
function Picture({ connection, place, path }) {
  const [picture, setPicture] = useState(null)
  const [problem, setProblem] = useState("")
  useEffect(() => {
    connection.call("read_picture", { place, path }).then(setPicture, (error) => setProblem(error.message))
  }, [])
  return html`<figure class="picture">
    <figcaption>${visible(path)}</figcaption>
    ${problem && html`<p class="bad" role="alert">${visible(problem)}</p>`}
    ${!problem && !picture && html`<${Wait} />`}
    ${picture && html`<img alt=${visible(path)} src=${`data:${picture.media_type};base64,${picture.data}`} />`}
  </figure>`
}

const isPicture = (path) => /\.(png|jpe?g|gif|webp)$/i.test(path)

// The server puts the line ends of a whole file back; one with several kinds is left as it is.
function plain(text) {
  const unix = text.replaceAll("\r\n", "\n")
  const isMixed = unix.includes("\r") || /(^|[^\r])\n/.test(text)
  return isMixed ? text : unix
}
