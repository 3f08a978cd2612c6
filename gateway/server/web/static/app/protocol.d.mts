// Made by `make schema` from the table of calls (protocol 13); not for changing by hand.

export class CallError extends Error {
  code: string
  hint: string | null
  constructor(error: { code?: string; message?: string; hint?: string | null })
}

export type State = "open" | "closed" | "foreign" | "denied"

export interface Key {
  id: string
  key: CryptoKey
}

export function keyOf(secret: string): Promise<Key>

export class Connection {
  constructor(options: {
    address: string
    token?: string
    key?: () => Promise<Key>
    onState?: (state: State) => void
  })
  call<N extends keyof Calls>(name: N, ...args: Arguments<N>): Promise<Calls[N]["result"]>
  until<N extends keyof Calls>(name: N, ...args: Arguments<N>): Promise<Calls[N]["result"]>
  say(
    session: string | null,
    text: string,
    more?: Partial<Calls["send_message"]["arguments"]>,
  ): Promise<string>
  follow<N extends keyof Streams>(
    name: N,
    args: () => Streams[N]["arguments"],
    onItem: (item: Streams[N]["item"]) => void,
    onError?: (error: CallError) => void,
    onReady?: () => void,
  ): () => void
  followSession(
    args: Streams["follow_session"]["arguments"],
    onItem: (event: SessionEvent) => void,
    onError?: (error: CallError) => void,
    onReady?: () => void,
  ): () => void
  close(): void
}

export function newId(): string

// The arguments may be left out where all of them may.
type Arguments<N extends keyof Calls> = {} extends Calls[N]["arguments"]
  ? [args?: Calls[N]["arguments"]]
  : [args: Calls[N]["arguments"]]

export interface Message {
  role: "system" | "user" | "assistant" | "tool"
  content: { type: string; text?: string; [field: string]: any }[]
  tool_calls?: { id: string; name: string; arguments: any; [field: string]: any }[]
  tool_call_id?: string
  is_error?: boolean
  taint?: string[]
}

export type WatchEvent =
  | SessionCreatedEvent
  | SessionClosedEvent
  | SessionStartEvent
  | AgentChangedEvent
  | IterationStartEvent
  | SteeredEvent
  | TextDeltaEvent
  | ThinkingDeltaEvent
  | ThinkingEndEvent
  | ToolCallDeltaEvent
  | ToolStartEvent
  | ToolOutputEvent
  | ToolResultedEvent
  | ApprovalAskedEvent
  | ApprovalAnsweredEvent
  | StreamEndEvent
  | StateEvent
  | CompactedEvent
  | EvictedEvent
  | RetryEvent
  | UsageReportEvent
  | FileChangedEvent
  | ContextInvalidatedEvent
  | SignalledEvent
  | NoticeEvent
  | ErrorEvent
  | DoneEvent
  | FromAgentEvent
  | DeliveredEvent

export type SessionEvent =
  | SessionCreatedEvent
  | SessionClosedEvent
  | SessionStartEvent
  | AgentChangedEvent
  | IterationStartEvent
  | SteeredEvent
  | TextDeltaEvent
  | ThinkingDeltaEvent
  | ThinkingEndEvent
  | ToolCallDeltaEvent
  | ToolStartEvent
  | ToolOutputEvent
  | ToolResultedEvent
  | ApprovalAskedEvent
  | ApprovalAnsweredEvent
  | StreamEndEvent
  | StateEvent
  | CompactedEvent
  | EvictedEvent
  | RetryEvent
  | UsageReportEvent
  | FileChangedEvent
  | ContextInvalidatedEvent
  | SignalledEvent
  | NoticeEvent
  | ErrorEvent
  | DoneEvent
  | FromAgentEvent
  | DeliveredEvent
  | MessageStoredEvent
  | TurnStoredEvent
  | SessionIdleEvent
  | HistoryResetEvent
  | SessionChangedEvent

