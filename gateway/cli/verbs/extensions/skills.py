"""Command `kore skills`: list, validate and create skills."""

import argparse
import json
from pathlib import Path

from agent.errors import KoreError
from agent.i18n import plural, t
from agent.prompts import render_prompt
from agent.security.files.private_folder import make_private_folder
from agent.skills.catalog import SkillFolder, skill_files
from agent.skills.definition import (
    FILE,
    MAX_NAME_CHARS,
    NAME,
    Skill,
    files_of,
    find_skill,
    read_skill,
)
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
        list(_skills(args).items()),
        lambda item: _facts(*item),
        {
            "name": lambda item: item[0],
            "description": lambda item: short(item[1].description),
            "from": lambda item: str(item[1].folder),
            "warnings": lambda item: str(len(item[1].remarks) or ""),
        },
        t("no skills here; `kore skills new NAME` makes one"),
    )
    return 0


def _show(args: argparse.Namespace) -> int:
    skills = _skills(args)
    skill = find_skill(skills, args.name)
    if skill is None:
        equal = [name for name, each in skills.items() if each.name == args.name]
        raise KoreError(
            t("there is no skill {name!r} here", name=args.name[:80]),
            hint=t("several plugins have one: {names}", names=", ".join(equal))
            if equal
            else t("`kore skills list` shows them"),
        )
    _print(args, skill)
    return 0


def _validate(args: argparse.Namespace) -> int:
    """Check a skill, or all skills below a folder."""
    place = args.path
    if not place.is_dir() or (place / FILE).is_file():
        path = place / FILE if place.is_dir() else place
        skill = _read(path)
        if skill is None:
            raise KoreError(_without_description(path))
        if args.json:
            print_json(_facts(skill.name, skill))
        else:
            _print_check(path, skill)
        return 1 if skill.remarks else 0
    checks = [(path, _read(path)) for path, _ in skill_files(SkillFolder(place))]
    if not checks:
        raise KoreError(t("{path}: no {file} in this folder", path=place, file=FILE))
    if args.json:
        print_json(
            [
                {"folder": str(path.parent), "warnings": [_without_description(path)]}
                if skill is None
                else _facts(skill.name, skill)
                for path, skill in checks
            ]
        )
    else:
        for path, skill in checks:
            _print_check(path, skill)
    faulty = sum(skill is None or bool(skill.remarks) for _, skill in checks)
    if not args.json:
        count = plural(len(checks), "{n:,} skill", "{n:,} skills")
        print(t("{count}, {faulty:,} with problems", count=count, faulty=faulty))
    return 1 if faulty else 0


def _read(path: Path) -> Skill | None:
    try:
        return read_skill(path.read_bytes(), path.resolve().parent)
    except OSError as exc:
        raise KoreError(f"{path}: {exc.strerror}") from None


def _without_description(path: Path) -> str:
    return t("{path}: no description: a skill has to say what it is for", path=path)


def _print_check(path: Path, skill: Skill | None) -> None:
    if skill is None:
        print(clean(_without_description(path)))
        return
    for remark in skill.remarks:
        print(f"{clean(str(path))}: {clean(remark)}")
    for note in skill.notes:
        print(f"{clean(str(path))}: {t('note')}: {clean(note)}")
    if not skill.remarks and not skill.notes:
        print(t("{path}: valid", path=path))


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
        print_json({**_facts(skill.title, skill), "body": skill.body})
        return
    print(clean(skill.title))
    print(f"  {clean_lines(skill.description)}")
    print(f"  {clean(str(skill.folder))}")
    for name in files_of(skill):
        print(f"    {clean(name)}")
    for remark in skill.remarks:
        print(f"  {t('warning')}: {clean(remark)}")
    for note in skill.notes:
        print(f"  {t('note')}: {clean(note)}")
    print(f"\n{clean_lines(skill.body)}")


def _facts(name: str, skill: Skill) -> dict[str, object]:
    return {
        "name": name,
        "description": skill.description,
        "folder": str(skill.folder),
        "files": files_of(skill),
        "for_model": skill.is_for_model,
        "for_people": skill.is_for_people,
        "warnings": list(skill.remarks),
        "notes": list(skill.notes),
        "plugin": skill.plugin,
    }


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
