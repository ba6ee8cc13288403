"""A Spark cluster on one machine whose hosts share nothing: a master and workers of the pyspark
package, or YARN's daemons (`tests/kit/yarn.py`), each host in a network, mount and process
namespace of its own.

A host sees `/usr` without Python, Spark at `/opt/spark`, and an empty disk. It reaches the others
by a bridge in the namespace of the driver, which has the services; the machine's own interfaces are
left as they are.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import psutil

PREFIX = "10.213.7"
DRIVER = f"{PREFIX}.1"
MASTER_PORT = 7077
WAIT_S = 240.0  # YARN took 70 at a load of 25
CLONE_NEWNET = 0x40000000
EXECUTOR = "CoarseGrainedExecutorBackend"
_numbers = count(1)


def reason_against() -> str | None:
    """Why this machine can have no such cluster; None: it can."""
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        return "`ip` (iproute2) and `unshare` (util-linux) make the hosts; one is not installed"
    name = f"fl{os.getpid()}t"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"no network namespaces here (root is needed): {made.stderr.strip()[:200]}"
    subprocess.run(["ip", "netns", "del", name], check=False)
    tried = ["unshare", "-m", "-p", "-f", "mount", "-t", "tmpfs", "none", "/mnt"]
    mounted = subprocess.run(tried, capture_output=True, text=True, check=False)
    return (
        f"no mount namespaces here: {mounted.stderr.strip()[:200]}" if mounted.returncode else None
    )


@dataclass
class Host:
    """One that runs a manager's worker; `folder` holds its log."""

    name: str
    address: str
    folder: Path
    cores: int
    memory_mb: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def tree(self) -> list[psutil.Process]:
        """Its processes, as this machine numbers them."""
        if self.process is None:
            return []
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def executors(self) -> list[psutil.Process]:
        """JVMs that run executors."""
        return [one for one in self.tree if is_jvm_with(one, EXECUTOR)]

    def pss(self) -> int:
        """Bytes that its executors take, with their Python workers; shared pages count once."""
        executors = self.executors()
        below = {p.pid: p for one in executors for p in _children(one)}
        everyone = [*executors, *below.values()]
        return sum(_pss(one) for one in everyone)

    def scratch(self) -> list[str]:
        """Every file that an executor on this host has beside its own, as paths there."""
        found = []
        for one in self.tree:
            root = Path(f"/proc/{one.pid}/root/tmp")
            try:
                found = [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()]
            except OSError:
                continue
            break
        return found


@dataclass(frozen=True)
class Manager:
    """What gives executors to drivers: `head` runs at the driver's address, `node` on each host,
    and logs `registered` when it is there. `shared`: a folder that all hosts see at its path."""

    master: str
    head: Sequence[str]
    node: Callable[[Host], Sequence[str]]
    registered: str
    class_path: str = "/opt/spark/jars/*"
    options: str = ""
    shared: Path | None = None


def _worker(host: Host) -> Sequence[str]:
    size = ("--cores", str(host.cores), "--memory", f"{host.memory_mb}m")
    return ("org.apache.spark.deploy.worker.Worker", "--host", host.address, *size, SPARK_MASTER)


SPARK_MASTER = f"spark://{DRIVER}:{MASTER_PORT}"
STANDALONE = Manager(
    SPARK_MASTER,
    ("org.apache.spark.deploy.master.Master", "--host", DRIVER, "--webui-port", "8080"),
    _worker,
    "registered with master",
)