export interface Calls {
  // Store a message and queue it; returns once it is on disk.
  submit: { arguments: { message: InboundMessage }; result: null }
  // Say something in a session (None: a new one), and return the session's id once the message is on disk. A message with an `event_id` that was sent before is not taken twice; for a new session that needs `create_session` first. `agent` names who is to answer.
  send_message: { arguments: { session: string | null; text: string; event_id?: string; mode?: "plan" | "ask" | "accept-edits" | "auto" | null; media?: Media[]; agent?: string | null }; result: string }
  // What became of the message that was sent with this `event_id`.
  message_outcome: { arguments: { event_id: string }; result: MessageOutcome }
  // Keep a picture (PNG, JPEG, GIF or WebP, as base64) for `send_message`; with `token` among what belongs to this access token, which has a role.
  store_picture: { arguments: { data: string; token?: string }; result: Media }
  // List what begins with a slash, chat commands and skills: `name`, `summary`.
  list_commands: { arguments: {}; result: { [key: string]: any }[] }
  // Begin a session; returns its id.
  create_session: { arguments: {}; result: string }
  // Stop the turns that run in a session; False when none does.
  stop_session: { arguments: { session: string }; result: boolean }
  // Answer an approval; False when it has expired or was answered already. `words` are told to the model with a denial; a lasting yes of `scope` prefix is about the event's prefix.
  answer_approval: { arguments: { nonce: string; answer: "once" | "session" | "always" | "deny"; by: string; words?: string; scope?: "call" | "prefix" | "network" }; result: boolean }
  // List the open approvals, oldest first.
  list_approvals: { arguments: {}; result: ApprovalPrompt[] }
  // Stop the turn that runs on the lane; False when none does.
  stop_turn: { arguments: { lane: string }; result: boolean }
  // Reserve a console lane that no other console watches, bound to `session`, to a new one (`fresh`), or to the lane's last one.
  open_console: { arguments: { session: string | null; fresh: boolean }; result: ConsoleLease }
  // List sessions, last used first; with `folder` (its real path) those that worked there.
  list_sessions: { arguments: { limit?: number; folder?: string | null }; result: SessionInfo[] }
  // Return the session that a lane is in; None until its next message begins one.
  bound_session: { arguments: { lane: string }; result: string | null }
  // Return the open session that was used last.
  last_session: { arguments: { principal: string }; result: string | null }
  // Return a session's first and last messages.
  preview_session: { arguments: { session: string; first: number; last: number }; result: SessionPreview }
  // Return all messages of a session.
  load_messages: { arguments: { session: string }; result: Message[] }
  // Return how a message that arrives during a turn is handled on the lane.
  queue_mode: { arguments: { lane: string }; result: "queue" | "join" | "steer" }
  // Return a lane's session, model, mode, waiting and cost_usd.
  conversation_status: { arguments: { lane: string }; result: { [key: string]: any } }
  // Put a lane into a session (None: a new one); returns the session's id.
  bind_session: { arguments: { lane: string; session: string | null }; result: string }
  // Find the newest messages with all these words. Fails for an encrypted database.
  search_messages: { arguments: { words: string; limit?: number }; result: SearchHit[] }
  // Copy a session into a new one, whole or up to message number `last` (0: none of it); returns its id. Fails between a call and its result.
  fork_session: { arguments: { session: string; last?: number | null }; result: string }
  // Rename a session ('': back to its automatic name); returns a sentence.
  rename_session: { arguments: { session: string; name: string }; result: string }
  // Open, pause or close a session; returns a sentence. A running one cannot be closed.
  set_session_status: { arguments: { session: string; status: "open" | "paused" | "closed" }; result: string }
  // Return a session as JSON lines, its metadata first.
  export_session: { arguments: { session: string }; result: string[] }
  // Create a session from such a file, or from one of KodaX; returns its id.
  import_session: { arguments: { file: string }; result: string }
  // Return what `kore status` shows: pid, version, model, channels, queues, and the `workers` that run turns for this process (None: it runs them itself).
  status: { arguments: {}; result: { [key: string]: any } }
  // Read the configuration again: the keys that are `changed`, and those `waiting` for a restart. On an error the previous settings stay.
  reload: { arguments: {}; result: { [key: string]: any } }
  // Release the data to a gateway that starts, at the next step of what runs. None: this owner keeps it. Else the lanes of one-shot runs that wait for the successor.
  hand_over: { arguments: { successor: string }; result: string[] | null }
  // Queue a dead or finished inbox row again; returns a sentence.
  replay: { arguments: { seq: number }; result: string }
  // Copy the database to a new file; returns its size in bytes.
  backup: { arguments: { target: string }; result: number }
  // Count a person's data.
  summarize_person: { arguments: { principal: string }; result: { [key: string]: any } }
  // Export a person's data to a new zip file: `file`, `size_bytes`.
  export_person: { arguments: { principal: string; target: string }; result: { [key: string]: any } }
  // Delete a person's data, with `copies` also from the copies that upgrades made; returns what there was and which copies remain.
  delete_person: { arguments: { principal: string; copies: boolean }; result: { [key: string]: any } }
  // Return the `owner`, who is `asking` and who is `paired`; never a code.
  list_people: { arguments: {}; result: { [key: string]: any } }
  // Approve the person who was sent the code; returns a sentence.
  approve_pairing: { arguments: { code: string }; result: string }
  // Return a code, valid for one hour; the first to send `/start CODE` becomes the owner. Fails when there is an owner.
  invite_owner: { arguments: { channel: string; account: string }; result: string }
  // Revoke a person's access; returns a sentence.
  revoke_pairing: { arguments: { who: string }; result: string }
  // List the grants, oldest first: id, principal, session ('' for all), title, folder, granted_by, granted_at.
  list_grants: { arguments: {}; result: { [key: string]: any }[] }
  // Revoke one grant, or all; returns a sentence.
  revoke_grants: { arguments: { grant: number | null }; result: string }
  // List all jobs with their latest slots, as `gateway.scheduler.job_text.facts`.
  list_jobs: { arguments: {}; result: { [key: string]: any }[] }
  // Schedule a reminder or a task; returns a sentence.
  add_job: { arguments: { job: NewJob }; result: string }
  // Remove, pause, resume or run a job; returns a sentence.
  change_job: { arguments: { number: number; change: "remove" | "pause" | "resume" | "run" }; result: string }
  // List the agents of the workspace: `name`, `description`.
  list_agents: { arguments: {}; result: { [key: string]: any }[] }
  // List the configured models and the profiles: `name`, `model` (vendor/model, None when it cannot be used), `profile` (whether the name is a profile's), `default` (whether it answers where none is chosen).
  list_models: { arguments: {}; result: { [key: string]: any }[] }
  // Record a request, or find the earlier one with its key, with its answer if that was given. None when the key was used for a different request.
  begin_api_answer: { arguments: { request: ApiRequest }; result: ApiAnswer | null }
  // Store an answer before its end is sent; False when another one was given for its key. Answers expire after 30 days; each token has at most its 1,000 newest.
  keep_api_answer: { arguments: { answer: ApiAnswer }; result: boolean }
  // Return the answer with this id that this token was given, with its conversation; None when there is none, or it is not stored any more.
  find_api_answer: { arguments: { token: string; answer_id: string }; result: ApiAnswer | null }
  // Choose the model that answers: a configured one, a profile's name, or vendor/model.
  choose_model: { arguments: { session: string; model: string }; result: null }
  // Choose the permission mode; a looser one is noted in the audit log.
  choose_mode: { arguments: { session: string; mode: "plan" | "ask" | "accept-edits" | "auto" }; result: null }
  // Answer a request: with the text of a file, '' once one is written, None when it cannot be done. False when nobody waits for it any more.
  answer_editor: { arguments: { request: string; text: string | null }; result: boolean }
  // List what each of the last days cost, today last: `day`, `cost_usd`, `input_tokens`, `output_tokens`, `calls`.
  list_costs: { arguments: { days?: number }; result: { [key: string]: any }[] }
  // Return the settings that this process started with, secrets masked.
  describe_config: { arguments: {}; result: { [key: string]: any } }
  // Return the newest lines of the log from this level on, oldest first.
  read_log: { arguments: { lines?: number; level?: string }; result: { [key: string]: any }[] }
  // List the newest entries of the audit log, newest first.
  list_audit: { arguments: { limit?: number }; result: { [key: string]: any }[] }
  // Return one of the workspace's files (such as USER.md, memory/MEMORY.md): `text`, `digest`.
  read_note: { arguments: { name: string }; result: { [key: string]: any } }
  // Replace one of these files, if it still has this `digest`; returns it as `read_note`.
  write_note: { arguments: { name: string; text: string; digest: string }; result: { [key: string]: any } }
  // List the folders: the workspace, trusted folders and those of chats.
  list_places: { arguments: {}; result: string[] }
  // List what lies in a folder, folders first: `name`, `is_folder`, `size` (bytes), `changed_at` (Unix time).
  list_folder: { arguments: { place: string; path?: string }; result: { [key: string]: any }[] }
  // Return a text file: `text`, `digest`, `size` (bytes, 1 MB at most); of one that there is not the digest is ''.
  read_file: { arguments: { place: string; path: string }; result: { [key: string]: any } }
  // Return a picture (PNG, JPEG, GIF or WebP, 5 MB at most): `media_type`, and `data` as base64.
  read_picture: { arguments: { place: string; path: string }; result: { [key: string]: any } }
  // Replace a text file, if it still has this `digest` ('': make one that there is not); returns it as `read_file`. Of one that has changed the error is `file-changed`.
  write_file: { arguments: { place: string; path: string; text: string; digest?: string }; result: { [key: string]: any } }
  // Compare a text with the file as it is now: the `diff` from the file to the text, and the file's `digest`.
  compare_file: { arguments: { place: string; path: string; text: string }; result: { [key: string]: any } }
  // Make a folder, with those above it; returns a sentence.
  make_folder: { arguments: { place: string; path: string }; result: string }
  // Move or rename a file or a folder, as `move_file` does: nothing is replaced, and into a folder that there is it goes under its own name. Returns a sentence.
  move_path: { arguments: { place: string; path: string; to: string }; result: string }
  // Delete a file, or a folder with all that is in it; returns a sentence.
  delete_path: { arguments: { place: string; path: string }; result: string }
  // Take back the latest change that was made to a place by these calls, or make the last one that was taken back again: `text` says what came of it, `paths` are those that changed. `/undo` of the owner takes them back, too.
  undo_change: { arguments: { place: string; redo?: boolean }; result: { [key: string]: any } }
  // List the installed plugins with what each brings; `rows` are pairs of label and text.
  list_plugins: { arguments: {}; result: { [key: string]: any }[] }
  // Fetch a plugin (with `update` the new version of the installed one with the name `source`) and show it; nothing is kept or run. `review` is for `install_plugin`, `options` are what it asks, `needs` what has to be installed first. May take minutes.
  look_at_plugin: { arguments: { source: string; ref?: string; update?: boolean }; result: { [key: string]: any } }
  // Install a plugin, if it still is what `look_at_plugin` showed; returns a sentence. `answers` are by the keys of `options`. May take minutes.
  install_plugin: { arguments: { source: string; review: string; answers: { [key: string]: string }; ref?: string; update?: boolean }; result: string }
  // Use a plugin or not, leave it out of updates, or remove it; returns a sentence.
  change_plugin: { arguments: { name: string; change: "enable" | "disable" | "pin" | "unpin" | "remove" }; result: string }
  // List the markets: `name`, `from`, `plugins` (how many), `problems` by entry.
  list_markets: { arguments: {}; result: { [key: string]: any }[] }
  // List the entries of all markets with these words, the best first: `name`, `market`, `description`, `version`, `pinned`, `installed`, and `problem` if it cannot be used.
  search_plugins: { arguments: { words?: string; limit?: number }; result: { [key: string]: any }[] }
  // Fetch a market and keep it; returns a sentence. May take minutes.
  add_market: { arguments: { source: string; ref?: string }; result: string }
  // Fetch a market again; returns a sentence. May take minutes.
  update_market: { arguments: { name: string }; result: string }
  // Forget a market; its plugins stay. Returns a sentence.
  remove_market: { arguments: { name: string }; result: string }
  // Say what would happen to a call in the workspace; nothing runs: `decision` (allow, ask or deny), `reason`, `rule`, `mode`, and for a command (`exec`) the `verdicts` of all rules. Without a `mode` that of the channel.
  check_policy: { arguments: { tool: string; arguments: { [key: string]: any }; role?: string; mode?: "plan" | "ask" | "accept-edits" | "auto" | null; channel?: string }; result: { [key: string]: any } }
  // Return the `roles` (`name`, `source`, `tools` with their scopes, `agents`), who has which by `access.roles` (`assigned`), and the `owner`, whose role is always `build`.
  list_roles: { arguments: {}; result: { [key: string]: any } }
  // Return the `file`, the `problem` when it is invalid, and the `settings`: `key`, `value` and `own` (as the file has it) without secrets, `from`, `choices`, `at_once`, `widens`, and `locked`, why it cannot be changed here.
  list_settings: { arguments: {}; result: { [key: string]: any } }
  // Say what a change would do; nothing is written: `old` and `new`, `effect` (now, restart or none), `notes`, `widens`, and the `proposal` for `change_setting`.
  check_setting: { arguments: { key: string; value: string | null }; result: { [key: string]: any } }
  // Write a change that was checked, if the file is still the same, and take it in; returns it as `check_setting`. One that `widens` what Kore may do has to be `confirmed`.
  change_setting: { arguments: { key: string; value: string | null; proposal: string; confirmed?: boolean }; result: { [key: string]: any } }
  // Begin to send a file for `send_message`; returns the id of the upload. Fails for one that is larger than `media.max_file_mb`.
  begin_upload: { arguments: { name: string; size_bytes: number }; result: string }
  // Add the next part; the file, once it is whole. Parts come in order, and may be sent again. An upload that nothing comes for, or whose process has ended, is `unknown-upload`.
  continue_upload: { arguments: { upload: string; offset: number; data: string }; result: Media | null }
  // Return a part of a file that `send_file` sent: file `number` (from 0) of the call `call` of message `seq`: `name`, `size`, `version`, `data`. It is read as it is now.
  read_sent_file: { arguments: { session: string; seq: number; call: string; number: number; offset?: number }; result: { [key: string]: any } }
  // List the names of a session's background processes and sub-agents.
  background_tasks: { arguments: { session: string }; result: string[] }
  // List them with how they are: those that run first, then the latest that have ended.
  list_tasks: { arguments: { session: string }; result: TaskInfo[] }
  // Return what a command has printed behind a position (bytes): `text`, `begin` (later than `position` where the beginning is not kept any more), `end`. A sub-agent's steps are in its own session (`follow_session`).
  read_task: { arguments: { session: string; task: string; position?: number }; result: { [key: string]: any } }
  // Stop a command with all that it started, or a sub-agent; returns a sentence.
  stop_task: { arguments: { session: string; task: string }; result: string }
  // Return the `mode` ("off", "sandbox", "full"), the `user` that shells run as without a sandbox, and the `terminals`: `id`, `folder`, `started_at`, `exit_code` (None: it runs).
  terminal_status: { arguments: {}; result: { [key: string]: any } }
  // Start a shell in one of `list_places` (None: the workspace); returns the terminal's id. Nobody follows it for ten minutes: it ends.
  open_terminal: { arguments: { place?: string | null; columns?: number; rows?: number }; result: string }
  // Type in a terminal.
  write_terminal: { arguments: { terminal: string; text: string }; result: null }
  // Tell the programs in a terminal how large it is.
  resize_terminal: { arguments: { terminal: string; columns: number; rows: number }; result: null }
  // Kill a terminal's shell with all that it started, and forget its output.
  close_terminal: { arguments: { terminal: string }; result: null }
}

