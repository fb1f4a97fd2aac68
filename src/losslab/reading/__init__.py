"""Strict readers of input files and options, with size limits and errors that name the place.

Every reader raises only `UsageError` for input that it does not accept.
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
from losslab.reading.outputs import out_file, out_folder

__all__ = [
    "UsageError", "check_configs", "input_errors", "number", "number_option", "out_file",
    "out_folder", "parse_json",
    "parse_yaml", "read_config", "read_json", "read_rows", "read_text", "read_toml", "read_yaml",
    "shown", "whole", "whole_option",
]  # fmt: skip
