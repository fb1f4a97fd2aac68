"""Wrong options of `losslab artifact verify` and `losslab verify`."""

import pytest

from losslab import cli


@pytest.mark.parametrize("day", ["xx/../..", "2026-1-31", "20260131", "2026-02-30", ""])
def test_malformed_day_is_refused(capsys, day):
    with pytest.raises(SystemExit) as ended:
        cli.main(["artifact", "verify", f"--day={day}"])
    assert ended.value.code == 2
    assert f"found {day!r}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option",
    [
        *(f"--sample={count}" for count in ("-3", "0", "1.5", "some", "\u0661", "")),
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
    assert "--campaign" in capsys.readouterr().err
