"""What people type."""

import sys

from jot import store

USAGE = "usage: jot add TEXT | list [--all] | done ID | remove ID"


def main(words):
    if not words:
        print(USAGE, file=sys.stderr)
        return 2
    if words[0] == "add":
        if len(words) < 2:
            print(USAGE, file=sys.stderr)
            return 2
        task = store.add(" ".join(words[1:]))
        print(f"{task['id']}: {task['text']}")
        return 0
    elif words[0] == "list":
        tasks = store.load()
        for task in tasks:
            if not task["done"] or "--all" in words:
                mark = "x" if task["done"] else " "
                print(f"[{mark}] {task['id']}: {task['text']}")
        return 0
    elif words[0] == "done":
        if len(words) != 2 or not words[1].isdigit():
            print(USAGE, file=sys.stderr)
            return 2
        tasks = store.load()
        task = store.find(tasks, int(words[1]))
        if task is None:
            print(f"jot: no task {words[1]}", file=sys.stderr)
            return 1
        task["done"] = True
        store.save(tasks)
        return 0
    elif words[0] == "remove":
        if len(words) != 2 or not words[1].isdigit():
            print(USAGE, file=sys.stderr)
            return 2
        tasks = store.load()
        task = store.find(tasks, int(words[1]))
        if task is None:
            print(f"jot: no task {words[1]}", file=sys.stderr)
            return 1
        tasks.remove(task)
        store.save(tasks)
        return 0
    else:
        print(USAGE, file=sys.stderr)
        return 2
