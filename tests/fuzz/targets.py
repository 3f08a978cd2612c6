"""All fuzz targets: code that reads the input of strangers, models and users."""

from tests.fuzz.commands import READING
from tests.fuzz.inbound import AGENTS, CONFIG, POLICY, TELEGRAM
from tests.fuzz.outward import ARCHIVES, ARGUMENTS, LINKS, PATHS, SHELL, URLS
from tests.fuzz.run import Target

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        POLICY, ARGUMENTS, SHELL, READING, URLS, LINKS, PATHS, ARCHIVES, TELEGRAM, CONFIG, AGENTS,
    )
}  # fmt: skip
