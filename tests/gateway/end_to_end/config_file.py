"""Changes of the configuration file."""

import json
from typing import Any

from tests.gateway.end_to_end.gateway_process import GatewayProcess


def change_section(gateway: GatewayProcess, section: str, **values: Any) -> None:
    """Rewrite the file with other values, as an editor would."""
    config = json.loads(gateway.config.read_text())
    config[section] = {**config.get(section, {}), **values}
    gateway.config.write_text(json.dumps(config))
