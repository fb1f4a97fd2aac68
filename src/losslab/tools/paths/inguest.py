"""Program in a guest: run a user's file against recorders, and let Linux judge lines of tc.

It has no module of losslab, because it is copied into the guest's job. `inguest.py run` executes
the file `program` with the words of arguments.json. The programs tc, ip, docker ... and the package
mininet are replaced by recorders, so recorded.jsonl has the commands of tc and the links.
`inguest.py apply` runs commands.json, a list of hosts and words, with the real tc on interfaces of
these names, and writes in answers.json why Linux refuses each, or "".
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import json
import os
import re
import shutil
import subprocess
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

BIN, REAL_TC = Path("/tmp/recorders"), Path("/tmp/real-tc")
RECORD = Path("recorded.jsonl")
HOST, LOG = "LOSSLAB_HOST", "LOSSLAB_RECORD"
PROGRAM_S, COMMAND_S = 600.0, 60.0  # of the guest's time, in which waits cost nothing
# Recorders of the commands that scripts run most. Words in the record are separated by SEPARATOR.
SEPARATOR = "\x1f"
TC = """#!/bin/sh
{ printf 'tc\\037%s' "$LOSSLAB_HOST"; printf '\\037%s' "$@"; echo; } >>"$LOSSLAB_RECORD"
"""
SUDO = """#!/bin/sh
while :; do
  case "$1" in
    -u|-g|-p|-h) shift 2 ;;
    -*|*=*) shift ;;
    *) break ;;
  esac
