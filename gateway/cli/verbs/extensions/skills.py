"""Command `kore skills`: list, validate and create skills."""

import argparse
import json
from pathlib import Path

from agent.errors import KoreError
from agent.i18n import t
from agent.prompts import render_prompt
from agent.security.files.private_folder import make_private_folder
from agent.skills.catalog import files_of
from agent.skills.definition import MAX_NAME_CHARS, NAME, Skill, read_skill
from gateway.cli.folders import data_dir_of
from gateway.cli.output import clean, clean_lines, print_json, print_list, short, tell
from gateway.cli.settings import settings_of
from gateway.runtime.paths import write_private
from gateway.turns.agents.profiles import skill_catalog


def run(args: argparse.Namespace) -> int:
    """Return 0, or 1 for a skill with warnings. Raises `KoreError`."""
    actions = {"list": _list, "show": _show, "validate": _validate, "new": _new}
    return actions[args.action](args)


def _skills(args: argparse.Namespace) -> dict[str, Skill]:
    return skill_catalog(data_dir_of(args), settings_of(args)).load(Path.cwd())


def _list(args: argparse.Namespace) -> int:
    print_list(
        args,
        list(_skills(args).values()),
        _facts,
        {
            "name": lambda skill: skill.name,
            "description": lambda skill: short(skill.description),
            "from": lambda skill: str(skill.folder),
            "warnings": lambda skill: str(len(skill.remarks) or ""),
        },
        t("no skills here; `kore skills new NAME` makes one"),
    )
    return 0


def _show(args: argparse.Namespace) -> int:
    skill = _skills(args).get(args.name)
    if skill is None:
        raise KoreError(
            t("there is no skill {name!r} here", name=args.name[:80]),
            hint=t("`kore skills list` shows them"),
        )
    _print(args, skill)
    return 0


def _validate(args: argparse.Namespace) -> int:
    path = args.path / "SKILL.md" if args.path.is_dir() else args.path
    try:
        raw = path.read_bytes()
    except OSError as exc:
        raise KoreError(f"{path}: {exc.strerror}") from None
    skill = read_skill(raw, path.resolve().parent)
    if skill is None:
        raise KoreError(t("{path}: no description: a skill has to say what it is for", path=path))
    if args.json:
        print_json(_facts(skill))
    for remark in () if args.json else skill.remarks:
        print(f"{clean(str(path))}: {clean(remark)}")
    if not skill.remarks and not args.json:
        print(t("{path}: valid", path=path))
    return 1 if skill.remarks else 0


def _new(args: argparse.Namespace) -> int:
    if not NAME.fullmatch(args.name) or len(args.name) > MAX_NAME_CHARS:
        raise KoreError(
            t(
                "found the name {args!r}, expected lowercase letters, digits and -",
                args=args.name[:80],
            )
        )
    top = Path.cwd() / ".agents" if args.project else data_dir_of(args).root
    folder = top / "skills" / args.name
    description = args.description or t("Describe what this is for, and when to use it.")
    path = folder / "SKILL.md"
    try:
        make_private_folder(folder)
        text = render_prompt("new_skill", called=args.name, description=_quote(description))
        write_private(path, f"{text}\n")
    except FileExistsError:
        raise KoreError(
            t("{path} already exists", path=path), hint=t("edit it, or choose another name")
        ) from None
    except OSError as exc:
        raise KoreError(f"{path}: {exc.strerror}") from None
    print(path)
    if args.project:
        skill = _skills(args).get(args.name)
        if skill is None or skill.folder.resolve() != folder.resolve():
            tell(t("it counts once you trust this folder: kore trust"))
    return 0


def _print(args: argparse.Namespace, skill: Skill) -> None:
    if args.json:
        print_json({**_facts(skill), "body": skill.body})
        return
    print(clean(skill.name))
    print(f"  {clean_lines(skill.description)}")
    print(f"  {clean(str(skill.folder))}")
    for name in files_of(skill):
        print(f"    {clean(name)}")
    for remark in skill.remarks:
        print(f"  {t('warning')}: {clean(remark)}")
    print(f"\n{clean_lines(skill.body)}")


def _facts(skill: Skill) -> dict[str, object]:
    return {
        "name": skill.name,
        "description": skill.description,
        "folder": str(skill.folder),
        "files": files_of(skill),
        "for_model": skill.is_for_model,
        "for_people": skill.is_for_people,
        "warnings": list(skill.remarks),
    }


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
