"""Arguments of the store's functions."""

from gateway.store.cipher import SEALED
from gateway.store.repositories.conversations.search import Scope
from gateway.store.repositories.conversations.session_folders import in_workspace
from gateway.store.sqlite.backup import _COUNTED
from gateway.store.sqlite.transaction import MATCHES
from tests.house.statements import Given

SQL = "gateway/store/repositories"
# Parts of a statement whose values the tree alone does not show.
_SCOPES = sorted(
    {
        Scope(principal, chat, console).where()[0]
        for principal in (None, "telegram:1")
        for chat in (None, "telegram:9:1")
        for console in (False, True)
    }
)
_WORKSPACES = sorted(in_workspace(workspace)[0] for workspace in (None, "/work"))
_COLUMNS = "principal = ?", "channel = ? AND account = ? AND chat = ?"
GIVEN: Given = {
    f"{SQL}/conversations/session_admin.py": {"where": _SCOPES},
    f"{SQL}/conversations/search.py": {"where": _SCOPES, "matches": [MATCHES]},
    f"{SQL}/conversations/sessions.py": {
        "where": _SCOPES,
        "there": _WORKSPACES,
    },
    "gateway/store/sealing.py": {"sealed.table": [sealed.table for sealed in SEALED]},
    "gateway/store/sqlite/backup.py": {"table": list(_COUNTED.values())},
    "gateway/store/sqlite/engine.py": {"pragma": [], "folder": []},
    f"{SQL}/jobs.py": {
        "' AND '.join(where)": ["1", *_COLUMNS, " AND ".join(_COLUMNS)],
        "column": ["zone", "quiet"],
        "one_of(_CHANNEL, channels)": ["channel || ':' || account IN (?)"],
    },
    f"{SQL}/execution/claims.py": {"whose": ["worker IS NULL", "worker = ?"]},
    f"{SQL}/execution/turns.py": {"none_of('lane', attended)": ["NOT lane IN (?)"]},
    f"{SQL}/user_data/erasure.py": {
        "tasks": [
            " OR ".join(
                f"{name} IN (SELECT id FROM gone_session)"
                for name in ("caller", "root_session", "session")
            )
        ]
    },
    "gateway/store/sqlite/rekey.py": {
        "sealed.select": [sealed.select for sealed in SEALED],
        "sealed.update": [sealed.update for sealed in SEALED],
    },
    f"{SQL}/execution/subagent_tasks.py": {
        "', '.join(columns)": ["turn_id"],
        "marks": ["1"],
        "none_of('root_lane', attended)": ["NOT root_lane IN (?)"],
    },
}