done
[ $# -eq 0 ] || exec "$@"
"""
IP = """#!/bin/sh
if [ "$1" = netns ] && [ "$2" = exec ]; then
  export LOSSLAB_HOST="$3"
  shift 3
  exec "$@"
fi
case " $* " in *" route "*|*" r "*) echo 'default via 10.0.0.1 dev eth0 proto static' ;; esac
"""
# Recorders of commands that run another in a namespace, container or machine.
ENTRIES = ("docker", "podman", "docker-compose", "kubectl", "lxc", "nsenter", "ssh", "su",
           "vagrant")  # fmt: skip
# Options that are followed by a value.
WITH_VALUE = ("-u", "--user", "-e", "--env", "-w", "--workdir", "-p", "-i", "-o", "-l", "-n", "-c",
              "-g", "-t", "--target")  # fmt: skip
# Commands that would wait, or end the guest.
SILENT = ("sleep", "modprobe", "reboot", "shutdown", "poweroff", "halt", "systemctl", "service",
          "ethtool", "iptables", "brctl", "ovs-vsctl", "ping", "iperf", "iperf3", "apt", "apt-get",
          "read")  # fmt: skip
LINK_PARAMETERS = ("bw", "delay", "jitter", "loss", "max_queue_size", "use_tbf", "use_hfsc",
                   "enable_ecn", "enable_red", "latency_ms", "speedup")  # fmt: skip


def record(**event: Any) -> None:
    """Append an event to the record."""
    with Path(os.environ.get(LOG, RECORD)).open("a") as file:
        file.write(json.dumps(event, default=str) + "\n")


def recorder(name: str, words: list[str]) -> int:
    """Act as the program `name`: run the command inside, where it names a host."""
    if name in SILENT:
        return 0
    host, command = _inside(name, words)
    if not command:
        return 0
    environment = os.environ | ({HOST: host} if host else {})
    if len(command) == 1 and " " in command[0]:
        command = ["bash", "-c", command[0]]
    try:
        return subprocess.run(command, env=environment, timeout=PROGRAM_S, check=False).returncode
    except (OSError, subprocess.TimeoutExpired):
        return 0


def _inside(name: str, words: list[str]) -> tuple[str, list[str]]:
    """Return the host and the command that a command runs inside; none if it runs none."""
    rest = list(words)
    if name in ("docker", "podman", "docker-compose", "kubectl", "lxc"):
        if "exec" not in rest:
            return "", []
        rest = rest[rest.index("exec") + 1 :]
    host = ""
    while rest and (rest[0].startswith("-") or re.fullmatch(r"\w+=.*", rest[0])):
        if rest[0] == "--":
            rest = rest[1:]
            break
        if name in ("su", "vagrant") and rest[0] == "-c":
            return host, rest[1:2]
        with_value = ("-t", "--target") if name == "nsenter" else WITH_VALUE
        rest = rest[2 if rest[0] in with_value else 1 :]
    if name not in ("nsenter", "su"):
        host, rest = (rest[0].rpartition("@")[2], rest[1:]) if rest else ("", [])
        if name == "kubectl" and "--" in rest:  # the pod's container is before it
            rest = rest[rest.index("--") :]
        rest = rest[1:] if rest[:1] == ["--"] else rest
    return host, rest


def _install() -> None:
    """Put the recorders before all programs, and in the place of tc itself."""
    BIN.mkdir(exist_ok=True)
    real = shutil.which("tc")
    if real is not None:
        shutil.copy(real, REAL_TC)
    script = BIN / "recorder"
    me = Path(__file__).resolve()
    script.write_text(f'#!/bin/sh\nexec /usr/bin/python3 {me} as "$(basename "$0")" "$@"\n')
    script.chmod(0o755)
    for name in (*ENTRIES, *SILENT):
        (BIN / name).unlink(missing_ok=True)
        (BIN / name).symlink_to(script)
    for name, text in (("tc", TC), ("sudo", SUDO), ("doas", SUDO), ("ip", IP)):
        (BIN / name).write_text(text)
        (BIN / name).chmod(0o755)
    if real is not None:  # for /sbin/tc
        subprocess.run(["mount", "--bind", BIN / "tc", Path(real).resolve()], check=False)


def run_program(arguments: list[str]) -> None:
    """Run the user's file to its end, or to the limit of its time."""
    _install()
    program = Path("program").resolve()
    text = program.read_text(errors="replace")
    first = text.splitlines()[0] if text.strip() else ""
    is_python = "python" in first or (
        not first.startswith("#!")
        and re.search(r"(?m)^\s*(import \w|from [\w.]+ import |def \w+\(.*\).*:\s*$)", text)
    )
    environment = os.environ | {
        LOG: str(RECORD.resolve()), "PATH": f"{BIN}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin",
        "HOME": "/tmp", "BASH_ENV": str(Path("notfound").resolve()), "EUID": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    Path("notfound").write_text("command_not_found_handle() { return 0; }\n")
    command = ["/usr/bin/python3", str(Path(__file__).resolve()), "python", str(program)]
    if not is_python:
        command = ["bash", str(program)]
    folder = Path("/tmp/work")
    folder.mkdir(exist_ok=True)
    with open(os.devnull) as nothing, Path("console").open("wb") as console:
        try:
            status = subprocess.run(
                [*command, *arguments], env=environment, cwd=folder, stdin=nothing, stdout=console,
                stderr=subprocess.STDOUT, timeout=PROGRAM_S, check=False,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            os.environ[LOG] = str(RECORD.resolve())
            record(error=f"it did not end in {PROGRAM_S:g} s")
            return
    if status:
        os.environ[LOG] = str(RECORD.resolve())
        last = Path("console").read_text(errors="replace").strip().splitlines()[-1:]
        record(
            error=f"it ended with the status {status}{': ' if last else ''}{''.join(last)}"[:200]
        )


# A stub of Mininet.


class Anything(types.ModuleType):
    """An object or module of which nothing is known: each use gives another."""

    def __init__(self, name: str = "unknown") -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Anything(f"{self.__name__}.{name}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Return something of which nothing is known, too."""
        return Anything(f"{self.__name__}()")

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __bool__(self) -> bool:
        return False

    def __len__(self) -> int:
        return 0

    def __getitem__(self, _: Any) -> Any:
        return Anything(f"{self.__name__}[]")

    def __setitem__(self, _: Any, __: Any) -> None:
        """Forget the value."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        """End the block."""

    def __mro_entries__(self, _: tuple[Any, ...]) -> tuple[type, ...]:
        return (object,)

    def __str__(self) -> str:
        return f"<{self.__name__}>"


class Named:
    """A class of mininet.link or mininet.node that is only a choice."""


class Intf:
    """An interface of a node."""

    def __init__(self, name: str = "", node: Any = None, **_: Any) -> None:
        self.name, self.node, self.params = name, node, dict[str, Any]()
        self.link: Any = None
        if isinstance(node, Node):
            node.intfs.append(self)

    def config(self, **parameters: Any) -> Any:
        """Record the parameters that a program sets on it."""
        record(config=self.name, parameters=_known(parameters))
        return {}

    def IP(self) -> str:  # noqa: N802 (Mininet's name)
        """Return an address."""
        return "10.0.0.1"

    MAC = updateIP = updateAddr = ifconfig = setIP = setMAC = IP  # noqa: N815 (Mininet's names)

    def __str__(self) -> str:
        return self.name


class TCIntf(Intf):
    """An interface with Mininet's qdiscs."""


class Link:
    """A link between two nodes, which is recorded."""

    tc = False

    def __init__(
        self, node1: Any = None, node2: Any = None, port1: Any = None, port2: Any = None,
        intfName1: Any = None, intfName2: Any = None, **parameters: Any,  # noqa: N803
    ) -> None:  # fmt: skip
        ends, names = (node1, node2), (intfName1, intfName2)
        self.intf1, self.intf2 = (
            TCIntf(str(name or _interface(node)), node)
            for node, name in zip(ends, names, strict=True)
        )
        first = parameters.pop("params1", None) or {}
        second = parameters.pop("params2", None) or {}
        interface = parameters.pop("intf", None)
        is_tc = self.tc or "TC" in getattr(interface, "__name__", "")
        for mine in (first, second):
            merged = _known(parameters | mine)
            if merged and not is_tc:
                record(note=f"the link {node1}, {node2} is no TCLink: Mininet ignores "
                       f"{', '.join(merged)}")  # fmt: skip
                break
        record(
            link=[str(node1), str(node2)], interfaces=[self.intf1.name, self.intf2.name],
            parameters=[_known(parameters | each) if is_tc else {} for each in (first, second)],
        )  # fmt: skip

    def stop(self, *_: Any, **__: Any) -> None:
        """End the link."""

    delete = stop


class TCLink(Link):
    """A link with Mininet's qdiscs."""

    tc = True


def _known(parameters: dict[str, Any]) -> dict[str, str]:
    """Return the parameters of a link's qdiscs as text."""
    return {
        name: f"{value:.10g}" if isinstance(value, float) else str(value)
        for name, value in parameters.items()
        if name in LINK_PARAMETERS and value not in (None, False)
    }


def _interface(node: Any) -> str:
    if not isinstance(node, Node):
        return f"{node}-eth0"
    number = len(node.intfs) + (0 if node.is_host else 1)
    return f"{node.name}-eth{number}"


class Node:
    """A host or a switch. Its commands run with a host's name, so recorders know where."""

    is_host = True

    def __init__(self, name: str = "", **parameters: Any) -> None:
        self.name, self.params, self.intfs = str(name), parameters, list[Intf]()
        self.waiting, self.pid = False, os.getpid()
        record(node=self.name, is_host=self.is_host)

    def cmd(self, *words: Any, **_: Any) -> str:
        """Run a command of a shell; return what it prints."""
        flat = words[0] if len(words) == 1 and isinstance(words[0], list | tuple) else words
        command = " ".join(map(str, flat)).rstrip("& \n")
        try:
            return subprocess.run(
                ["bash", "-c", command], env=os.environ | {HOST: self.name}, check=False,
                capture_output=True, text=True, timeout=COMMAND_S, stdin=subprocess.DEVNULL,
            ).stdout  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return ""

    sendCmd = cmdPrint = cmd  # noqa: N815

    def pexec(self, *words: Any, **more: Any) -> tuple[str, str, int]:
        """Run a command; return output, errors and status."""
        return self.cmd(*words, **more), "", 0

    def popen(self, *words: Any, **_: Any) -> Any:
        """Run a command; return a process that has ended."""
        self.cmd(*words)
        return subprocess.Popen(
            ["true"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def waitOutput(self, *_: Any, **__: Any) -> str:  # noqa: N802
        """Return the output of the last command."""
        return ""

    def intf(self, which: Any = None) -> Any:
        """Return an interface by its name or number, by default the first."""
        for interface in self.intfs:
            if str(which) in (interface.name, interface.name.rpartition("eth")[2]):
                return interface
        return self.intfs[0] if self.intfs else Intf(f"{self.name}-eth0", self)

    defaultIntf = intf  # noqa: N815

    def intfList(self) -> list[Intf]:  # noqa: N802
        """Return the interfaces."""
        return self.intfs

    def intfNames(self) -> list[str]:  # noqa: N802
        """Return the names of the interfaces."""
        return [each.name for each in self.intfs]

    def connectionsTo(self, other: Any) -> list[Any]:  # noqa: N802
        """Return the pairs of interfaces of links to a node."""
        return [(self.intf(), other.intf())]

    def IP(self, *_: Any) -> str:  # noqa: N802
        """Return an address."""
        return "10.0.0.1"

    MAC = IP

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(f"{self.name}.{name}")

    def __str__(self) -> str:
        return self.name


class Host(Node):
    """A host."""


class Switch(Node):
    """A switch or a controller."""

    is_host = False


class Topo:
    """A topology: nodes and links by name."""

    def __init__(self, *arguments: Any, **parameters: Any) -> None:
        self.nodes_ = dict[str, tuple[bool, dict[str, Any]]]()
        self.links_ = list[tuple[str, str, dict[str, Any]]]()
        self.hopts, self.sopts, self.lopts = ({} | parameters.pop(n, {}) for n in
                                              ("hopts", "sopts", "lopts"))  # fmt: skip
        self.build(*arguments, **parameters)

    def build(self, *_: Any, **__: Any) -> None:
        """Build the topology; classes of programs do."""

    def addNode(self, name: str, **options: Any) -> str:  # noqa: N802
        """Add a node, a host unless it is a switch."""
        self.nodes_[name] = (not options.pop("isSwitch", False), options)
        return name

    def addHost(self, name: str, **options: Any) -> str:  # noqa: N802
        """Add a host."""
        self.nodes_[name] = (True, self.hopts | options)
        return name

    def addSwitch(self, name: str, **options: Any) -> str:  # noqa: N802
        """Add a switch."""
        self.nodes_[name] = (False, self.sopts | options)
        return name

    def addLink(self, node1: str, node2: str, port1: Any = None, port2: Any = None,  # noqa: N802
                key: Any = None, **options: Any) -> None:  # fmt: skip
        """Add a link."""
        self.links_.append((str(node1), str(node2), self.lopts | options))

    def hosts(self, *_: Any, **__: Any) -> list[str]:
        """Return the hosts' names."""
        return [name for name, (is_host, _) in self.nodes_.items() if is_host]

    def switches(self, *_: Any, **__: Any) -> list[str]:
        """Return the switches' names."""
        return [name for name, (is_host, _) in self.nodes_.items() if not is_host]

    def nodes(self, *_: Any, **__: Any) -> list[str]:
        """Return all nodes' names."""
        return [*self.nodes_]

    def isSwitch(self, name: str) -> bool:  # noqa: N802
        """Return whether a node is a switch."""
        return not self.nodes_[name][0]

    def links(self, *_: Any, **__: Any) -> list[tuple[str, str]]:
        """Return the links' ends."""
        return [(a, b) for a, b, _ in self.links_]


class SingleSwitchTopo(Topo):
    """Hosts on one switch."""

    def build(self, k: int = 2, **options: Any) -> None:
        """Add the switch and k hosts."""
        switch = self.addSwitch("s1")
        for number in range(1, k + 1):
            self.addLink(self.addHost(f"h{number}"), switch, **options)


class LinearTopo(Topo):
    """Switches in a row, each with hosts."""

    def build(self, k: int = 2, n: int = 1, **options: Any) -> None:
        """Add k switches with n hosts each."""
        last = None
        for number in range(1, k + 1):
            switch = self.addSwitch(f"s{number}")
            for host in range(1, n + 1):
                name = f"h{number}" if n == 1 else f"h{host}s{number}"
                self.addLink(self.addHost(name), switch, **options)
            if last:
                self.addLink(last, switch, **options)
            last = switch


class Mininet:
    """A network of a topology, or of nodes and links that a program adds."""

    built = False

    def __init__(self, topo: Any = None, link: Any = Link, **_: Any) -> None:
        type(self).built = True
        self.link_, self.by_name = link, dict[str, Node]()
        self.links = list[Any]()
        if isinstance(topo, Topo):
            for name, (is_host, options) in topo.nodes_.items():
                self._node(Host if is_host else Switch, name, options)
            for a, b, options in topo.links_:
                self.addLink(self.by_name[a], self.by_name[b], **options)

    def _node(self, kind: Any, name: Any, options: dict[str, Any]) -> Node:
        made = kind(str(name), **options)
        self.by_name[str(name)] = made
        return made  # type: ignore[no-any-return]

    def addHost(self, name: str, cls: Any = None, **options: Any) -> Node:  # noqa: N802
        """Add a host."""
        its = isinstance(cls, type) and issubclass(cls, Node) and cls.is_host
        return self._node(cls if its else Host, name, options)

    addDocker = addNAT = addStation = addHost  # noqa: N815

    def addSwitch(self, name: str, *_: Any, **options: Any) -> Node:  # noqa: N802
        """Add a switch."""
        return self._node(Switch, name, {})

    addController = addSwitch  # noqa: N815

    def addLink(self, node1: Any, node2: Any, *ports: Any, cls: Any = None,  # noqa: N802
                **options: Any) -> Any:  # fmt: skip
        """Add a link of a class, by default that of the network."""
        a, b = (self.by_name.get(str(node), node) for node in (node1, node2))
        kind = cls or self.link_
        made = kind(a, b, *ports, **options) if callable(kind) else Link(a, b, **options)
        if isinstance(made, Anything):
            made = Link(a, b, **options)
        self.links.append(made)
        return made

    def get(self, *names: str) -> Any:
        """Return nodes by their names."""
        found = [self.by_name.get(name) or self._node(Host, name, {}) for name in names]
        return found[0] if len(found) == 1 else found

    getNodeByName = get  # noqa: N815

    def __getitem__(self, name: str) -> Any:
        return self.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    @property
    def hosts(self) -> list[Node]:
        """The hosts."""
        return [node for node in self.by_name.values() if node.is_host]

    @property
    def switches(self) -> list[Node]:
        """The switches."""
        return [node for node in self.by_name.values() if not node.is_host]

    controllers = ()

    def linksBetween(self, a: Any, b: Any) -> list[Any]:  # noqa: N802
        """Return the links between two nodes."""
        return [link for link in self.links
                if {link.intf1.node, link.intf2.node} == {a, b}]  # fmt: skip

    def pingAll(self, *_: Any, **__: Any) -> float:  # noqa: N802
        """Return the share of lost pings."""
        return 0.0

    ping = pingAllFull = pingFull = pingAll  # noqa: N815

    def iperf(self, *_: Any, **__: Any) -> list[str]:
        """Return two rates."""
        return ["1 Mbits/sec", "1 Mbits/sec"]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(f"net.{name}")


def _custom(kind: Any, **parameters: Any) -> Callable[..., Any]:
    def made(*arguments: Any, **more: Any) -> Any:
        return kind(*arguments, **(parameters | more))

    made.__name__ = getattr(kind, "__name__", "custom")
    return made


def _irange(start: int, end: int) -> list[int]:
    return [*range(start, end + 1)]


def _nothing(*_: Any, **__: Any) -> str:
    return ""


def _shell_output(command: Any, *_: Any, **__: Any) -> str:
    words = command if isinstance(command, str) else " ".join(map(str, command))
    found = subprocess.run(
        ["bash", "-c", words], capture_output=True, text=True, check=False, timeout=COMMAND_S,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return found.stdout


KNOWN = {
    "Mininet": Mininet, "MininetWithControlNet": Mininet, "Containernet": Mininet, "Topo": Topo,
    "SingleSwitchTopo": SingleSwitchTopo, "LinearTopo": LinearTopo, "Link": Link, "OVSLink": Link,
    "TCLink": TCLink, "TCULink": TCLink, "Intf": Intf, "TCIntf": TCIntf, "Node": Node,
    "Host": Host, "CPULimitedHost": Host, "Switch": Switch, "OVSSwitch": Switch,
    "OVSKernelSwitch": Switch, "UserSwitch": Switch, "OVSBridge": Switch, "LinuxBridge": Switch,
    "Docker": Host, "NAT": Host, "LinuxRouter": Host, "Controller": Switch, "irange": _irange,
    "custom": _custom, "quietRun": _shell_output, "CLI": _nothing, "setLogLevel": _nothing,
    "info": _nothing, "error": _nothing, "debug": _nothing, "output": _nothing, "warn": _nothing,
    "dumpNodeConnections": _nothing, "cleanup": _nothing, "errFail": _nothing,
}  # fmt: skip


MININET = ("mininet", "containernet", "mn_wifi", "ipmininet")


class Stub(Anything):
    """A module of the stub, which has the names of all of Mininet's modules."""

    def __getattr__(self, name: str) -> Any:
        return KNOWN[name] if name in KNOWN else super().__getattr__(name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of Mininet, or something for each module that the guest does not have."""

    def __init__(self, mininet: bool) -> None:
        self.mininet = mininet

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """Return a loader for the names that are this finder's."""
        if self.mininet and name.partition(".")[0] not in MININET:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        """Make the module."""
        if self.mininet:
            return Stub(spec.name)
        record(note=f"the program's module {spec.name} is not there: its values are unknown")
        return Anything(spec.name)

    def exec_module(self, module: Any) -> None:
        """Leave the module as it is."""


def run_python(program: str, arguments: list[str]) -> None:
    """Run a Python program; build its topologies if it builds no network."""
    sys.argv = [program, *arguments]
    sys.meta_path[:] = [Finder(True), *sys.meta_path, Finder(False)]
    names = dict[str, Any]()
    code = compile(Path(program).read_text(errors="replace"), program, "exec", dont_inherit=True)
    names.update({"__name__": "__main__", "__file__": program, "__builtins__": __builtins__})
    main = types.ModuleType("__main__")
    main.__dict__.update(names)
    sys.modules["__main__"] = main
    status: Any = 0
    try:
        exec(code, main.__dict__)
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
        status = 1
    if not Mininet.built:
        _build(main.__dict__)
    sys.exit(status)


def _build(names: dict[str, Any]) -> None:
    """Build the topologies of a file for `mn --custom`."""
    made = names.get("topos")
    topologies = [*made.values()] if isinstance(made, dict) else []
    topologies = topologies or [
        its for its in names.values()
        if isinstance(its, type) and issubclass(its, Topo) and its not in KNOWN.values()
    ]  # fmt: skip
    for topology in topologies[:1]:
        try:
            Mininet(topo=topology(), link=TCLink)
        except Exception as raised:
            record(error=f"its topology ended with {type(raised).__name__}: {raised}"[:300])
    if len(topologies) > 1:
        record(note=f"the first of {len(topologies)} topologies is read")


# Linux's judgement.


def apply() -> None:
    """Run commands with the real tc, those of a host in a network namespace of its own."""
    commands: list[tuple[str, list[str]]] = json.loads(Path("commands.json").read_text())
    tc = str(REAL_TC) if REAL_TC.exists() else "tc"
    answers = [""] * len(commands)
    for host in dict.fromkeys(host for host, _ in commands):
        mine = [(at, words) for at, (its, words) in enumerate(commands) if its == host]
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            with contextlib.suppress(BaseException), os.fdopen(writer, "w") as out:
                os.unshare(os.CLONE_NEWNET)  # type: ignore[attr-defined,unused-ignore]
                json.dump([[at, _judged(tc, words)] for at, words in mine], out)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as got:
            text = got.read()
        os.waitpid(child, 0)
        for at, answer in json.loads(text or "[]"):
            answers[at] = answer
    Path("answers.json").write_text(json.dumps(answers))


def _judged(tc: str, words: Sequence[str]) -> str:
    """Return why Linux refuses a command; "" if it takes it."""
    if "dev" in words[:-1]:
        device = words[words.index("dev") + 1]
        kind = "ifb" if device.startswith("ifb") else "dummy"
        for command in (["add", device, "type", kind], ["set", device, "txqueuelen", "1000", "up"]):
            subprocess.run(["/usr/sbin/ip", "link", *command], capture_output=True, check=False)
    tries = [[*words]]
    if words[1:2] == ["change"]:  # of a file that begins with it
        tries.append([words[0], "replace", *words[2:]])
    message = ""
    for each in tries:
        found = subprocess.run([tc, *each], capture_output=True, text=True, check=False)
        if not found.returncode:
            return ""
        message = message or " ".join(found.stderr.split())
    return message or "no reason"


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "as":
        sys.exit(recorder(rest[0], rest[1:]))
    elif what == "python":
        run_python(rest[0], rest[1:])
    elif what == "run":
        run_program(json.loads(Path("arguments.json").read_text()))
    else:
        apply()
