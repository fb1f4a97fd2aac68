"""One list of Debian packages, scripts/packages.txt: who installs, seeks or names them agrees."""

import re
import shutil
import subprocess

import pytest
import yaml

from losslab import doctor
from losslab.backends import preflight
from losslab.instrument import image, kernel

# What packages.sh itself calls.
OF_SHELL = ("sh", "dirname", "sed", "awk", "grep")
# Tools of an emulated host that come with another package; bash and others are called as theirs.
PACKAGE_OF = {"tc": "iproute2", "ip": "iproute2"}
# Of util-linux, without which there is no Debian.
ALWAYS = {"nsenter", "setpriv"}
INSTALL = re.compile(r"apt-get install (?!-)([a-z0-9.+ -]+)")


def listed(root):
    """The packages of each part."""
    text = (root / "scripts/packages.txt").read_text()
    parts = {line.split()[0] for line in text.splitlines() if not line.startswith("#")}
    return {part: doctor.debian_packages(part) for part in parts}


def everything(root):
    return {name for names in listed(root).values() for name in names}


def asked(root, folder, parts, installed=(), programs=(), user=0):
    """Run packages.sh with a machine of our own; return how it ended and what apt-get was told."""
    for name in OF_SHELL:
        (folder / name).symlink_to(shutil.which(name))
    says = f"case ' {' '.join(installed)} ' in *\" $4 \"*) echo 'install ok installed';; esac"
    stubs = {
        "dpkg-query": says,
        "apt-get": f'echo "$@" >>{folder}/told',
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
    told = folder / "told"
    return done, told.read_text().splitlines() if told.exists() else []


def test_what_is_missing_is_installed_and_no_more(root, tmp_path):
    installed = ("gcc", "libc6-dev", "git")
    done, told = asked(root, tmp_path, ["build", "containers"], installed, ("flex", "xz"))
    assert done.returncode == 0, done.stderr
    assert told[0] == "update -qq"
    names = told[1].removeprefix("install -y --no-install-recommends ").split()
    there = {"gcc", "libc6-dev", "flex", "xz-utils"}
    assert names == [name for name in listed(root)["build"] if name not in there]


def test_where_nothing_is_missing_nobody_needs_root(root, tmp_path):
    done, told = asked(root, tmp_path, ["engine"], programs=["dockerd"], user=1000)
    assert (done.returncode, told) == (0, [])


def test_an_ordinary_user_is_told_what_root_must_do(root, tmp_path):
    done, told = asked(root, tmp_path, ["containers", "engine"], user=1000)
    assert (done.returncode, told) == (1, [])
    assert done.stderr.endswith("apt-get install -y --no-install-recommends git docker.io\n")


def test_a_check_installs_nothing_and_tells_who_could_not(root, tmp_path):
    done, told = asked(root, tmp_path, ["--check", "containers", "engine"])
    assert (done.returncode, done.stdout, told) == (0, "", [])
    other = tmp_path / "user"
    other.mkdir()
    done, told = asked(root, other, ["--check", "containers", "engine"], user=1000)
    assert (done.returncode, told) == (1, [])
    assert "git docker.io" in done.stderr


def test_every_part_is_somebodys(root):
    names = ("setup", "containernet", "test")
    scripts = "".join((root / f"scripts/{name}.sh").read_text() for name in names)
    calls = re.findall(r"^\s*scripts/packages\.sh ([^&|\n]*)", scripts, re.MULTILINE)
    installed = {part for call in calls for part in call.split()} - {"--check"}
    # The tests of the emulated machine and of the cluster say what they miss.
    assert installed | {"machine", "cluster"} == set(listed(root))
    assert "apt-get" not in scripts.replace("apt-get install python3 python3-venv", "")


def test_doctor_looks_for_what_builds(root, monkeypatch):
    monkeypatch.setattr(kernel, "existing", lambda *variant, **which: None)
    monkeypatch.setattr(image, "existing", lambda *variant: None)
    looked_for = {f.what.split()[0] for f in doctor._virtual() if "to build" in f.what}
    assert looked_for == {program for program in listed(root)["build"].values() if program}


def test_a_hint_names_what_is_listed(root):
    files = [p for d in ("src", "bench", "scripts") for p in (root / d).rglob("*.[ps]*")]
    files = [path for path in files if path.suffix != ".pyc"]
    files += [root / "README.md", root / "CONTRIBUTING.md"]
    found = {
        name for p in files for words in INSTALL.findall(p.read_text()) for name in words.split()
    }
    assert found >= {"docker.io", "python3-venv"}
    assert found - everything(root) == set()


@pytest.mark.parametrize("file", ["environment.yml", "workflow/envs/tools.yaml"])
def test_conda_has_what_is_listed(root, file):
    """Under the same name, or as R's packages are called there; test_r_packages says which."""
    names = [
        n for n in yaml.safe_load((root / file).read_text())["dependencies"] if isinstance(n, str)
    ]
    packages = {re.split("[<>=]", name)[0] for name in names}
    r = {name.removeprefix("r-") for name in packages if name.startswith("r-")}
    # Quarto knits with rmarkdown; where there is none, knitr does it. ggplot2 is of tidyverse.
    debian = {name.removeprefix(doctor.OF_R) for name in everything(root)}
    assert r - {"base", "rmarkdown", "ggplot2"} <= debian
    assert {"tidyverse"} <= r
    assert ("util-linux" in packages) == (file == "workflow/envs/tools.yaml")
    assert "util-linux" in everything(root)


def test_conda_has_what_containers_need_and_says_where_containernet_is(root):
    text = (root / "environment.yml").read_text()
    names = [name for name in yaml.safe_load(text)["dependencies"] if isinstance(name, str)]
    # Under the names that they have there.
    called = {"docker.io": "docker-cli"}
    needed = {name for part in ("containers", "engine") for name in listed(root)[part]}
    assert {called.get(name, name) for name in needed} <= set(names)
    # The client that Containernet itself has in the engine image.
    assert {"python3-docker", "docker.io"} <= set(image.packages(image.ENGINE))
    assert any(name.startswith("docker-py") for name in names)
    assert set(image.containernet().values()) <= set(text.replace("\n", " ").split())


@pytest.mark.parametrize("name", [image.HOST, image.ENGINE])
def test_a_lock_has_what_its_image_is_to_have(name):
    assert set(image.packages(name)) <= {each.package for each in image.lock(name).packages}


def test_an_emulated_host_has_the_tools_that_are_looked_for_in_it():
    wanted = {PACKAGE_OF.get(tool, tool) for tool in preflight.TOOLS} - ALWAYS
    assert wanted <= set(image.packages(image.HOST))
