"""Start of every command of `bench` and `tests`: imports and options."""

import ast
import runpy
import sys

import pytest

from tests.conftest import ROOT

# Commands without options, which write a recorded file or print a table.
WITHOUT_OPTIONS = {"tests.unit.study.recorded"}


def is_command(path):
    """Return whether `python -m` runs a module that has options."""
    text = path.read_text()
    guarded = path.name == "__main__.py" or 'if __name__ == "__main__"' in text
    return guarded and "argparse" in {
        alias.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import)
        for alias in node.names
    }


# Other tests may have imported the module, which runs again here.
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
def test_commands_of_bench_and_tests_print_their_help(monkeypatch, capsys):
    paths = [p for folder in ("bench", "tests") for p in (ROOT / folder).rglob("*.py")]
    names = {
        ".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")
        for p in paths if is_command(p)
    }  # fmt: skip
    assert {"bench.golden", "bench.random", "tests.acceptance"} <= names
    wrong = []
    for name in sorted(names):
        monkeypatch.setattr(sys, "argv", [name, "--help"])
        with pytest.raises(SystemExit) as end:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        said = capsys.readouterr()
        if end.value.code not in (0, None) or not said.out.startswith("usage: "):
            wrong.append(f"{name}: {said.err}")
    assert wrong == []
