"""A program that attacks the host from inside a guest: every attempt fails without effect."""

import json
import os
import re
import select
import shutil
import socket
import stat
import subprocess

import pytest

from losslab.campaign.instrument import instrument
from losslab.instrument import kernel, kernels
from tests.e2e.test_measure import measure

# The program also transfers data like an ordinary run.
STREAM = "receive", "stream.py"
SECRET = "only the host's user reads this\n"


def state_of(tree):
    """Return size, times, owner and mode of everything in a tree."""
    found = {}
    for folder, folders, files in os.walk(tree):
        for name in [*folders, *files]:
            path = f"{folder}/{name}"
            its = os.lstat(path)
            found[path] = (its.st_mode, its.st_uid, its.st_size, its.st_mtime_ns, its.st_ctime_ns)
    return found


def copy_of_the_instrument(cache, name):
    """Copy kernel and image, which a successful attack would damage; return the image."""
    tools = instrument(spec=kernels.get(name))
    for kind, folder in (("kernel", tools.kernel.parent), ("image", tools.image_root.parent)):
        (cache / kind).mkdir(parents=True)
        subprocess.run(["cp", "-a", folder, cache / kind], check=True)
    return cache / "image" / tools.image_root.parent.name / "root"


OTHERS = [
    pytest.param(name, marks=pytest.mark.nightly)
    for name, its in kernels.declared().items() if its != kernels.default()
]  # fmt: skip


@pytest.fixture(scope="module", params=[kernels.default().name, *OTHERS])
def name(request):
    """Return the name of a built kernel; the default one always is."""
    which = kernels.get(request.param)
    if which != kernels.default() and kernel.part(which).existing() is None:
        pytest.skip(f"`{which.command}`: ten minutes")
    return request.param


@pytest.fixture(scope="module")
def attacked(root, tmp_path_factory, name):
    """Run the program once on each kernel; return the run's folder and the attacked objects."""
    work = tmp_path_factory.mktemp("hostile")
    programs = work / "programs"
    shutil.copytree(root / "tests" / "fixtures" / "hostile", programs)
    for each in STREAM:
        shutil.copy(root / "tests" / "fixtures" / "programs" / each, programs)
    secret = work / "secret.txt"
    secret.write_text(SECRET)
    disk = os.stat(root).st_dev
    image = copy_of_the_instrument(work / "cache", name)
    before = state_of(image)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        subprocess.Popen(["sleep", "600"]) as victim,
    ):
        try:
            host = {
                "secret": str(secret), "pid": victim.pid, "port": listener.getsockname()[1],
                "address": "192.0.2.1", "disk": [os.major(disk), os.minor(disk)],
            }  # fmt: skip
            (programs / "host.json").write_text(json.dumps(host))
            done = measure(
                work / "out",
                "--algorithm", "cubic", "--kernel", name, "--app", "command", "--bring", "programs",
                "--rate-mbit", 10, "--rtt-ms", 20, "--buffer-packets", 30,
                "--receiver-command", "./receive",
                "--sender-command", "./attack.py && exec ./stream.py send",
                cwd=work, env=os.environ | {"LOSSLAB_CACHE": str(work / "cache")},
            )  # fmt: skip
            reached = {
                "process": victim.poll() is not None,
                "port": bool(select.select([listener], [], [], 0)[0]),
                "secret": secret.read_text() != SECRET,
                "image": state_of(image) != before,
            }
        finally:
            victim.kill()
            shutil.rmtree(work / "cache")
    assert done.returncode == 0, done.stderr
    return work / "out", reached


def test_every_attack_of_a_hostile_program_fails_and_changes_nothing_on_the_host(attacked):
    out, reached = attacked
    lines = (out / "program-attempts").read_text().splitlines()
    assert [line for line in lines if "SUCCEEDED" in line] == []
    # The guest's kernel refused each attack; none failed for another reason.
    said = dict(line.split(": ", 1) for line in lines)
    refused = {
        "mount_the_hosts_root": "permission denied",
        "mount_the_jobs_folder_again": "permission denied",
        "remount_the_image": "Read-only file system",
        "remount_a_bind_of_the_image": "Read-only file system",
        "remount_the_sources": "Read-only file system",
        "change_the_mode_of_a_program_of_the_image": "Read-only file system",
        "remove_a_program_of_the_image": "Read-only file system",
        "write_to_the_image": "Read-only file system",
        "write_to_the_sources": "Read-only file system",
        "read_a_secret": "No such file",
        "leave_a_link_to_a_secret": "not permitted",
        "leave_a_device": "not permitted",
        "leave_a_fifo": "not permitted",
        "leave_a_program_with_its_owners_rights": "not permitted",
        "leave_a_file_to_another_user": "not permitted",
        "open_the_hosts_disk": "No such device",
        "open_the_hosts_memory": "No such device",
        "kill_a_process_of_the_host": "No such process",
        "connect_to_the_host": "refused",
        "connect_to_the_host_from_the_first_namespace": "unreachable",
        "connect_to_the_hosts_network": "unreachable",
    }
    assert said.keys() == refused.keys()
    assert {name: words for name, words in said.items() if refused[name] not in words} == {}
    assert reached == {"process": False, "port": False, "secret": False, "image": False}


def test_hostile_run_is_valid_and_has_regular_files_without_secret_or_host_path(attacked):
    out, _ = attacked
    for path in out.rglob("*"):
        mode, content = path.lstat().st_mode, path.read_bytes()
        assert stat.S_ISREG(mode), path
        assert not mode & (stat.S_ISUID | stat.S_ISGID), path
        assert SECRET.encode() not in content, path
        assert path.name == "program-attempts" or str(out.parent).encode() not in content, path
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["valid"], manifest["reasons"]
    assert manifest["cell"]["bring"] == "./programs"


def test_kernel_has_no_driver_that_reaches_the_host(root, name):
    """SECURITY.md lists the symbols that are not built."""
    page = (root / "SECURITY.md").read_text()
    absent = {
        name for line in page.splitlines() if "not built" in line
        for name in re.findall(r"CONFIG_\w+", line)
    }  # fmt: skip
    assert {"CONFIG_MCONSOLE", "CONFIG_UML_NET", "CONFIG_DEVMEM", "CONFIG_MODULES"} < absent
    built = (instrument(spec=kernels.get(name)).kernel.parent / "config").read_text()
    assert "CONFIG_HOSTFS=y" in built
    assert [name for name in absent if re.search(rf"^{name}=", built, re.MULTILINE)] == []
