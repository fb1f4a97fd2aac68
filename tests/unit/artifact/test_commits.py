"""Digests of trees and commits, computed without git."""

import subprocess
from pathlib import Path

from losslab.artifact import commits


def test_tree_digest_equals_gits(tmp_path):
    def git(*words):
        command = ["git", "-C", tmp_path, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    for name in ("a", "a.b", "a-b/c", "a/d", "a0/e f", "b/\u00e9"):
        path = tmp_path / "x" / name if name == "a" else tmp_path / "y" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "y/a.b").chmod(0o755)
    (tmp_path / "y/link").symlink_to("a.b")
    git("init", "--quiet")
    git("add", "--all")
    git("-c", "user.name=a", "-c", "user.email=a", "commit", "--quiet", "--message", "\u00e9")
    names = git("-c", "core.quotePath=false", "ls-files").splitlines()
    name, text = git("rev-parse", "HEAD"), git("cat-file", "commit", "HEAD") + "\n"
    assert commits.tree_of(tmp_path, map(Path, names), 40) == git("rev-parse", "HEAD^{tree}")
    assert commits.commit_problem(name, text.encode(), tmp_path, map(Path, names)) == ""
    fewer = commits.commit_problem(name, text.encode(), tmp_path, map(Path, names[1:]))
    assert "other files" in fewer
    assert "another commit" in commits.commit_problem("0" * 40, text.encode(), tmp_path, [])
    assert "hexadecimal" in commits.commit_problem("HEAD", text.encode(), tmp_path, [])
