"""Prints what `docker run` takes for a service of packaging/compose.yml, one word in each line: for scripts/images.sh.

The image is rlock-NAME, and files of `configs` are written to FOLDER. Published ports are left out: all services are in one network.
A setting that is unknown here is an error, so that none is left out silently.
"""

import os
import re
import sys
from pathlib import Path

import yaml

KNOWN = {"build", "command", "configs", "ports", "volumes", "environment", "depends_on", "read_only", "cap_drop"}


def filled(text: str) -> str:
    """The text with its variables replaced by those of the environment."""
    return re.sub(r"\$\{(\w+)(?::\?[^}]*)?\}", lambda found: os.environ[found[1]], text)


def mounted(config: dict, contents: dict, folder: Path) -> str:
    """A volume that has the config's content."""
    path = folder / config["source"]
    path.write_text(filled(contents[config["source"]]["content"]))
    return f"{path}:{config['target']}:ro"


def words(name: str, folder: Path) -> list[str]:
    page = yaml.safe_load(Path("packaging/compose.yml").read_text())
    service = page["services"][name]
    if set(service) - KNOWN or service["build"] != {"context": "..", "target": name}:
        sys.exit(f"compose_words: {name} has settings that scripts/compose_words.py does not know: {service}")
    volumes = service.get("volumes", []) + [mounted(one, page["configs"], folder) for one in service.get("configs", [])]
    options = [f"--env={key}={filled(value)}" for key, value in service.get("environment", {}).items()]
    options += [f"--volume={volume}" for volume in volumes]
    options += [f"--cap-drop={capability}" for capability in service.get("cap_drop", [])]
    options += ["--read-only"] if service.get("read_only") else []
    return [*options, f"rlock-{name}", *map(filled, service.get("command", []))]


print("\n".join(words(sys.argv[1], Path(sys.argv[2]))))
