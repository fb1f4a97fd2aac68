"""Debian packages of scripts/packages.txt agree with installers, doctor, conda and images."""

import re
import shutil
import subprocess

import pytest
import yaml

from losslab import doctor
from losslab.backends import preflight
from losslab.instrument import analysis, image, kernel

# Programs that packages.sh calls.
OF_SHELL = ("sh", "dirname", "sed", "awk", "grep")
# Packages of tools with another name; bash and others are called like their packages.
PACKAGE_OF = {"tc": "iproute2", "ip": "iproute2"}
# Tools of util-linux, which every Debian has.
ALWAYS = {"nsenter", "setpriv"}
INSTALL = re.compile(r"apt-get install (?!-)([a-z0-9.+ -]+)")


def listed(root):
    """Return the packages of each part."""
    text = (root / "scripts/packages.txt").read_text()
    parts = {line.split()[0] for line in text.splitlines() if not line.startswith("#")}
    return {part: doctor.debian_packages(part) for part in parts}


def everything(root):
    return {name for names in listed(root).values() for name in names}


def packages_sh(root, folder, parts, installed=(), programs=(), user=0):
    """Run packages.sh on a made-up machine; return its status and apt-get's arguments."""
    for name in OF_SHELL:
        (folder / name).symlink_to(shutil.which(name))
    says = f"case ' {' '.join(installed)} ' in *\" $4 \"*) echo 'install ok installed';; esac"
    stubs = {
        "dpkg-query": says,
        "apt-get": f'echo "$@" >>{folder}/calls',
        "id": f"echo {user}",
        **dict.fromkeys(programs, ":"),
    }
    for name, script in stubs.items():
        (folder / name).write_text(f"#!{folder}/sh\n{script}\n")
        (folder / name).chmod(0o755)
    done = subprocess.run(
        [root / "scripts/packages.sh", *parts], env={"PATH": str(folder)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    calls = folder / "calls"
    return done, calls.read_text().splitlines() if calls.exists() else []


def test_only_missing_packages_are_installed(root, tmp_path):
    installed = ("gcc", "libc6-dev", "docker.io")
    done, calls = packages_sh(root, tmp_path, ["build", "engine"], installed, ("flex", "xz"))
    assert done.returncode == 0, done.stderr
    assert calls[0] == "update -qq"
    names = calls[1].removeprefix("install -y --no-install-recommends ").split()
    there = {"gcc", "libc6-dev", "flex", "xz-utils"}
    assert names == [name for name in listed(root)["build"] if name not in there]


def test_complete_machine_needs_no_root(root, tmp_path):
    done, calls = packages_sh(root, tmp_path, ["engine"], programs=["dockerd"], user=1000)
    assert (done.returncode, calls) == (0, [])


def test_ordinary_user_gets_the_command_for_root(root, tmp_path):
    done, calls = packages_sh(root, tmp_path, ["browser", "engine"], user=1000)
    assert (done.returncode, calls) == (1, [])
    assert done.stderr.endswith("apt-get install -y --no-install-recommends chromium docker.io\n")


def test_check_installs_nothing_and_names_the_missing_packages(root, tmp_path):
    done, calls = packages_sh(root, tmp_path, ["--check", "browser", "engine"])
    assert (done.returncode, done.stdout, calls) == (0, "", [])
    other = tmp_path / "user"
    other.mkdir()
    done, calls = packages_sh(root, other, ["--check", "browser", "engine"], user=1000)
    assert (done.returncode, calls) == (1, [])
    assert "chromium docker.io" in done.stderr


def test_every_package_belongs_to_a_part(root):
    names = ("setup", "containernet", "test")
    scripts = "".join((root / f"scripts/{name}.sh").read_text() for name in names)
    calls = re.findall(r"^[^#\n]*scripts/packages\.sh ([^&|\n]*)", scripts, re.MULTILINE)
    installed = {part for call in calls for part in call.split()} - {"--check"}
    assert installed == set(listed(root))
    assert "apt-get" not in scripts.replace("apt-get install python3 python3-venv", "")


def test_doctor_checks_the_build_tools(root, monkeypatch):
    monkeypatch.setattr(kernel, "existing", lambda *variant, **which: None)
    monkeypatch.setattr(image, "existing", lambda *variant: None)
    looked_for = {
        f.requirement.split()[0] for f in doctor._virtual() if "to build" in f.requirement
    }
    assert looked_for == {program for program in listed(root)["build"].values() if program}


def test_hint_names_listed_packages(root):
    files = [p for d in ("src", "bench", "scripts") for p in (root / d).rglob("*.[ps]*")]
    files = [path for path in files if path.suffix != ".pyc"]
    files += [root / "README.md", root / "CONTRIBUTING.md"]
    found = {
        name for p in files for words in INSTALL.findall(p.read_text()) for name in words.split()
    }
    assert found >= {"docker.io", "python3-venv"}
    assert found - everything(root) == set()


@pytest.mark.parametrize("file", ["environment.yml", "workflow/envs/tools.yaml"])
def test_conda_environment_has_the_listed_packages(root, file):
    """Conda packages have the same name, or the name of an R package: see test_r_packages."""
    names = [
        n for n in yaml.safe_load((root / file).read_text())["dependencies"] if isinstance(n, str)
    ]
    packages = {re.split("[<>=]", name)[0] for name in names}
    r = {name.removeprefix("r-") for name in packages if name.startswith("r-")}
    debian = {name.removeprefix(analysis.R_PREFIX) for name in everything(root)}
    assert r - {"base"} <= debian
    assert {"tidyverse"} <= r
    assert ("util-linux" in packages) == (file == "workflow/envs/tools.yaml")
    assert "util-linux" in everything(root)


def test_conda_has_the_containers_packages_and_names_containernets_source(root):
    text = (root / "environment.yml").read_text()
    names = [name for name in yaml.safe_load(text)["dependencies"] if isinstance(name, str)]
    # The packages have other names in conda.
    called = {"docker.io": "docker-cli"}
    needed = {"git", *listed(root)["engine"]}
    assert {called.get(name, name) for name in needed} <= set(names)
    # The engine image has the client of Containernet.
    assert {"python3-docker", "docker.io"} <= set(image.packages(image.ENGINE))
    assert any(name.startswith("docker-py") for name in names)
    assert set(image.containernet().values()) <= set(text.replace("\n", " ").split())


@pytest.mark.parametrize("name", [image.HOST, image.ENGINE])
def test_package_lock_has_the_packages_of_its_image(name):
    assert set(image.packages(name)) <= {each.package for each in image.lock(name).packages}


def test_emulated_host_has_the_required_tools():
    wanted = {PACKAGE_OF.get(tool, tool) for tool in preflight.TOOLS} - ALWAYS
    assert wanted <= set(image.packages(image.HOST))
