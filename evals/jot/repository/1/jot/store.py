"""The file with all tasks."""

import json
import os
from pathlib import Path


def path():
    return Path(os.environ.get("JOT_FILE") or Path.home() / ".jot.json")


def load():
    """All tasks; none when there is no file yet."""
    try:
        return json.loads(path().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []


def save(tasks):
    path().write_text(json.dumps(tasks, indent=1), encoding="utf-8")


def add(text):
    tasks = load()
    task = {"id": len(tasks) + 1, "text": text, "done": False}
    tasks.append(task)
    save(tasks)
    return task


def find(tasks, number):
    """The task with that id, or None."""
    return next((task for task in tasks if task["id"] == number), None)
