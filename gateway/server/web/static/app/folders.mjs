// Working folders of sessions.

import { html, useEffect, useState } from "./html.mjs"
import { visible } from "./markdown.mjs"
import { t } from "./texts.mjs"

export const pathOf = (folder) => folder.start_folder ?? folder.workspace

// The path with "~" for the home folder of the server's user.
export function shortPath(folder, home) {
  const path = pathOf(folder)
  return home && (path === home || path.startsWith(`${home}/`)) ? `~${path.slice(home.length)}` : path
}

// The folders to choose from for a new session (none if the token may not choose), and the choice.
export function useFolders(connection, session) {
  const [folders, setFolders] = useState([])
  const [folder, setFolder] = useState(null)
  useEffect(() => {
    setFolder(null)
    if (!session) connection.until("list_session_folders").then(setFolders, () => {})
  }, [session])
  return { folders: session ? [] : folders, folder, setFolder }
}

export function FolderChoice({ folders, folder, setFolder, home }) {
  if (!folders.length) return null
  return html`<select class="folder" aria-label=${t("Folder")} title=${t("Folder")} value=${folders.indexOf(folder)} onChange=${(event) => setFolder(folders[event.target.value] ?? null)}>
    <option value="-1">${t("Workspace")}</option>
    ${folders.map((folder, at) => html`<option value=${at}>${visible(shortPath(folder, home))}</option>`)}
  </select>`
}
