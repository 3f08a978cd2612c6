"""Files in examples/deploy use only existing features of Kore and match each other."""

import argparse
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from agent.providers.vendors import VENDORS
from gateway.app import STOP_TIMEOUT_S
from gateway.cli.verb_table import find_verb
from gateway.config.key_catalog import environment_names
from gateway.config.layers import RESERVED
from gateway.config.load import load_settings
from gateway.control.health import standby_pages
from gateway.fanout.base import FLUSH_TIMEOUT_S
from tests.house.tree import ROOT

DEPLOY = ROOT / "examples" / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.workers.yaml").read_text())
# Time that a container needs after a drain to leave the group and close its connections.
_MARGIN_S = 5
_PROBE = ["python3", "-I", "-m", "gateway.control.probe"]
_SECRETS = {"POSTGRES_PASSWORD": "p", "NATS_TOKEN": "n", "KORE_STORE_KEY": "a" * 64}


def manifests() -> list[dict[str, Any]]:
    return [
        item
        for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
        for item in yaml.safe_load_all(path.read_text())
    ]


def of_kind(*kinds: str) -> list[dict[str, Any]]:
    return [manifest for manifest in manifests() if manifest["kind"] in kinds]


def pods() -> list[dict[str, Any]]:
    return [item["spec"]["template"] for item in of_kind("Deployment", "StatefulSet")]


def kore_pods() -> list[dict[str, Any]]:
    entries = [pod for pod in pods() if pod["spec"]["containers"][0]["image"].startswith("kore:")]
    assert len(entries) == 2
    return entries


def names_of(kind: str) -> set[str]:
    return {item["metadata"]["name"] for item in of_kind(kind)}


def kore_services() -> dict[str, Any]:
    return {
        name: result
        for name, result in COMPOSE["services"].items()
        if result["image"].partition(":")[0] == "kore"
    }


def commands() -> Iterator[list[str]]:
    for service in kore_services().values():
        yield service["command"]
    for pod in kore_pods():
        (container,) = pod["spec"]["containers"]
        assert container["command"][:2] == ["tini", "--"]
        yield container["command"][2:]


def probes() -> Iterator[list[str]]:
    for service in kore_services().values():
        assert service["healthcheck"]["test"][0] == "CMD"
        yield service["healthcheck"]["test"][1:]
    for pod in kore_pods():
        (container,) = pod["spec"]["containers"]
        for name in ("livenessProbe", "readinessProbe"):
            yield container[name]["exec"]["command"]
        if "startupProbe" in container:
            yield container["startupProbe"]["exec"]["command"]
    health = re.search(r"HEALTHCHECK.*?CMD (\[.*?\])\n", dockerfile(), re.DOTALL)
    assert health is not None
    yield json.loads(health.group(1))


def dockerfile() -> str:
    return (ROOT / "Dockerfile").read_text()


def is_known_variable(name: str) -> bool:
    keys = {key for vendor in VENDORS.values() for key in vendor.key_variables}
    if name.startswith("KORE_"):
        return name.removeprefix("KORE_") in {*environment_names(), *RESERVED}
    return name in {*keys, *_SECRETS, "TZ"}


def test_deployed_commands_exist() -> None:
    verbs = []
    for words in commands():
        program, name, *rest = words
        assert program == "kore"
        verb = find_verb(name)
        assert verb is not None, words
        parser = argparse.ArgumentParser(exit_on_error=False)
        verb.add_arguments(parser)
        parser.parse_args(rest)
        verbs.append(name)
    assert sorted(verbs) == ["gateway", "gateway", "gateway", "worker", "worker"]


async def test_probes_request_existing_pages() -> None:
    paths = []
    for command in probes():
        assert command[:-1] == _PROBE
        assert await standby_pages(command[-1]) is not None, command
        paths.append(command[-1])
    # Probes must not kill a pod that is on standby or waiting; only the image checks overall
    # health.
    assert {"/livez", "/readyz", "/healthz"} == set(paths)
    assert paths.count("/healthz") == 1


def test_deployed_variables_are_read() -> None:
    names = {name for service in kore_services().values() for name in service["environment"]}
    for pod in kore_pods():
        (container,) = pod["spec"]["containers"]
        names |= {item["name"] for item in container.get("env", ())}
        # Otherwise each service of the cluster becomes a KORE_... variable.
        assert pod["spec"]["enableServiceLinks"] is False
        assert pod["spec"]["automountServiceAccountToken"] is False
    advised = (DEPLOY / "kubernetes" / "configuration.yaml").read_text()
    names |= set(re.findall(r"--from-literal=(\w+)=", advised))
    assert len(names) > 10
    assert [name for name in names if not is_known_variable(name)] == []


