"""Wrong options of `losslab artifact verify` and `losslab verify`."""

import pytest

from losslab import cli
from losslab_artifact import verify


@pytest.mark.parametrize("seed", ["2026-01-31", "-1", "1.5", ""])
def test_malformed_seed_is_refused(capsys, seed):
    assert cli.main(["artifact", "verify", f"--seed={seed}"]) == 2
    assert "seed must" in capsys.readouterr().err


def test_seed_of_the_sample_is_drawn_at_the_verification(monkeypatch, tmp_path):
    """C2: the author of an archive could try days and lists until nothing forged is drawn."""
    seen = []

    def record(_, options):
        seen.append(options.seed)
        return verify.Verdict(options.seed, 20)

    monkeypatch.setattr(verify, "verify", record)
    for words in ([], [], ["--seed", "7"]):
        cli.main(["artifact", "verify", str(tmp_path), *words])
    assert len({*seen}) == 3
    assert seen[2] == 7


@pytest.mark.parametrize(
    "option",
    [
        *(f"--sample={count}" for count in ("-3", "1.5", "some", "\u0661", "")),
        "--processors=0",
    ],
)
def test_malformed_sample_size_is_refused(capsys, option):
    assert cli.main(["artifact", "verify", option]) == 2
    assert option.strip("-").partition("=")[0] in capsys.readouterr().err


def test_folder_without_results_is_a_usage_error(tmp_path, capsys):
    assert cli.main(["verify", str(tmp_path / "none")]) == 2
    assert "must be a campaign's results folder" in capsys.readouterr().err
    assert cli.main(["verify", str(tmp_path)]) == 2
    assert "must name the campaign" in capsys.readouterr().err