export interface Streams {
  // Follow the events of a lane. Undelivered answers and open questions come first. With the project's `folder`, changes of its files between turns are among them. A client whose connection broke passes `after`, the `seq` of the last `delivered` event that it has: what was delivered into the broken connection comes again.
  watch: { arguments: { lane: string; folder?: string | null; after?: number | null }; item: WatchEvent }
  // Follow a session: its stored messages with a number above `after`, open questions, and the live events of its turns, whichever chat they are in. `kinds` are the types of live events that are wanted (none: all), `level` is the lowest level of them. A message takes the place of what streamed before it; a client that was away goes on with the `seq` of the last one that it has.
  follow_session: { arguments: { session: string; after?: number; kinds?: string[]; level?: "debug" | "info" | "warning" }; item: SessionEvent }
  // Follow several sessions (none: all) over one stream: the live events of their turns and `session_changed`, each with the session's id, of these `kinds` (none: all) and this `level` or above. There is no past in it: list the sessions once it is open.
  follow_sessions: { arguments: { sessions?: string[]; kinds?: string[]; level?: "debug" | "info" | "warning" }; item: SessionNews }
  // Call a model without Kore's agent: its events (`text_delta`, `thinking_delta`, `tool_call_delta`, `retry`, `notice`), and in the end `reply` with `message`, `usage` and `finish_reason`. What it costs counts for the limits.
  call_model: { arguments: { call: ModelCall }; item: { [key: string]: any } }
  // Follow what the lane's turns ask of the editor, each to be answered within seconds. Only files of the turn's folder that its tools may open are asked for.
  serve_editor: { arguments: { lane: string; can_read: boolean; can_write: boolean }; item: EditorRequest }
  // Give MCP servers to the lane's turns, as long as this is followed: they are in no configuration, and end with it. Once all have been asked for their tools (or 10 seconds have passed), a sentence about each that failed follows.
  attach_servers: { arguments: { lane: string; servers: SessionServer[] }; item: string[] }
  // Follow a terminal: its latest output (`screen`, with `columns` and `rows`), then each `output`, and in the end the `exit_code`. A client that is too slow gets a `screen` again. A program whose output nobody takes in waits.
  follow_terminal: { arguments: { terminal: string }; item: { [key: string]: any } }
}

