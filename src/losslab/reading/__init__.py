"""Read files and words that people write: strict, within limits, and with errors that name a place.

Every reader raises `UsageError` for whatever it does not accept, and nothing else.
"""

from losslab.reading.documents import (
    check_configs,
    parse_json,
    parse_yaml,
    read_config,
    read_json,
    read_rows,
    read_toml,
    read_yaml,
)  # fmt: skip
from losslab.reading.files import (
    UsageError,
    input_errors,
    number,
    number_option,
    read_text,
    shown,
    whole,
    whole_option,
)  # fmt: skip

__all__ = [
    "UsageError", "check_configs", "input_errors", "number", "number_option", "parse_json",
    "parse_yaml", "read_config", "read_json", "read_rows", "read_text", "read_toml", "read_yaml",
    "shown", "whole", "whole_option",
]  # fmt: skip
