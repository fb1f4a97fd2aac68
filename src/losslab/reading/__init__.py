"""Read files and words that people write: strict, within limits, and with errors that name a place.

Every reader raises `UsageError` for whatever it does not accept, and nothing else.
"""

from losslab.reading.documents import (
    check_configs,
    parse_json,
    read_config,
    read_json,
    read_rows,
    read_toml,
)
from losslab.reading.files import UsageError, input_errors, read_text
from losslab.reading.values import number, number_option, shown, whole, whole_option
from losslab.reading.yamls import parse_yaml, read_yaml

__all__ = [
    "UsageError",
    "check_configs",
    "input_errors",
    "number",
    "number_option",
    "parse_json",
    "parse_yaml",
    "read_config",
    "read_json",
    "read_rows",
    "read_text",
    "read_toml",
    "read_yaml",
    "shown",
    "whole",
    "whole_option",
]
