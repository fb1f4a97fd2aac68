"""The reservation of a new output folder."""

import pytest

from losslab.cellspec import claimed
from losslab.reading import UsageError


def test_second_process_with_the_same_output_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    same = tmp_path / "new" / ".." / "new" / "run"
    refused = pytest.raises(UsageError, match="another process")
    with claimed(tmp_path / "new" / "run"), refused, claimed(same):
        pytest.fail("the folder was reserved twice")


def test_other_folders_are_free_meanwhile(tmp_path):
    with claimed(tmp_path / "one"), claimed(tmp_path / "two"):
        pass


def test_reservation_leaves_no_file_and_ends_with_the_block(tmp_path):
    for _ in range(2):
        with claimed(tmp_path / "run"):
            assert list(tmp_path.iterdir()) == []


def test_existing_folder_is_refused(tmp_path):
    with pytest.raises(UsageError, match="exists"), claimed(tmp_path):
        pytest.fail("an existing folder was reserved")
