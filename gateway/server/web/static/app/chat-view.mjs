// A conversation: its messages, its questions and the message input.

import { Approval } from "./approval-view.mjs"
import { download } from "./attachments.mjs"
import { Composer, keepDraft, moveDraft } from "./composer-view.mjs"
import { addPending, dropPending, emptyConversation, endPending, take, textOf } from "./conversation.mjs"
import { FolderChoice, useFolders } from "./folders.mjs"
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./html.mjs"
import { TargetIcon } from "./icons.mjs"
import { visible } from "./markdown.mjs"
import { newId } from "./protocol.mjs"
import { Call, Draft, Item } from "./message-view.mjs"
import { Tasks } from "./tasks-view.mjs"
import { t } from "./texts.mjs"

const PAGE_MESSAGES = 150
// Messages per block; blocks that are off the screen are laid out as a unit.
const BLOCK_MESSAGES = 25
// Number of newest messages that may still change, because results follow their calls.
const UNSETTLED_MESSAGES = 100

export function Chat({ connection, session, onSession, onTurn, folder, home, say }) {
  const [mode, chooseMode, readMode, giveMode] = useMode(connection, session, say)
  const choice = useFolders(connection, session)
  const [latest, draw, carry] = useConversation(connection, session, () => (onTurn(), readMode()), say)
  const talk = latest.current
  const begin = (id, sent) => {
    carry(id, sent)
    // Text typed in the meantime also belongs to the new session.
    moveDraft(session, id)
    onSession(id)
  }
  useEffect(() => {
    // Withdrawn messages, for example after a stop, are no longer pending.
    if (talk.isRunning) return
    for (const { eventId } of talk.pending) {
      const settled = ({ state }) => {
        if (state !== "done" && state !== "dropped") return
        endPending(talk, eventId)
        draw()
      }
      connection.call("message_outcome", { event_id: eventId }).then(settled, () => {})
    }
  }, [talk, talk.isRunning, talk.pending.length])
  const [count, setCount] = useState(PAGE_MESSAGES)
  useEffect(() => setCount(PAGE_MESSAGES), [session])
  const send = async (text, media, queue = "steer") => {
    // The page switches sessions by its address.
    if (/^\/(new|clear|reset)$/.test(text)) return onSession(null), true
    const eventId = newId()
    // Show the message at once, even if the session can't be created until the server is back.
    addPending(latest.current, { eventId, text, queue })
    draw()
    try {
      const id = session ?? (await connection.until("create_session", choice.folder ? { folder: choice.folder } : {}))
      if (id !== session) {
        await giveMode(id)
        begin(id, { eventId, text, queue })
      }
      await connection.until("send_message", { session: id, text, event_id: eventId, media, queue })
    } catch (error) {
      dropPending(latest.current, eventId)
      say(error)
      return false
    }
    return true
  }
  const choose = async (choice) => {
    if (choice.is_fresh) {
      const id = await connection.call("create_session", folder ? { folder } : {}).catch(say)
      if (!id) return
      const text = `${choice.text} ${session}`
      const sent = { eventId: newId(), text, queue: "queue" }
      carry(id, sent)
      onSession(id)
      await connection.until("send_message", { session: id, text, event_id: sent.eventId, queue: "queue" }).catch(say)
    } else await send(choice.text, [], "queue")
  }
  const answer = async (asked, option, words) => {
    const takesWords = option.answer === "deny" || asked.request.server_question
    const args = { nonce: asked.nonce, answer: option.answer, scope: option.scope, by: "web", words: takesWords ? words : "" }
    await connection.until("answer_approval", args).catch(say)
  }
  // Forks the session after message `last`, with `words` as a draft.
  const branch = async (last, words) => {
    const id = await connection.call("fork_session", { session, last }).catch(say)
    if (!id) return
    keepDraft(id, words)
    onSession(id)
  }
  const fetchFile = (place, onShare) => download(connection, { session, ...place }, onShare).catch(say)
  const stop = () => connection.call("stop_session", { session }).catch(say)
  const isRunning = talk.isRunning || talk.approvals.length > 0
  // Between the turns of a goal, its check runs.
  const canStop = isRunning || talk.goal?.state === "active"
  const onKey = (event) => event.key === "Escape" && canStop && stop()
  const blocks = blocksOf(talk.messages, count)
  const history = talk.messages.filter((message) => message.kind === "user").map((message) => textOf(message.message)).filter(Boolean)
  // The last turn ended with an error.
  const hasFailed = talk.messages.at(-1)?.isFailure && !talk.isRunning && !talk.pending.length && history.length > 0
  // The same object for every render, because unchanged blocks are not rendered again.
  const actions = useRef({})
  Object.assign(actions.current, { fetchFile, branch })
  const agents = [...talk.live.values()].filter((call) => String(call.id).startsWith("agent "))
  return html`<section class="chat" onKeyDown=${onKey}>
    <${Feed} version=${talk.version} session=${session}>
      ${talk.messages.length > count &&
      html`<button class="earlier" onClick=${() => setCount(count + PAGE_MESSAGES)}>${t("Show earlier messages")}</button>`}
      ${!talk.messages.length && !talk.pending.length && !talk.isRunning && html`<p class="welcome">${t("What would you like to do?")}</p>`}
      ${blocks.map((block) => html`<${Block} key=${`${session}/${block.number}`} block=${block} talk=${talk} actions=${actions} />`)}
      ${agents.map((call) => html`<${Call} key=${call.id} call=${call} live=${call} />`)}
      ${talk.isRunning && talk.draft && html`<${Draft} draft=${talk.draft} />`}
      ${hasFailed && html`<p class="actions"><button type="button" class="again" onClick=${() => send(history.at(-1), [])}>${t("Try again")}</button></p>`}
      ${session && !isRunning && !talk.pending.length && html`<${TurnChoices} ...${{ connection, session, seq: talk.seq, choose }} />`}
      ${talk.pending.map(
        (message) => html`<article class="user pending" key=${message.eventId} aria-label=${t("You")}>
          <div class="bubble">${visible(message.text)}</div>
          <p class="dim">${!talk.isRunning && !talk.approvals.length ? t("Sending") : message.queue === "steer" ? t("for the running turn") : t("queued")}</p>
        </article>`,
      )}
      ${talk.approvals.map((asked) => html`<${Approval} key=${asked.nonce} asked=${asked} answer=${answer} />`)}
    <//>
    ${session && html`<${Tasks} ...${{ connection, session, isRunning: talk.isRunning, say }} />`}
    ${talk.goal && html`<${Goal} goal=${talk.goal} />`}
    <${Composer} connection=${connection} session=${session} folder=${session ? folder : choice.folder} isRunning=${isRunning} canStop=${canStop} mode=${mode} chooseMode=${chooseMode} send=${send} stop=${stop} usage=${talk.usage} history=${history} say=${say}>
      <${FolderChoice} ...${choice} home=${home} />
    <//>
  </section>`
}

