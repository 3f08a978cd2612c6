// The page's connection, and how its browser comes in and goes out.

import { Connection, keyOf, keyOfBytes, openProven } from "./protocol.mjs"

// `onState` is told "open", "closed", "foreign" or "denied".
export const connect = (onState) =>
  new Connection({ address: location.origin, key: storedKey, onState, blocks: true })

// Whether this browser has a key. Only the server knows whether it still counts.
export const hasKey = async () => (await storedKey()) !== null

// Makes a key of this browser's own out of a code of one use or a token, none of which is sent.
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
  // A server that is away, or knows the key no longer, changes nothing for this browser.
  await openProven(location.origin, "/v1/logout", key).catch(() => {})
}

// The browser uses the key for signing and hands it out to nobody, this page included.
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