export interface AgentChangedEvent {
  type: "agent_changed"
  before: string
  agent: string
}

export interface ApiAnswer {
  token: string
  id: string
  made_at: number
  key?: string
  is_given?: boolean
  answer?: { [key: string]: any } | null
  conversation?: Message[] | null
}

export interface ApiRequest {
  token: string
  key: string
  digest: string
  id: string
  principal?: string
}

export interface ApprovalAnsweredEvent {
  type: "approval_answered"
  nonce: string
  by: string
  answer: "once" | "session" | "always" | "deny"
  words?: string
  prefix?: string | null
  network?: string[]
  server?: string
}

export interface ApprovalAskedEvent {
  type: "approval_asked"
  nonce: string
  tool: string
  arguments: { [key: string]: any }
  reason: string
  diff: string | null
  expires_s: number | null
  number?: number
  folder?: string | null
  sends?: string | null
  answers?: ("once" | "session" | "always" | "deny")[]
  prefix?: string | null
  network?: string[]
  server_question?: ServerQuestion | null
  command?: string | null
  unbound?: string | null
  confinement?: string | null
  home_settings?: string[]
  asker?: string | null
  view?: QuestionView
}

export interface ApprovalPrompt {
  nonce: string
  number: number
  title: string
  request: ApprovalRequest
  lane: string
  session: string
  asker: string
  principal: string
  route: Route
  asked_at: number
  expires_at: number
  root?: string
  state?: "open" | "once" | "session" | "always" | "deny" | "expired" | "withdrawn"
  by?: string | null
  words?: string
  scope?: "call" | "prefix" | "network"
  server_question?: ServerQuestion | null
  value?: string
}

