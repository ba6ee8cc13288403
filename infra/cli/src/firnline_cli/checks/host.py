"""Checks this host: Java, the jars, the state directory, our user."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from firnline_local.servers.artifacts import PinnedArtifact, read_pins

from firnline_cli.checks.findings import Check, CheckAnswer, Failed, failed_answer, remark
from firnline_cli.checks.settings import OF_JAVA, OF_STATE, Given

FULL_BYTES = 64 << 20  # less, and the gateway's outbox or a delete set does not fit
LITTLE_BYTES = 2 << 30  # a large partition's delete sets
OWN_DISK = "a folder, of each service its own, on a disk that its user can write"
PROBE_BYTES = 1 << 20
JAR_S = 120.0  # every byte of two jars is read twice: over 20 s on a host at a load of 30
FETCH = "run `firnline jars` and set FIRNLINE_ICEBERG_JAR to what it prints"


def host_checks(given: Given) -> Iterator[Check]:
    """Yield the checks that concern the given services."""
    if given.concerns(OF_JAVA):
        yield Check("host.user", f"who user {os.getuid()} is", check_user)
        yield Check("host.java", "start Java", check_java)
        yield Check("host.spark", "find PySpark", check_spark)
        jars = given.told.iceberg_jar or ""
        tried = f"read {jars or 'FIRNLINE_ICEBERG_JAR'}"
        yield Check("host.jar", tried, lambda: check_iceberg_jars(jars), (), JAR_S)
    if given.concerns(OF_STATE):
        place = given.told.state_dir
        tried = f"write into {place or 'FIRNLINE_STATE_DIR'}"
        yield Check("host.state", tried, lambda: check_state_dir(place))


def check_user() -> str:
    """Check that the user has a name: Hadoop, under Spark and Iceberg, refuses one without."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise Failed(
            "it has no entry in /etc/passwd: Hadoop ends with `Invalid UID`",
            "add a line `firnline:x:UID:GID::/tmp:/bin/sh` to /etc/passwd (of the image, or by its "
            "entry point), or run as a user that has one",
        ) from None


def check_java() -> str:
    """Return what `java -version` prints. Raises Failed unless it is 17 or newer."""
    from firnline_local.servers.java import OLDEST, JavaMissing
    from firnline_local.servers.java import find_java as find

    remedy = f"install a Java runtime of version {OLDEST} or newer, and set JAVA_HOME to its folder"
    try:
        path = find()
        said = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=15)
    except (JavaMissing, OSError, subprocess.TimeoutExpired) as error:
        raise Failed(error, remedy) from None
    return f"{path}: {(said.stderr + said.stdout).splitlines()[0]}"


def check_spark() -> str:
    """Return the version of PySpark, which has to be that of the Iceberg jar."""
    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        raise Failed("it is not installed", "pip install 'firnline[worker]'") from None
    wanted = _spark_of(read_pins("iceberg")[0])
    if not version.startswith(f"{wanted}."):
        raise Failed(f"PySpark {version}", f"pip install 'pyspark=={wanted}.*'")
    return f"PySpark {version}"


def _spark_of(pin: PinnedArtifact) -> str:
    """Return 4.1 of `iceberg-spark-runtime-4.1_2.13-1.12.0.jar`."""
    return pin.file_name.removeprefix("iceberg-spark-runtime-").partition("_")[0]


def check_iceberg_jars(given: str) -> CheckAnswer | str:
    """Check the jars of FIRNLINE_ICEBERG_JAR, separated by colons: the first is the Iceberg runtime
    that Firnline was built with, and known bundles behind it are the published files. Return a
    remark if the runtime is not the published file. Raises Failed."""
    runtime, *bundles = given.split(os.pathsep)
    if not runtime:
        raise Failed("it is not set", FETCH)
    for bundle in bundles:
        _check_bundle(Path(bundle))
    return _judge_jar(Path(runtime))


def _check_bundle(path: Path) -> None:
    if not path.is_file():
        raise Failed(f"there is no file {path}", FETCH)
    pin = next((one for one in read_pins("bundles") if one.file_name == path.name), None)
    if pin is not None and _sha256(path) != pin.sha256:
        raise Failed(f"{path.name} is not the published file", FETCH)


def _judge_jar(path: Path) -> CheckAnswer | str:
    pin = read_pins("iceberg")[0]
    if not path.is_file():
        raise Failed("there is no such file", FETCH)
    wanted = pin.path.split("/")[-2]
    version = _version_in(path)
    if version != wanted:
        raise Failed(f"it has Iceberg {version}, not {wanted}", FETCH)
    if _spark_of(pin) not in path.name:
        raise Failed(f"it is not for Spark {_spark_of(pin)}", FETCH)
    if _sha256(path) != pin.sha256:
        return remark(
            f"Iceberg {version}, but not the published file ({pin.sha256[:12]}...)", FETCH
        )
    return f"Iceberg {version}, its SHA-256 is the published one"


def _version_in(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as jar:
            if damaged := jar.testzip():
                raise Failed(f"it is damaged: {damaged}", FETCH)
            text = jar.read("iceberg-build.properties").decode()
            jar.getinfo("org/apache/iceberg/spark/SparkCatalog.class")
    except zipfile.BadZipFile as error:
        raise Failed(f"it is no jar: {error}", FETCH) from None
    except KeyError:
        raise Failed("it is not the jar of Iceberg's Spark runtime", FETCH) from None
    pairs = dict(line.partition("=")[::2] for line in text.splitlines())
    return pairs.get("git.build.version", "of an unknown version")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_state_dir(place: str | None) -> CheckAnswer | str:
    """Write, lock and sync a file in the folder, as the services do, and check its free space.
    Raises Failed."""
    if not place:
        raise Failed("it is not set", f"FIRNLINE_STATE_DIR names {OWN_DISK}")
    remedy = f"FIRNLINE_STATE_DIR names {OWN_DISK}"
    try:
        Path(place).mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix="doctor-", dir=place) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise Failed(f"{error.strerror or error}", remedy) from None
    free = shutil.disk_usage(place).free
    found = f"{free / (1 << 30):.1f} GiB free"
    if free < FULL_BYTES:
        return failed_answer(f"it is full: {free >> 20} MiB free", f"free space there, or {remedy}")
    return remark(found, "large delete sets need 2 GiB or more") if free < LITTLE_BYTES else found
