// Made by `make schema` from the table of calls (protocol 37); not for changing by hand.

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

// How a person is shown an event, in the client's language: a call, or a line of its own.
export type Block =
  | {
      kind: "call"
      id: string
      title: [text: string, argument: string][]
      detail: string
      elapsed: string
      diff: string | null
      files: string[]
    }
  | {
      kind: "note" | "verdict" | "step"
      style: "plain" | "dim" | "warning" | "error"
      mark: string
      text: string
    }

export class Connection {
  constructor(options: {
    address: string
    token?: string
    key?: () => Promise<Key>
    onState?: (state: State) => void
    blocks?: boolean
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
    onItem: (item: Streams[N]["item"], blocks: Block[]) => void,
    onError?: (error: CallError) => void,
    onReady?: () => void,
  ): () => void
  followSession(
    args: Streams["follow_session"]["arguments"],
    onItem: (event: SessionEvent, blocks: Block[]) => void,
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
  | AttentionNeededEvent
  | StreamEndEvent
  | StateEvent
  | CompactedEvent
  | EvictedEvent
  | RetryEvent
  | UsageReportEvent
  | FileChangedEvent
  | ContextInvalidatedEvent
  | GoalChangedEvent
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
  | AttentionNeededEvent
  | StreamEndEvent
  | StateEvent
  | CompactedEvent
  | EvictedEvent
  | RetryEvent
  | UsageReportEvent
  | FileChangedEvent
  | ContextInvalidatedEvent
  | GoalChangedEvent
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
  // Queue a message; returns once it is stored.
  submit: { arguments: { message: InboundMessage }; result: null }
  // Send a message to a session (None: a new one); returns the session's id once the message is stored. A second message with the same `event_id` is ignored; for a new session, call `create_session` first. `mode` is chosen for the session. `agent` names the agent that answers; `queue` says how a running turn handles the message, unless the conversation has its own choice. `mode_limit` is the most permissive mode for this message, even if the conversation has chosen another; with it, `mode` can only lower the limit.
  send_message: { arguments: { session: string | null; text: string; event_id?: string; mode?: "plan" | "ask" | "accept-edits" | "auto" | null; media?: Media[]; agent?: string | null; queue?: "queue" | "join" | "steer" | null; mode_limit?: "plan" | "ask" | "accept-edits" | "auto" | null }; result: string }
  // Return the outcome of the message with this `event_id`.
  message_outcome: { arguments: { event_id: string }; result: MessageOutcome }
  // List chat commands, your own commands and skills, which begin with a slash: `name`, `summary`. `folder` selects your own: it is the real path of a session's workspace (None: the assistant's workspace).
  list_commands: { arguments: { folder?: string | null }; result: { [key: string]: any }[] }
  // Stop the running turn of a lane; False if there is none.
  stop_turn: { arguments: { lane: string }; result: boolean }
  // Store a picture (PNG, JPEG, GIF or WebP, as base64) for `send_message`; with the name of a `token` that has a role, among the files of this token.
  store_picture: { arguments: { data: string; token?: string }; result: Media }
  // Begin to upload a file for `send_message`; returns the id of the upload. Fails for a file larger than `media.max_file_mb`.
  begin_upload: { arguments: { name: string; size_bytes: number }; result: string }
  // Add the next part, at most 1 MB as base64; returns the file once it is complete. Parts must arrive in order and may be repeated. Fails with `unknown-upload` for an abandoned upload and after a restart.
  continue_upload: { arguments: { upload: string; offset: number; data: string }; result: Media | null }
  // Return a part of the current content of a file sent by the tool `send_file`: `name`, `size`, `version`, `data`. The file is number `number` (from 0) of the tool call `call` in message `seq`.
  read_sent_file: { arguments: { session: string; seq: number; call: string; number: number; offset?: number }; result: { [key: string]: any } }
  // List the folders that a new session can work in: folders of earlier sessions, most recently used first, and trusted folders.
  list_session_folders: { arguments: {}; result: SessionFolder[] }
  // Create a session that works in a folder of `list_session_folders` (None: the workspace); returns its id.
  create_session: { arguments: { folder?: SessionFolder | null }; result: string }
  // Stop the turns that run in a session; False if there are none.
  stop_session: { arguments: { session: string }; result: boolean }
  // Reserve an unused console lane, bound to `session`, to a new session (`fresh`), or to the lane's last session. Unfinished work of the lane is continued instead of starting a new session, unless it belongs to a folder other than `folder` (the real path of a workspace).
  open_console: { arguments: { session: string | null; fresh: boolean; folder?: string | null }; result: ConsoleLease }
  // List sessions, most recently used first; with `folder` (the real path of a workspace) only sessions that work there.
  list_sessions: { arguments: { limit?: number; folder?: string | null }; result: SessionInfo[] }
  // Return the session that a lane is bound to; None until its next message creates one.
  bound_session: { arguments: { lane: string }; result: string | null }
  // Return the most recently used open session; with `folder` (the real path of a workspace) only among sessions that work there.
  last_session: { arguments: { principal: string; folder?: string | null }; result: string | null }
  // Return a session's first and last messages.
  preview_session: { arguments: { session: string; first: number; last: number }; result: SessionPreview }
  // Return all messages of a session.
  load_messages: { arguments: { session: string }; result: Message[] }
  // Return how messages that arrive during a turn are handled; None without a choice of the conversation.
  queue_mode: { arguments: { lane: string }; result: "queue" | "join" | "steer" | null }
  // Return a lane's `session`, `model`, `mode`, `waiting`, `cost_usd`, `folder` (with `~` for the home folder) and `goal` (as in the event `goal`; null without one, or if it is met).
  conversation_status: { arguments: { lane: string }; result: { [key: string]: any } }
  // Return the choices that the last turn offers, each made by a message with its `text`: after a plan, and after a long turn whose procedure can be saved as a skill.
  turn_choices: { arguments: { session: string }; result: TurnChoice[] }
  // Bind a lane to a session (None: a new one); returns the session's id.
  bind_session: { arguments: { lane: string; session: string | null }; result: string }
  // Find the newest messages that contain all words. Fails if the database is encrypted.
  search_messages: { arguments: { words: string; limit?: number }; result: SearchHit[] }
  // Copy a session, completely or up to message number `last` (0: no messages); returns the id of the copy. Fails if `last` is between a tool call and its result.
  fork_session: { arguments: { session: string; last?: number | null }; result: string }
  // Rename a session ('' restores its automatic name); returns a confirmation.
  rename_session: { arguments: { session: string; name: string }; result: string }
  // Open, pause or close a session; returns a confirmation. A running session cannot be closed.
  set_session_status: { arguments: { session: string; status: "open" | "paused" | "closed" }; result: string }
  // Return a session as JSON lines, its metadata first.
  export_session: { arguments: { session: string }; result: string[] }
  // Create a session from a file exported by Kore or KodaX; returns its id.
  import_session: { arguments: { file: string }; result: string }
  // Choose the model of a session from the next turn on: a configured model, a profile, or vendor/model.
  choose_model: { arguments: { session: string; model: string }; result: null }
  // Return the permission mode of a session, or of a new session (None).
  session_mode: { arguments: { session: string | null }; result: "plan" | "ask" | "accept-edits" | "auto" }
  // Choose the permission mode of a session from the next turn on; a looser mode is recorded in the audit log.
  choose_mode: { arguments: { session: string; mode: "plan" | "ask" | "accept-edits" | "auto" }; result: null }
  // Answer an approval; False if it has expired or was already answered. The model receives the `words` of a denial. `scope` is the scope of a standing answer; `prefix` allows all commands with the prefix in the event.
  answer_approval: { arguments: { nonce: string; answer: "once" | "session" | "always" | "deny"; by: string; words?: string; scope?: "call" | "prefix" | "network" | "recipient" | "folder" }; result: boolean }
  // List the open approvals, oldest first.
  list_approvals: { arguments: {}; result: ApprovalPrompt[] }
  // List the standing answers to approvals, oldest first: `id`, `principal`, `session` ('' for all), `title`, `folder`, `granted_by`, `granted_at`.
  list_grants: { arguments: {}; result: { [key: string]: any }[] }
  // Revoke a grant (None: all); returns a confirmation.
  revoke_grants: { arguments: { grant: number | null }; result: string }
  // Return the `owner`, the people who are `asking` for access, and the `paired` people, without pairing codes.
  list_people: { arguments: {}; result: { [key: string]: any } }
  // Approve the person who received the code; returns a confirmation.
  approve_pairing: { arguments: { code: string }; result: string }
  // Return a code, valid for one hour; the first to send `/start CODE` becomes the owner. Fails if there is an owner.
  invite_owner: { arguments: { channel: string; account: string }; result: string }
  // Revoke a person's access; returns a confirmation.
  revoke_pairing: { arguments: { who: string }; result: string }
  // Count the stored data of a person.
  summarize_person: { arguments: { principal: string }; result: { [key: string]: any } }
  // Export a person's data to a new zip file: `file`, `size_bytes`.
  export_person: { arguments: { principal: string; target: string }; result: { [key: string]: any } }
  // Delete a person's data; with `copies`, also in the database copies made by upgrades. Returns counts of the deleted data, and the remaining copies.
  delete_person: { arguments: { principal: string; copies: boolean }; result: { [key: string]: any } }
  // List all jobs with their latest runs; `gateway.scheduler.job_text.facts` lists the keys.
  list_jobs: { arguments: {}; result: { [key: string]: any }[] }
  // Schedule a reminder or a task; returns a confirmation.
  add_job: { arguments: { job: NewJob }; result: string }
  // Remove, pause, resume or run a job; returns a confirmation.
  change_job: { arguments: { number: number; change: "remove" | "pause" | "resume" | "run" }; result: string }
  // List the names of a session's running background commands and sub-agents.
  background_tasks: { arguments: { session: string }; result: string[] }
  // List background commands and sub-agents: running tasks first, then the latest finished ones.
  list_tasks: { arguments: { session: string }; result: TaskInfo[] }
  // Return the output of a command from a byte position on: `text`, `begin` (later than `position` if older output was discarded), `end`. The steps of a sub-agent are in its own session; use `follow_session`.
  read_task: { arguments: { session: string; task: string; position?: number }; result: { [key: string]: any } }
  // Stop a command with all its processes, or a sub-agent; returns a confirmation.
  stop_task: { arguments: { session: string; task: string }; result: string }
  // List the agents of the workspace: `name`, `description`.
  list_agents: { arguments: {}; result: { [key: string]: any }[] }
  // List the configured models and the profiles: `name`, `model` (vendor/model; None if it cannot be used), `profile` (true for a profile), `default` (true for the model that answers unless another is chosen).
  list_models: { arguments: {}; result: { [key: string]: any }[] }
  // Record an API request. If its idempotency key was used for the same request before, return the earlier request with its answer, if there is one; None if it was used for a different request.
  begin_api_answer: { arguments: { request: ApiRequest }; result: ApiAnswer | null }
  // Store an answer before its end is sent; False if its key already has a different answer. Answers expire after 30 days; each token keeps at most its 1,000 newest.
  keep_api_answer: { arguments: { answer: ApiAnswer }; result: boolean }
  // Return a token's answer and its conversation; None if it does not exist or has expired.
  find_api_answer: { arguments: { token: string; answer_id: string }; result: ApiAnswer | null }
  // Answer a request: with the text of a file, with '' once a file is written, or with None if the editor gave no usable answer. If it refused to save (`is_refused`), the change is undone. Returns False if the turn no longer waits.
  answer_editor: { arguments: { request: string; text: string | null; is_refused?: boolean }; result: boolean }
  // List the folders that the file calls accept as `place`: the workspace, trusted folders and folders of chats.
  list_places: { arguments: {}; result: string[] }
  // List the contents of a folder, folders first: `name`, `is_folder`, `size` (bytes), `changed_at` (Unix time).
  list_folder: { arguments: { place: string; path?: string }; result: { [key: string]: any }[] }
  // Return a text file: `text`, `digest`, `size` (bytes, 1 MB at most); the digest of a missing file is ''.
  read_file: { arguments: { place: string; path: string }; result: { [key: string]: any } }
  // Return a picture (PNG, JPEG, GIF or WebP, 5 MB at most): `media_type`, and `data` as base64.
  read_picture: { arguments: { place: string; path: string }; result: { [key: string]: any } }
  // Replace a text file if it still has this `digest` ('': create the file); returns the same as `read_file`. Fails with `file-changed` if the file has changed.
  write_file: { arguments: { place: string; path: string; text: string; digest?: string }; result: { [key: string]: any } }
  // Compare a text with the current file: the `diff` from the file to the text, and the file's `digest`.
  compare_file: { arguments: { place: string; path: string; text: string }; result: { [key: string]: any } }
  // Create a folder and its missing parents; returns a confirmation.
  make_folder: { arguments: { place: string; path: string }; result: string }
  // Move or rename a file or a folder like the tool `move_file`: nothing is overwritten, and a move into an existing folder keeps the name. Returns a confirmation.
  move_path: { arguments: { place: string; path: string; to: string }; result: string }
  // Delete a file, or a folder with its contents; returns a confirmation.
  delete_path: { arguments: { place: string; path: string }; result: string }
  // Undo the latest change that these calls made in a place, or redo the last one undone: `text` describes the result, `paths` are the changed paths. The owner's `/undo` also reverts these changes.
  undo_change: { arguments: { place: string; redo?: boolean }; result: { [key: string]: any } }
  // Return a file of the workspace (such as USER.md, memory/MEMORY.md): `text`, `digest`.
  read_note: { arguments: { name: string }; result: { [key: string]: any } }
  // Replace a file of the workspace if it still has this `digest`; returns the same as `read_note`.
  write_note: { arguments: { name: string; text: string; digest: string }; result: { [key: string]: any } }
  // List the installed plugins and their contents; `rows` are pairs of label and text.
  list_plugins: { arguments: {}; result: { [key: string]: any }[] }
  // Fetch a plugin (with `update`, the new version of the installed plugin named `source`) and describe it; nothing is installed or run. Pass `review` to `install_plugin`; `options` are the plugin's questions, `needs` the requirements to install first. May take minutes.
  look_at_plugin: { arguments: { source: string; ref?: string; update?: boolean }; result: { [key: string]: any } }
  // Install a plugin if it has not changed since `look_at_plugin`; returns a confirmation. `answers` maps the keys of `options` to answers. May take minutes.
  install_plugin: { arguments: { source: string; review: string; answers: { [key: string]: string }; ref?: string; update?: boolean }; result: string }
  // Enable, disable, pin, unpin or remove a plugin; returns a confirmation. A pinned plugin is not updated.
  change_plugin: { arguments: { name: string; change: "enable" | "disable" | "pin" | "unpin" | "remove" }; result: string }
  // List the markets: `name`, `from`, `plugins` (their number), `problems` (by entry).
  list_markets: { arguments: {}; result: { [key: string]: any }[] }
  // Search the entries of all markets, best match first: `name`, `market`, `description`, `version`, `pinned`, `installed`, and `problem` if it cannot be used.
  search_plugins: { arguments: { words?: string; limit?: number }; result: { [key: string]: any }[] }
  // Fetch a market and add it; returns a confirmation. May take minutes.
  add_market: { arguments: { source: string; ref?: string }; result: string }
  // Fetch the current version of a market; returns a confirmation. May take minutes.
  update_market: { arguments: { name: string }; result: string }
  // Remove a market; its plugins stay installed. Returns a confirmation.
  remove_market: { arguments: { name: string }; result: string }
  // Return the settings with which this process started, with secrets masked.
  describe_config: { arguments: {}; result: { [key: string]: any } }
  // Return the path of the `file`, its `problem` if it is invalid, and the `settings`: `key`, `value` and `own` (as in the file) without secrets, `from`, `choices`, `at_once`, `widens`, and `locked`, the reason why it cannot be changed here.
  list_settings: { arguments: {}; result: { [key: string]: any } }
  // Describe a change without writing it: `old` and `new`, `effect` (now, restart or none), `notes`, `widens`, and the `proposal` for `change_setting`.
  check_setting: { arguments: { key: string; value: string | null }; result: { [key: string]: any } }
  // Write and apply a checked change if the file has not changed; returns the same as `check_setting`. A change that `widens` Kore's access must be `confirmed`.
  change_setting: { arguments: { key: string; value: string | null; proposal: string; confirmed?: boolean }; result: { [key: string]: any } }
  // Return the policy's decision about a tool call in the workspace, without running it: `decision` (allow, ask or deny), `reason`, `rule`, `mode`, and for a command (`exec`) the `verdicts` of all rules. `mode` defaults to the mode of the channel.
  check_policy: { arguments: { tool: string; arguments: { [key: string]: any }; role?: string; mode?: "plan" | "ask" | "accept-edits" | "auto" | null; channel?: string }; result: { [key: string]: any } }
  // Return the `roles` (`name`, `source`, `tools` with their scopes, `agents`), the roles `assigned` by `access.roles`, and the `owner`, whose role is always `build`.
  list_roles: { arguments: {}; result: { [key: string]: any } }
  // Return the `mode` ("off", "sandbox", "full"), the `user` of shells without a sandbox, and the `terminals`: `id`, `folder`, `started_at`, `exit_code` (None while it runs).
  terminal_status: { arguments: {}; result: { [key: string]: any } }
  // Start a shell in a folder of `list_places` (None: the workspace); returns the terminal's id. It ends after ten minutes without a client.
  open_terminal: { arguments: { place?: string | null; columns?: number; rows?: number }; result: string }
  // Type text into a terminal.
  write_terminal: { arguments: { terminal: string; text: string }; result: null }
  // Set a terminal's size.
  resize_terminal: { arguments: { terminal: string; columns: number; rows: number }; result: null }
  // Kill a terminal's shell with all its processes, and discard its output.
  close_terminal: { arguments: { terminal: string }; result: null }
  // Return the data of `kore status`: pid, version, model, channels, queues, and the `workers` that run turns for this process (None: it runs them itself).
  status: { arguments: {}; result: { [key: string]: any } }
  // Reload the configuration. Returns the `changed` keys, and the keys `waiting` for a restart. If it is invalid, the previous settings stay in effect.
  reload: { arguments: {}; result: { [key: string]: any } }
  // Release the data to a starting gateway, after the current step of each running turn. Returns the lanes of one-shot runs that wait for the successor; None if this process keeps the data.
  hand_over: { arguments: { successor: string }; result: string[] | null }
  // Requeue a dead or finished inbox row; returns a confirmation.
  replay: { arguments: { seq: number }; result: string }
  // Copy the database to a new file; returns its size in bytes.
  backup: { arguments: { target: string }; result: number }
  // List the costs of the latest days, today last: `day`, `cost_usd`, `input_tokens`, `output_tokens`, `calls`.
  list_costs: { arguments: { days?: number }; result: { [key: string]: any }[] }
  // Return the newest log lines of at least this level, oldest first.
  read_log: { arguments: { lines?: number; level?: string }; result: { [key: string]: any }[] }
  // List the newest entries of the audit log, newest first.
  list_audit: { arguments: { limit?: number }; result: { [key: string]: any }[] }
}

export interface Streams {
  // Follow the events of a lane, beginning with undelivered answers, open approvals and its goal. With the `folder` of a project, file changes between turns are included. To resume after a broken connection, pass the `seq` of the last `delivered` event as `after`; later ones are repeated.
  watch: { arguments: { lane: string; folder?: string | null; after?: number | null }; item: WatchEvent }
  // Follow a session: its stored messages numbered above `after`, open approvals, its goal, and the live events of its turns in any chat. `kinds` selects types of live events (none: all), `level` is the lowest level. A message replaces the text streamed before it. To resume, pass the `seq` of the last message as `after`.
  follow_session: { arguments: { session: string; after?: number; kinds?: string[]; level?: "debug" | "info" | "warning" }; item: SessionEvent }
  // Follow several sessions (none: all) over one stream: the live events of their turns and `session_changed`, each with the session's id, of these `kinds` (none: all) and at least this `level`. Past events are not included: list the sessions once the stream is open.
  follow_sessions: { arguments: { sessions?: string[]; kinds?: string[]; level?: "debug" | "info" | "warning" }; item: SessionNews }
  // Call a model without Kore's agent: its events (`text_delta`, `thinking_delta`, `tool_call_delta`, `retry`, `notice`), then `reply` with `message`, `usage` and `finish_reason`. The cost counts towards the limits.
  call_model: { arguments: { call: ModelCall }; item: { [key: string]: any } }
  // Follow the requests of a lane's turns to read or write files in the editor. Answer each within seconds. They concern only files in `folder` (a resolved path) and in the turn's folder that its tools may open.
  serve_editor: { arguments: { lane: string; folder: string; can_read: boolean; can_write: boolean }; item: EditorRequest }
  // Give a lane's turns MCP servers that are not in the configuration, while the stream is open. Once all servers have listed their tools (or after 10 seconds), the stream delivers an error message for each failed server.
  attach_servers: { arguments: { lane: string; servers: SessionServer[] }; item: string[] }
  // Follow a terminal: its latest output (`screen`, with `columns` and `rows`), then each `output`, and at the end the `exit_code`. A client that is too slow gets another `screen`. The program waits while no client reads its output.
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
  is_complete?: boolean
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
  recipient?: Recipient | null
  folder?: string
}

export interface ApprovalAskedEvent {
  type: "approval_asked"
  nonce: string
  request: ApprovalRequest
  number?: number
  expires_s?: number | null
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
  scope?: "call" | "prefix" | "network" | "recipient" | "folder"
  value?: string
}

export interface ApprovalRequest {
  command?: string | null
  folder?: string | null
  sends?: string | null
  diff?: string | null
  contents?: string | null
  unbound?: string | null
  confinement?: string | null
  prefixes?: CommandPrefix[]
  network?: string[]
  home_settings?: string[]
  recipient?: Recipient | null
  folder_access?: FolderAccess | null
  tool: string
  arguments: { [key: string]: any }
  reason: string
  call_id?: string
  rule?: string
  server_question?: ServerQuestion | null
}

export interface AttentionNeededEvent {
  type: "attention"
  reason: "question" | "ended"
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
  passed_over?: string | null
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
  outcome?: string | null
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

export interface FolderAccess {
  path: string
  is_writable?: boolean
}

export interface FromAgentEvent {
  type: "from_agent"
  agent: string
  number: string
  title: string
  event: { [key: string]: any }
}

export interface GoalChangedEvent {
  type: "goal"
  state: "active" | "paused" | "met" | "none"
  goal: string
  turns: number
  max_turns: number
  reason?: string
  remark?: string
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
  kind?: "message" | "button" | "job" | "subagent_task" | "subagent_report" | "command_report" | "goal" | "goal_step" | "goal_check" | "overheard"
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
  effort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max" | null
  auto?: boolean
  mode?: string | null
  mode_limit?: string | null
  queue?: "queue" | "join" | "steer" | null
  full_access?: string | null
  allowed_tools?: string[] | null
  disallowed_tools?: string[] | null
  unattended?: boolean
  agent?: { [key: string]: any } | null
  cwd?: string | null
  start_folder?: string | null
  add_dirs?: string[]
  max_iterations?: number | null
  max_cost_usd?: number | null
  project?: { [key: string]: any } | null
  run?: { [key: string]: any }[]
  session?: string | null
  taint?: ("untrusted" | "private")[]
  by_model?: boolean
  in_session_folder?: boolean
  speakers?: Sender[]
  plan?: string | null
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
  scope?: "call" | "prefix" | "network" | "recipient" | "folder"
  words?: string
  takes_words?: boolean
}

export interface QuestionView {
  title?: string
  lines?: QuestionLine[]
  options?: QuestionOption[]
}

export interface Recipient {
  server: string
  identity: string
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

export interface SessionFolder {
  workspace: string
  start_folder?: string | null
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
  folder?: SessionFolder | null
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
  kind?: "read" | "search" | "edit" | "delete" | "move" | "execute" | "fetch" | "delegate" | "plan" | "ask" | "think" | "other"
  is_denied?: boolean
}

export interface ToolStartEvent {
  type: "tool_start"
  id: string
  name: string
  arguments: { [key: string]: any }
  kind?: "read" | "search" | "edit" | "delete" | "move" | "execute" | "fetch" | "delegate" | "plan" | "ask" | "think" | "other"
  label?: string
  quiet?: boolean
}

export interface TurnChoice {
  key: string
  text: string
  label: string
  mode?: "plan" | "ask" | "accept-edits" | "auto" | null
  is_fresh?: boolean
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