export interface ApprovalRequest {
  tool: string
  arguments: { [key: string]: any }
  reason: string
  call_id?: string
  rule?: string
  command?: string | null
  folder?: string | null
  sends?: string | null
  diff?: string | null
  contents?: string | null
  unbound?: string | null
  confinement?: string | null
  prefix?: CommandPrefix | null
  network?: string[]
  home_settings?: string[]
}

export interface CommandPrefix {
  words: string[]
  contents?: string | null
}

export interface CompactedEvent {
  type: "compacted"
  estimated_tokens_before: number
  after: number
  kept: number
  dropped: number
  summarised?: number
}

export interface ConsoleLease {
  chat_id: string
  session: string | null
  unfinished: boolean
  language?: string | null
  delivered?: number
}

export interface ContextInvalidatedEvent {
  type: "context_invalidated"
  path: string
  agents: string[]
}

export interface DeliveredEvent {
  type: "delivered"
  text: string
  kind: "final" | "notice" | "approval"
  event_id: string | null
  last: boolean
  maybe_duplicate?: boolean
  seq?: number
}

export interface DoneEvent {
  type: "done"
  result: Result
}

export interface EditorRequest {
  id: string
  action: "read" | "write"
  path: string
  text?: string
}

export interface ErrorEvent {
  type: "error"
  code: string
  message: string
  hint: string | null
}

