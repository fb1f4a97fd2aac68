"""Run a program that can only read: `python -m losslab.instrument.sealed PROGRAM ARGUMENT...`.

make runs commands while it reads a Makefile: `$(shell ...)`, `!=`, `load`, and rules for included
files. A filter of system calls (seccomp) keeps a stranger's Makefile from all of that: the program
can start no process, open no file for writing, change no file, and use no network. Only what
`ALLOWED` lists is possible. Everything else fails with EPERM.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
import sys

# Numbers of system calls of x86-64, the only machine on which losslab's kernels run: reads of
# files, memory, signals of its own, and its end. `execve` starts the program itself; what it starts
# has the same filter.
ALLOWED = {
    "read": 0, "write": 1, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "lseek": 8, "mmap": 9,
    "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14,
    "rt_sigreturn": 15, "pread64": 17, "access": 21, "mremap": 25, "getpid": 39, "execve": 59,
    "exit": 60, "uname": 63, "getcwd": 79, "chdir": 80, "readlink": 89, "getrlimit": 97,
    "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108, "sigaltstack": 131,
    "arch_prctl": 158, "futex": 202, "sched_getaffinity": 204, "getdents64": 217,
    "set_tid_address": 218, "exit_group": 231, "newfstatat": 262, "readlinkat": 267,
    "faccessat": 269, "set_robust_list": 273, "prlimit64": 302, "getrandom": 318, "statx": 332,
    "rseq": 334, "faccessat2": 439,
}  # fmt: skip
OPENS = {2: 1, 257: 2}  # open and openat, and which of their arguments has the flags
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
X86_64, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 0xC000003E, 38, 22, 2  # linux/seccomp.h
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
LOAD, IS, HAS, RETURN = 0x20, 0x15, 0x45, 0x06  # operations of a filter, linux/bpf_common.h
MEMORY_BYTES, CPU_S = 2**29, 10


def rules() -> bytes:
    """Return the filter: instructions of classic BPF on `struct seccomp_data`."""
    made = [(LOAD, 0, 0, 4), (IS, 1, 0, X86_64), (RETURN, 0, 0, KILL), (LOAD, 0, 0, 0)]
    for number in ALLOWED.values():
        made += [(IS, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    for number, argument in OPENS.items():
        made += [(IS, 0, 4, number), (LOAD, 0, 0, 16 + 8 * argument), (HAS, 1, 0, WRITING),
                 (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]  # fmt: skip
    made.append((RETURN, 0, 0, REFUSE))
    return b"".join(struct.pack("<HBBI", *each) for each in made)


def seal() -> None:
    """Let this process and what it starts only read; OSError if the machine cannot do that."""
    if platform.machine() != "x86_64":
        raise OSError(errno.ENOSYS, f"the filter is for x86_64, found {platform.machine()}")
    for kind, limit in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (limit, limit))
    code = rules()
    array = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(array))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        PR_SET_SECCOMP, FILTER, ctypes.c_char_p(program), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "the machine refuses a filter of system calls")


def main() -> None:
    """Seal this process, and become the program; 125 if the machine cannot do that."""
    try:
        os.closerange(3, 256)
        seal()
        os.execv(sys.argv[1], sys.argv[1:])
    except OSError as error:
        print(error, file=sys.stderr)
        os._exit(125)


if __name__ == "__main__":
    main()
