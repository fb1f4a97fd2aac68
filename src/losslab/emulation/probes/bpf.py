"""Extended BPF: programs that count packets inside the kernel, and maps with their counts.

A reader of packets in user space would slow a guest down. Layouts: linux/bpf.h, bpf(2). Standard
library only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import struct
from collections.abc import Sequence

from losslab.errors import LosslabError

SYSTEM_CALLS = {"x86_64": 321, "aarch64": 280}  # bpf, by machine
MAP_CREATE, MAP_LOOKUP, PROG_LOAD, MAP_POP = 0, 1, 5, 21  # enum bpf_cmd
ARRAY, LRU_HASH, QUEUE = 2, 9, 22  # enum bpf_map_type
SOCKET_FILTER = 1  # BPF_PROG_TYPE_SOCKET_FILTER
SO_ATTACH_BPF = 50  # asm-generic/socket.h
PSEUDO_MAP_FD = 1
ATTRIBUTES_BYTES = 128  # of `union bpf_attr`, rounded up; the kernel accepts zeros at its end
INSTRUCTION = struct.Struct("<BBhi")  # operation, registers, offset, immediate value

# Functions of the kernel (enum bpf_func_id).
LOOKUP, UPDATE, LOAD_BYTES, PUSH = 1, 2, 26, 87
# Registers: result; arguments; values that a call keeps; end of the stack.
R0, R1, R2, R3, R4, R6, R7, R8, R9, R10 = 0, 1, 2, 3, 4, 6, 7, 8, 9, 10
# Sizes of memory accesses.
BYTE, HALF, WORD, DOUBLE = 0x10, 0x08, 0x00, 0x18
# Arithmetic operations, and conditions of jumps.
ADD, SUB, AND, SHIFT_LEFT, SHIFT_RIGHT, MOVE = 0x00, 0x10, 0x50, 0x60, 0x70, 0xB0
ALWAYS, EQUAL, ANY_BIT, UNEQUAL, SIGNED_AT_MOST = 0x00, 0x10, 0x40, 0x50, 0xD0
BITS_64, BITS_32 = 7, 4  # classes of arithmetic
JUMP_64, JUMP_32 = 5, 6
FROM_REGISTER = 0x08

Instruction = tuple[int, int, int, "int | str", int]  # operation, to, from, offset or label, value


def load(size: int, to: int, base: int, offset: int) -> Instruction:
    """`to` = the memory at `base` + `offset`."""
    return (0x61 | size, to, base, offset, 0)


def store(size: int, base: int, offset: int, value: int) -> Instruction:
    """Store a register."""
    return (0x63 | size, base, value, offset, 0)


def add_to_memory(base: int, offset: int, value: int) -> Instruction:
    """Add a register to 64 bits of memory, atomically."""
    return (0xDB, base, value, offset, 0)


def constant(operation: int, to: int, value: int, bits: int = BITS_64) -> Instruction:
    """Calculate with a constant."""
    return (bits | operation, to, 0, 0, value)


def register(operation: int, to: int, value: int, bits: int = BITS_64) -> Instruction:
    """Calculate with a register."""
    return (bits | FROM_REGISTER | operation, to, value, 0, 0)


def from_network(to: int, bits: int) -> Instruction:
    """Convert the lower bits of a register from network byte order."""
    return (0xDC, to, 0, 0, bits)


def jump(condition: int, to: int, value: int, label: str, kind: int = JUMP_64) -> Instruction:
    """Jump forward to a label if a register compares so with a constant."""
    return (kind | condition, to, 0, label, value)


def call(function: int) -> Instruction:
    """Call a function of the kernel."""
    return (0x85, 0, 0, 0, function)


def end(value: int) -> list[Instruction]:
    """End the program with a value."""
    return [constant(MOVE, R0, value), (0x95, 0, 0, 0, 0)]


def assemble(code: Sequence[Instruction | str | tuple[str, int, int]]) -> bytes:
    """Assemble instructions; a text is a label, and ("map", to, descriptor) loads a map."""
    labels, at = {}, 0
    for each in code:
        if isinstance(each, str):
            labels[each] = at
        else:
            at += 2 if each[0] == "map" else 1
    words: list[bytes] = []
    for each in code:
        if isinstance(each, str):
            continue
        if len(each) == 3:
            words.append(INSTRUCTION.pack(0x18, PSEUDO_MAP_FD << 4 | each[1], 0, each[2]))
            words.append(INSTRUCTION.pack(0, 0, 0, 0))
            continue
        operation, to, source, offset, value = each
        distance = labels[offset] - len(words) - 1 if isinstance(offset, str) else offset
        words.append(INSTRUCTION.pack(operation, source << 4 | to, distance, value))
    return b"".join(words)


_libc = ctypes.CDLL(None, use_errno=True)


def _call(command: int, attributes: bytes) -> int:
    block = ctypes.create_string_buffer(attributes, ATTRIBUTES_BYTES)
    number = SYSTEM_CALLS.get(platform.machine(), -1)
    found = int(_libc.syscall(number, command, block, ATTRIBUTES_BYTES))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


class Map:
    """A map of the kernel; its values are read by key, or popped from a queue."""

    def __init__(self, kind: int, key_bytes: int, value_bytes: int, entries: int) -> None:
        try:
            self.descriptor = _call(
                MAP_CREATE, struct.pack("=IIII", kind, key_bytes, value_bytes, entries)
            )
        except OSError as error:
            raise LosslabError(
                f"the kernel must let root count packets with BPF, found: {error.strerror}",
                hint="use the default backend, whose kernel has it",
            ) from error
        self._value = ctypes.create_string_buffer(value_bytes)
        self._key = ctypes.create_string_buffer(max(key_bytes, 1))
        key = ctypes.addressof(self._key) if key_bytes else 0
        self._attributes = struct.pack(
            "=IxxxxQQQ", self.descriptor, key, ctypes.addressof(self._value), 0
        )

    def first(self) -> bytes:
        """Return the value of an array's first element."""
        _call(MAP_LOOKUP, self._attributes)
        return self._value.raw

    def pop(self) -> bytes | None:
        """Remove and return the oldest value of a queue; None if it is empty."""
        try:
            _call(MAP_POP, self._attributes)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        return self._value.raw

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)


def attach(sock: socket.socket, code: bytes) -> None:
    """Attach a program to a socket; it returns how many bytes of each packet the socket keeps."""
    instructions = ctypes.create_string_buffer(code, len(code))
    license_text = ctypes.create_string_buffer(b"MIT")
    log = ctypes.create_string_buffer(1 << 16)
    attributes = struct.pack(
        "=IIQQIIQ", SOCKET_FILTER, len(code) // INSTRUCTION.size, ctypes.addressof(instructions),
        ctypes.addressof(license_text), 1, len(log), ctypes.addressof(log),
    )  # fmt: skip
    try:
        program = _call(PROG_LOAD, attributes)
    except OSError as error:
        said = log.value.decode(errors="replace").strip().splitlines()
        raise LosslabError(
            "the kernel must accept losslab's BPF program, found: "
            + (" / ".join(said[-3:]) or str(error.strerror))
        ) from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_BPF, program)
    finally:
        os.close(program)