// The permission mode of a session, which other screens and commands can change, too; of a new one
// before it exists.
function useMode(connection, session, say) {
  const [mode, setMode] = useState("ask")
  const current = useRef()
  current.current = session
  // The mode that was chosen for a new session.
  const chosen = useRef(null)
  const read = () => {
    const show = (mode) => current.current === session && !chosen.current && setMode(mode)
    connection.until("session_mode", { session }).then(show, () => {})
  }
  useEffect(() => {
    chosen.current = null
    read()
  }, [connection, session])
  const give = (id, mode) => connection.until("choose_mode", { session: id, mode })
  const choose = (mode) => {
    setMode(mode)
    if (session) give(session, mode).catch((error) => (say(error), read()))
    else chosen.current = mode
  }
  const begin = async (id) => chosen.current && give(id, chosen.current)
  return [mode, choose, read, begin]
}

// The choices that the last turn offers.
function TurnChoices({ connection, session, seq, choose }) {
  const [choices, setChoices] = useState([])
  useEffect(() => {
    let isLast = true
    setChoices([])
    connection.until("turn_choices", { session }).then((offered) => isLast && setChoices(offered), () => {})
    return () => (isLast = false)
  }, [connection, session, seq])
  if (!choices.length) return null
  return html`<p class="actions plan" role="group" aria-label=${t("Next")}>
    ${choices.map((choice) => html`<button type="button" onClick=${() => choose(choice)}>${choice.label}</button>`)}
  </p>`
}