export interface EvictedEvent {
  type: "evicted"
  files: number
  reason: string
}

export interface Excerpt {
  role: string
  text: string
}

export interface FileChangedEvent {
  type: "file_changed"
  path: string
  by: "user" | "agent" | "tool"
  files?: number
}

export interface FromAgentEvent {
  type: "from_agent"
  agent: string
  number: string
  title: string
  event: { [key: string]: any }
}

export interface HistoryResetEvent {
  type: "reset"
}

export interface InboundMessage {
  channel: string
  account: string
  chat_id: string
  sender: Sender
  event_id: string
  content: string
  received_at: number
  thread_id?: string | null
  message_id?: string | null
  quoted?: string | null
  quoted_id?: string | null
  quoted_own?: boolean
  quoted_from?: string | null
  edited?: boolean
  private?: boolean
  forwarded?: boolean
  forwarded_from?: string | null
  kind?: "message" | "button" | "job" | "subagent_task" | "subagent_report" | "command_report" | "overheard"
  options?: MessageOptions
  pressed_on?: string | null
  task?: number | null
  lane?: string | null
  job?: number | null
  media?: Media[]
  album?: string | null
  follows?: boolean
  unknown?: boolean
  language?: string | null
}

export interface IterationStartEvent {
  type: "iteration_start"
  n: number
  max: number
}