@dataclass
class SparkCluster:
    """A running cluster. Programs in the driver's namespace reach it at its manager's `master`."""

    namespace: str
    folder: Path
    hosts: list[Host]
    manager: Manager
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def master(self) -> str:
        return self.manager.master

    def in_driver(self, argv: Sequence[str]) -> list[str]:
        """The command, run in the driver's network."""
        return ["ip", "netns", "exec", self.namespace, *argv]

    @contextmanager
    def here(self) -> Iterator[None]:
        """This thread, and what it starts, in the driver's network."""
        with enter_network(Path("/run/netns") / self.namespace):
            yield

    def executors(self) -> list[psutil.Process]:
        """Of all hosts."""
        return [one for host in self.hosts for one in host.executors()]

    def read_logs(self) -> list[str]:
        """Return the logs of the hosts."""
        return [path.read_text(errors="replace") for path in self.folder.glob("host*/*.log")]

    def start(self, host: Host) -> None:
        """Its worker."""
        host.process = self._java(host, "worker", self.manager.node(host))

    def stop(self, host: Host) -> None:
        """At once, with everything on it."""
        if host.process is not None:
            _kill(host.process)
            host.process = None

    def _java(self, host: Host, name: str, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        host.folder.mkdir(parents=True, exist_ok=True)
        script = host.folder / f"{name}.sh"
        script.write_text(_host_script(host, argv, self.manager))
        unshared = ("unshare", "-m", "-p", "-u", "-f", "--kill-child", "sh", str(script))
        with (host.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                ["ip", "netns", "exec", host.name, *unshared],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.running.append(process)
        return process


@contextmanager
def spark_cluster(
    folder: Path,
    hosts: int = 2,
    cores: int = 1,
    memory_mb: int = 1536,
    manager: Manager = STANDALONE,
) -> Iterator[SparkCluster]:
    """A master and `hosts` workers as long as the block runs."""
    name = f"fl{os.getpid()}x{next(_numbers)}"
    with ExitStack() as held:
        _driver_network(held, name)
        listed = [
            Host(f"{name}h{number}", f"{PREFIX}.{number + 10}", folder / f"host{number}", cores,
                 memory_mb)
            for number in range(hosts)
        ]  # fmt: skip
        for host in listed:
            _host_network(held, name, host)
        made = SparkCluster(name, folder, listed, manager)
        held.callback(_stop_all, made)
        machine = Host(name, DRIVER, folder / "master", 0, 0)
        made._java(machine, "master", manager.head)
        for host in listed:
            made.start(host)
        _wait(made)
        yield made


def _driver_network(held: ExitStack, name: str) -> None:
    _ip("netns", "add", name)
    held.callback(_ip, "netns", "del", name)
    _ip("-n", name, "link", "set", "lo", "up")
    _ip("-n", name, "link", "add", "br0", "type", "bridge")
    _ip("-n", name, "addr", "add", f"{DRIVER}/24", "dev", "br0")
    _ip("-n", name, "link", "set", "br0", "up")


def _host_network(held: ExitStack, name: str, host: Host) -> None:
    _ip("netns", "add", host.name)
    held.callback(_ip, "netns", "del", host.name)
    end = f"v{host.address.rpartition('.')[2]}"
    _ip("-n", name, "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", host.name)
    _ip("-n", name, "link", "set", end, "master", "br0", "up")
    _ip("-n", host.name, "link", "set", "lo", "up")
    _ip("-n", host.name, "addr", "add", f"{host.address}/24", "dev", "eth0")
    _ip("-n", host.name, "link", "set", "eth0", "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _host_script(host: Host, argv: Sequence[str], manager: Manager) -> str:
    """Makes the host's disk, then runs a daemon on it with an environment of its own. The host's
    name is its address: YARN tells names, and nobody here resolves any."""
    java = Path(shutil.which("java") or "java").resolve().parents[1]
    root = host.folder / "root"
    spec = find_spec("pyspark")
    assert spec is not None
    spark = Path(spec.origin or "").parent
    at_usr = java.is_relative_to("/usr")
    home = java if at_usr else Path("/opt/java")
    bind_java = "" if at_usr else f"mkdir -p {root}/opt/java; mount --bind {java} {root}/opt/java"
    shared = manager.shared
    bind_shared = f"mkdir -p {root}{shared}; mount --bind {shared} {root}{shared}" if shared else ""
    words = " ".join(argv)
    return f"""set -e
mount --make-rprivate /
mkdir -p {root}
mount -t tmpfs none {root}
cd {root}
mkdir -p usr etc dev proc opt/spark tmp work {host.folder}/work
ln -s usr/bin bin; ln -s usr/sbin sbin; ln -s usr/lib lib; ln -s usr/lib64 lib64
mount --rbind /usr usr
for one in usr/bin/python3*; do [ -e "$one" ] && mount --bind /dev/null "$one"; done
mount --rbind /dev dev
mount --bind {spark} opt/spark
{bind_java}
{bind_shared}
mount --bind {host.folder}/work work
mount -t proc proc proc
cp /etc/passwd /etc/group /etc/nsswitch.conf etc/ 2>/dev/null || true
[ -d /etc/alternatives ] && cp -a /etc/alternatives etc/
[ -f /etc/ld.so.cache ] && cp /etc/ld.so.cache etc/
[ -d /etc/java-17-openjdk ] && cp -a /etc/java-17-openjdk etc/
hostname {host.address}
echo '127.0.0.1 localhost' > etc/hosts
cd /
exec chroot {root} /usr/bin/env -i PATH=/usr/bin:/bin HOME=/tmp JAVA_HOME={home} \\
  SPARK_HOME=/opt/spark SPARK_WORKER_DIR=/work SPARK_SCALA_VERSION=2.13 \\
  {home}/bin/java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 {manager.options} \\
  -cp '{manager.class_path}' {words}
"""


def _wait(cluster: SparkCluster) -> None:
    """Until every worker has registered."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        logs = [host.folder / "worker.log" for host in cluster.hosts]
        if all(log.exists() and cluster.manager.registered in log.read_text() for log in logs):
            return
        time.sleep(0.2)
    texts = [log.read_text()[-2000:] for log in cluster.folder.glob("*/*.log")]
    raise RuntimeError("the cluster did not come up:\n" + "\n".join(texts))


def _stop_all(cluster: SparkCluster) -> None:
    for process in reversed(cluster.running):
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """With all that it started: the process namespace ends with its first process."""
    if process.poll() is None:
        for one in psutil.Process(process.pid).children(recursive=True):
            try:
                one.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
        process.kill()
    process.wait()


def is_jvm_with(process: psutil.Process, *words: str) -> bool:
    """Return whether a process is Java's, and its command line contains all these words."""
    try:
        command = process.cmdline()
    except psutil.Error:
        return False
    is_java = bool(command) and command[0].endswith("java")
    return is_java and all(word in " ".join(command) for word in words)


def _children(process: psutil.Process) -> list[psutil.Process]:
    """None where it has ended meanwhile."""
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def _pss(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0


@contextmanager
def enter_network(path: Path) -> Iterator[None]:
    """Put this thread, and what it starts, into a network namespace."""
    with open("/proc/thread-self/ns/net") as own, path.open() as other:
        _setns(other.fileno())
        try:
            yield
        finally:
            _setns(own.fileno())


def _setns(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
