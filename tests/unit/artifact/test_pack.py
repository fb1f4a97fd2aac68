"""Folders and campaigns that cannot be packed."""

from pathlib import Path

import pytest

from losslab.artifact import pack
from losslab.errors import LosslabError


def test_campaign_to_pack_must_be_a_file_of_the_repository(tmp_path, root):
    assert pack.campaign_file(root / "config/quick.yaml") == Path("config/quick.yaml")
    for path in (tmp_path / "none.yaml", root / "pyproject.toml"):
        with pytest.raises(LosslabError, match="must be a configuration file"):
            pack.campaign_file(path)


def test_packing_without_results_is_refused(tmp_path):
    with pytest.raises(LosslabError, match="must record the campaign"):
        pack.pack(tmp_path, Path("config/quick.yaml"), tmp_path / "a.tar.gz", 1, False)