export interface Media {
  kind: string
  path?: string | null
  name?: string | null
  media_type?: string | null
  size_bytes?: number | null
  seconds?: number | null
  remote?: string | null
  unique?: string | null
  trouble?: string | null
  quoted?: boolean
  words?: string | null
  digest?: string | null
  heard_by?: string | null
  heard_nano?: number | null
  file_digest?: string | null
}

export interface MessageOptions {
  model?: string | null
  thinking?: boolean
  auto?: boolean
  mode?: string | null
  full_access?: string | null
  allowed_tools?: string[] | null
  disallowed_tools?: string[] | null
  unattended?: boolean
  agent?: { [key: string]: any } | null
  cwd?: string | null
  max_iterations?: number | null
  max_cost_usd?: number | null
  project?: { [key: string]: any } | null
  run?: { [key: string]: any }[]
  session?: string | null
  taint?: ("untrusted" | "private")[]
  by_model?: boolean
  speakers?: Sender[]
}

export interface MessageOutcome {
  state: "unknown" | "waiting" | "running" | "done" | "dropped"
  reason?: string
  text?: string
  session?: string
  usage?: Usage
}

export interface MessageStoredEvent {
  type: "message"
  seq: number
  at: number
  message: Message
}

export interface ModelCall {
  model: string
  system: string
  messages: Message[]
  tools?: ModelTool[]
  temperature?: number | null
  max_tokens?: number | null
  options?: { [key: string]: any }
}

export interface ModelTool {
  name: string
  description: string
  parameters: { [key: string]: any }
}

export interface NewJob {
  key: string
  when: string
  text: string
  is_task?: boolean
  urgent?: boolean
  own?: boolean
  zone?: string | null
  catch_up?: "skip" | "once" | "all"
}

export interface NoticeEvent {
  type: "notice"
  level: "info" | "warning"
  text: string
  below?: string
}

export interface QuestionLine {
  kind: "code" | "detail" | "diff" | "reason" | "note" | "quote"
  text: string
}

export interface QuestionOption {
  key: string
  label: string
  answer: "once" | "session" | "always" | "deny"
  scope?: "call" | "prefix" | "network"
  words?: string
}

