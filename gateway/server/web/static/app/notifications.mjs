// Notifications of the browser, and a mark in the title, for a person who looks elsewhere.

import { t } from "./texts.mjs"

const SENTENCES = { question: "Kore asks something", ended: "Kore has finished" }
export const MARKS = { question: "? ", ended: "• " }

// What in the events of sessions is worth a notification: a question, and the end of a turn that
// took `afterS` seconds from its start or its last answer; null: nothing. As in gateway/presenter/attention.py.
export class Attention {
  constructor() {
    this.afterS = null
    this.began = new Map()
  }

  take({ session, event }) {
    const { afterS, began } = this
    if (event.type === "session_start" || event.type === "approval_answered") began.set(session, performance.now())
    if (afterS == null) return null
    if (event.type === "approval_asked") return "question"
    if (event.type !== "done") return null
    const tookMs = began.has(session) ? performance.now() - began.get(session) : 0
    const isLong = began.delete(session) && tookMs >= afterS * 1000
    return isLong && event.result?.stopped !== "cancelled" ? "ended" : null
  }
}

export const canNotify = () => typeof Notification !== "undefined" && Notification.permission !== "denied"

export const isOn = () => canNotify() && Notification.permission === "granted" && localStorage.getItem("notify") === "on"

// The browser asks the person for the permission, so that this is called by a click only.
export async function switchOn(on) {
  if (on && (await Notification.requestPermission()) !== "granted") return false
  localStorage.setItem("notify", on ? "on" : "off")
  return isOn()
}

// Each session has one notification, the newest.
export function notify(reason, session, name, open) {
  if (!isOn()) return
  const notification = new Notification(t(SENTENCES[reason]), { body: name, tag: session })
  notification.onclick = () => {
    window.focus()
    open(session)
    notification.close()
  }
}
