// The page's connection, and login and logout of its browser.

import { Connection, keyOf, keyOfBytes, openProven } from "./protocol.mjs"

// `onState` is called with "open", "closed", "foreign" or "denied".
export const connect = (onState) =>
  new Connection({ address: location.origin, key: storedKey, onState, blocks: true })

// Returns whether this browser has a key. Only the server knows whether it is still valid.
export const hasKey = async () => (await storedKey()) !== null

// Derives a key for this browser from a one-time code or a token, neither of which is sent.
// Throws a CallError.
export async function login(secret) {
  const { socket, sign } = await openProven(location.origin, "/v1/login", await keyOf(secret))
  const made = new Uint8Array(await sign("browser key"))
  await new Promise((resolve, reject) => {
    socket.onmessage = ({ data }) => resolve(data)
    socket.onclose = () => reject(new Error())
  })
  await storeKey(await keyOfBytes(made))
}

export async function logout() {
  const key = await storedKey()
  await storeKey(null)
  // Log out locally even if the server is unreachable or no longer knows the key.
  await openProven(location.origin, "/v1/logout", key).catch(() => {})
}

// The key can be used for signing, but not be read, not even by this page.
const storedKey = async () => (await inStore("readonly", (store) => store.get("key"))) ?? null

const storeKey = (key) =>
  inStore("readwrite", (store) => (key ? store.put(key, "key") : store.delete("key")))

async function inStore(mode, work) {
  const database = await finished(indexedDB.open("kore", 1), (request) =>
    request.result.createObjectStore("keys"),
  )
  try {
    return await finished(work(database.transaction("keys", mode).objectStore("keys")))
  } finally {
    database.close()
  }
}

const finished = (request, onUpgrade) =>
  new Promise((resolve, reject) => {
    request.onupgradeneeded = () => onUpgrade(request)
    request.onsuccess = () => resolve(request.result)
    request.onerror = () => reject(request.error)
  })