export interface QuestionView {
  title?: string
  lines?: QuestionLine[]
  options?: QuestionOption[]
}

export interface Result {
  success: boolean
  text: string
  session_id: string
  messages: Message[]
  usage?: Usage
  signal?: "COMPLETE" | "BLOCKED" | "DECIDE" | null
  signal_reason?: string | null
  stopped?: "max_iterations" | "loop" | "limit" | "filtered" | "cancelled" | "error" | "hook" | null
  error_code?: string | null
  cost_usd?: number | null
  output?: any
  agent?: string
}

export interface RetryEvent {
  type: "retry"
  reason: string
  attempt: number
  max_attempts: number
  wait_s: number
  rank?: number
}

export interface Route {
  channel: string
  account: string
  chat_id: string
  thread_id?: string | null
}

export interface SearchHit {
  session: string
  name: string
  principal: string
  n: number
  role: string
  at: number
  snippet: string
  marks: [number, number][]
}

export interface Sender {
  id: string
  name?: string
}

export interface ServerQuestion {
  server: string
  text: string
  choices?: string[]
  takes_text?: boolean
  otherwise?: string
  is_secret?: boolean
  url?: string
}

export interface SessionChangedEvent {
  type: "session_changed"
}

export interface SessionClosedEvent {
  type: "session_closed"
  session_id: string
  name?: string
}

export interface SessionCreatedEvent {
  type: "session_created"
  session_id: string
  name?: string
}

export interface SessionIdleEvent {
  type: "idle"
}

export interface SessionInfo {
  id: string
  name: string
  status: "idle" | "running" | "paused" | "closed"
  lane: string | null
  principal: string
  messages: number
  created_at: number
  last_active_at: number
  taint?: string
  parent?: string | null
  folder?: string
}

export interface SessionNews {
  session: string
  event: SessionEvent
}

export interface SessionPreview {
  info: SessionInfo
  beginning?: Excerpt[]
  end?: Excerpt[]
}

export interface SessionServer {
  name: string
  command?: string | null
  args?: string[]
  env?: { [key: string]: string }
  url?: string | null
  headers?: { [key: string]: string }
  is_sse?: boolean
}

export interface SessionStartEvent {
  type: "session_start"
  session_id: string
  provider: string
  model: string
}

export interface SignalledEvent {
  type: "signal"
  signal: string
  reason: string | null
}

export interface StateEvent {
  type: "state"
  state: "planning" | "executing" | "observing" | "reflecting" | "done"
}

export interface SteeredEvent {
  type: "steered"
  text: string
}

export interface StreamEndEvent {
  type: "stream_end"
  finish_reason: string | null
}

export interface TaskInfo {
  id: string
  kind: "command" | "agent"
  title: string
  state: string
  is_running: boolean
  began_at: number
  ended_at?: number | null
  last_line?: string
  agent?: string
  session?: string | null
}

export interface TextDeltaEvent {
  type: "text_delta"
  text: string
}

export interface ThinkingDeltaEvent {
  type: "thinking_delta"
  text: string
  chars: number
}

export interface ThinkingEndEvent {
  type: "thinking_end"
  thinking: string
}

export interface ToolCallDeltaEvent {
  type: "tool_call_delta"
  id: string
  name: string
  partial_json: string
}

export interface ToolOutputEvent {
  type: "tool_output"
  id: string
  text: string
  stream: "stdout" | "stderr"
  skipped_bytes?: number
}

export interface ToolResultedEvent {
  type: "tool_result"
  id: string
  name: string
  content: string
  is_error: boolean
  elapsed_s: number
  diff?: string | null
  cut_bytes?: number
  file?: string | null
}

export interface ToolStartEvent {
  type: "tool_start"
  id: string
  name: string
  arguments: { [key: string]: any }
}

export interface TurnStoredEvent {
  type: "turn_end"
}

export interface Usage {
  input?: number
  output?: number
  cached?: number
}

export interface UsageReportEvent {
  type: "usage"
  usage: Usage
  cost_usd?: number | null
  session_usage?: Usage | null
  session_cost_usd?: number | null
}
