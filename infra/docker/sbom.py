"""Print the CycloneDX SBOM of the image that runs this: Debian's packages, Python's, and jars.

docker run --rm --interactive --entrypoint python IMAGE - < infra/docker/sbom.py
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from urllib.parse import quote

JAR_FOLDERS = ("/opt/iceberg", f"{sys.prefix}/lib/python3.11/site-packages/pyspark/jars")
JAVA = Path("/opt/java/package")
Component = dict[str, object]


def list_debian_packages() -> Iterator[Component]:
    """Yield what dpkg has installed, and the package of which Java is a part."""
    command = ["dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture}\n"]
    listing = subprocess.run(command, capture_output=True, check=True)
    java = JAVA.read_text() if JAVA.exists() else ""
    for line in (listing.stdout.decode() + java).splitlines():
        name, version, architecture = line.split()
        purl = f"pkg:deb/debian/{name}@{quote(version)}?arch={architecture}"
        yield make_component(name, version, purl)


def list_python_packages() -> Iterator[Component]:
    """Yield the distributions of this environment."""
    for one in metadata.distributions():
        name, version = re.sub("[-_.]+", "-", one.metadata["Name"]).lower(), one.version
        yield make_component(name, version, f"pkg:pypi/{name}@{version}")


def list_jars() -> Iterator[Component]:
    """Yield Java's libraries: by their Maven coordinates if the file contains them, else by its
    name."""
    for path in sorted(file for folder in JAR_FOLDERS for file in Path(folder).glob("*.jar")):
        with zipfile.ZipFile(path) as jar:
            found = [one for one in jar.namelist() if one.endswith("/pom.properties")]
            lines = jar.read(found[0]).decode().splitlines() if len(found) == 1 else []
        pom = dict(line.split("=", 1) for line in lines if "=" in line)
        stem, _, version = path.stem.rpartition("-")
        if pom.get("artifactId") and path.stem.startswith(pom["artifactId"]):
            stem, version = pom["artifactId"], pom["version"]
            group = pom["groupId"]
            yield make_component(stem, version, f"pkg:maven/{group}/{stem}@{version}", group)
        else:
            yield make_component(stem or path.stem, version, f"pkg:generic/{quote(path.name)}")


def make_component(name: str, version: str, purl: str, group: str = "") -> Component:
    """Return one entry."""
    more = {"group": group} if group else {}
    entry = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    return {**entry, **more}


def main() -> None:
    """Print the list, each component once, in the same order each time."""
    found = {
        str(one["purl"]): one
        for one in (*list_debian_packages(), *list_python_packages(), *list_jars())
    }
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "components": [found[purl] for purl in sorted(found)],
    }
    print(json.dumps(bom, indent=1))


if __name__ == "__main__":
    main()