function Goal({ goal: { goal, state, turns, max_turns, remark } }) {
  const progress = `${state === "paused" ? t("paused") : t("At work")} · ${turns}/${max_turns}`
  return html`<p class="column goal" role="status" title=${visible(remark)}>
    <${TargetIcon} /> <span class="text">${visible(goal)}</span> <span class="dim">${progress}</span>
  </p>`
}

// Blocks of the newest messages; block boundaries do not depend on how many are shown.
function blocksOf(messages, count) {
  const from = Math.max(0, messages.length - count)
  const blocks = []
  for (let n = Math.floor(from / BLOCK_MESSAGES); n * BLOCK_MESSAGES < messages.length; n++) {
    const [first, end] = [Math.max(from, n * BLOCK_MESSAGES), Math.min(messages.length, (n + 1) * BLOCK_MESSAGES)]
    blocks.push({ number: n, first, end, version: end > messages.length - UNSETTLED_MESSAGES ? NaN : 0 })
  }
  return blocks
}

function Block({ block: { first, end, version }, talk, actions }) {
  const fetchFile = (...args) => actions.current.fetchFile(...args)
  const branch = (...args) => actions.current.branch(...args)
  // NaN never equals itself, so it always renders again.
  const items = useMemo(
    () => talk.messages.slice(first, end).map((item) => html`<${Item} key=${item.key} ...${{ item, talk, fetchFile, branch }} />`),
    [first, end, version, talk.messages],
  )
  return html`<div class="block">${items}</div>`
}

// The current conversation of a session, rendered at most once per frame.
function useConversation(connection, session, onTurn, say) {
  const talk = useRef(emptyConversation())
  const [, setDrawn] = useState(0)
  // The first message is carried over into the new session.
  const carried = useRef(null)
  const carry = (id, sent) => (carried.current = { session: id, sent })
  const draw = () => setDrawn((n) => n + 1)
  useLayoutEffect(() => {
    const own = (talk.current = emptyConversation())
    if (carried.current?.session === session) addPending(own, carried.current.sent)
    carried.current = null
    draw()
    if (!session) return
    let frame = 0
    const onItem = (event, blocks) => {
      take(own, event, blocks)
      if (event.type === "turn_end" || event.type === "delivered") onTurn()
      frame ||= requestAnimationFrame(() => {
        frame = 0
        draw()
      })
    }
    const stop = connection.followSession({ session }, onItem, say)
    return () => {
      cancelAnimationFrame(frame)
      stop()
    }
  }, [connection, session])
  return [talk, draw, carry]
}

// Stays at the end while the person is scrolled to the end.
function Feed({ version, session, children }) {
  const box = useRef()
  const isAtEnd = useRef(true)
  const top = useRef(0)
  const [isAway, setAway] = useState(false)
  const toEnd = () => box.current && (box.current.scrollTop = box.current.scrollHeight)
  useEffect(() => {
    isAtEnd.current = true
    setAway(false)
  }, [session])
  useEffect(() => {
    if (isAtEnd.current) toEnd()
  })
  useEffect(() => {
    // Content rendered later, such as highlighted code, moves the end.
    const watcher = new ResizeObserver(() => isAtEnd.current && toEnd())
    watcher.observe(box.current.firstElementChild)
    return () => watcher.disconnect()
  }, [])
  const onScroll = () => {
    // The event arrives with the next frame, when a panel may have replaced the feed.
    if (!box.current) return
    const { scrollTop, scrollHeight, clientHeight } = box.current
    const isNear = scrollHeight - scrollTop - clientHeight < 60
    // Growth of the content is not scrolling by the person.
    if (isNear || scrollTop < top.current - 1) isAtEnd.current = isNear
    top.current = scrollTop
    setAway(!isAtEnd.current)
  }
  return html`<div class="feed-frame">
    <div class="feed" id="feed" ref=${box} onScroll=${onScroll} tabindex="0" role="log" aria-live="polite" aria-label=${t("Message")}>
      <div class="column">${children}</div>
    </div>
    ${isAway && html`<button class="to-end" onClick=${toEnd} aria-label=${t("To the end")}>↓</button>`}
  </div>`
}