def test_cluster_configuration_is_valid(tmp_path: Path) -> None:
    (config,) = of_kind("ConfigMap")
    file = tmp_path / "config.json"
    file.write_text(config["data"]["config.json"])
    environ = {**_SECRETS, "OPENAI_API_KEY": "k", "KORE_TELEGRAM_TOKEN": "1:abc"}
    settings = load_settings(
        config=file, home=tmp_path, cwd=tmp_path, environ=environ, overrides={}
    )
    assert settings.store.url == "postgresql://kore:p@postgres/kore"
    assert settings.bus.url == "nats://n@nats:4222"
    mounts = {mount["mountPath"] for pod in kore_pods() for mount in _mounts(pod)}
    assert {str(settings.agent.workspace), str(settings.store.files)} <= mounts
    # Folders that the image creates, so that a new volume there belongs to the user.
    for folder in (settings.agent.workspace, settings.store.files):
        assert f" {folder}" in dockerfile()


def test_referenced_deployment_parts_exist() -> None:
    for pod in pods():
        spec = pod["spec"]
        (container,) = spec["containers"]
        volumes = {volume["name"] for volume in spec.get("volumes", ())}
        claimed = {
            claim["metadata"]["name"]
            for item in of_kind("StatefulSet")
            for claim in item["spec"].get("volumeClaimTemplates", ())
        }
        assert {
            volumemount["name"] for volumemount in container.get("volumeMounts", ())
        } <= volumes | claimed
        for volume in spec.get("volumes", ()):
            if "configMap" in volume:
                assert volume["configMap"]["name"] in names_of("ConfigMap")
            if "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                assert claim in names_of("PersistentVolumeClaim")
    labels = [pod["metadata"]["labels"] for pod in pods()]
    budgets = of_kind("PodDisruptionBudget")
    assert len(budgets) == 2
    for budget in (*budgets, *of_kind("Deployment", "StatefulSet")):
        assert _matches(budget["spec"]["selector"]["matchLabels"], labels)
    for service in of_kind("Service"):
        assert _matches(service["spec"]["selector"], labels)
    (listing,) = of_kind("Kustomization")
    files = {path.name for path in (DEPLOY / "kubernetes").glob("*.yaml")}
    assert {*listing["resources"], "kustomization.yaml"} == files


def test_compose_references_are_defined() -> None:
    for name, result in COMPOSE["services"].items():
        for volume in result.get("volumes", ()):
            assert volume.partition(":")[0] in COMPOSE["volumes"], name
        for other in result.get("depends_on", {}):
            assert "healthcheck" in COMPOSE["services"][other], name
        assert "healthcheck" in result, name
    for service in kore_services().values():
        paths = {volume.partition(":")[2] for volume in service["volumes"]}
        variables: Mapping[str, Any] = service["environment"]
        assert {variables["KORE_AGENT_WORKSPACE"], variables["KORE_STORE_FILES"]} <= paths
    workers = [service for service in kore_services().values() if "worker" in service["command"]]
    assert [worker["deploy"]["replicas"] for worker in workers] == [2]


def test_grace_period_covers_draining() -> None:
    least_s = STOP_TIMEOUT_S + FLUSH_TIMEOUT_S + _MARGIN_S
    for service in kore_services().values():
        assert int(service["stop_grace_period"].removesuffix("s")) > least_s
    for pod in kore_pods():
        assert pod["spec"]["terminationGracePeriodSeconds"] > least_s


def test_images_are_built_here_or_have_plain_names() -> None:
    images = {service["image"] for service in COMPOSE["services"].values()}
    images |= {container["image"] for pod in pods() for container in pod["spec"]["containers"]}
    assert {name.partition(":")[0] for name in images} == {"kore", "postgres", "nats"}


def test_image_has_the_extras_for_several_processes() -> None:
    extras = re.search(r'^ARG EXTRAS="(.*)"$', dockerfile(), re.MULTILINE)
    assert extras is not None
    chosen = extras.group(1).split()
    assert {"postgres", "nats", "s3", "encryption"} <= set(chosen)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {
        line.partition("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    required = {
        re.split(r"[\[<>=]", item)[0].lower().replace("_", "-")
        for extra in chosen
        for item in project["optional-dependencies"][extra]
    }
    assert required - pinned == set()


def _mounts(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(pod["spec"]["containers"][0]["volumeMounts"])


def _matches(selector: Mapping[str, str], labels: list[dict[str, str]]) -> bool:
    return any(selector.items() <= label.items() for label in labels)
