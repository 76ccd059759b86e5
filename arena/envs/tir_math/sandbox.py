"""Where model-written Python runs: `pydantic-monty` (the default) or full Python inside bubblewrap. Nowhere else.

Monty is a Python interpreter of its own in a worker process: no files, no network, no environment, no imports but
its few bundled modules. Its clock stands still, its random numbers are seeded and sleeping takes no time, so that a
program has one outcome. `bwrap` runs the interpreter that runs Arena, with its installed packages (sympy), in new
namespaces: no network, an empty environment, no files but the interpreter's own (read-only) and a small `/tmp`.
Where bubblewrap does not work, asking for it is an error; a program is never run without a sandbox.

A program starts with nothing from the programs before it (SimpleTIR's and verl's tools do the same).
"""

from __future__ import annotations

import datetime
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

import pydantic_monty

#: Bytes that a program may print before the rest is thrown away, and the depth of its calls.
_OUTPUT_BYTES, _DEPTH = 1 << 20, 400
#: A worker of Monty is replaced after so many programs: what one may leak stays bounded.
_PROGRAMS_PER_WORKER = 20_000
#: The program would otherwise send the value of its last expression to this process, however large it is.
_NO_VALUE = "\nNone"
_STILL: pydantic_monty.OSPolicy = {
    "datetime": datetime.datetime(2026, 1, 1),
    "sleep": "zero",
    "process_time": "zero",
    "random_start": {"seed": 0},
}
#: What bubblewrap shows of the file system, read-only, beside the interpreter's own folders.
_VISIBLE = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives")
_SYNTAX_ERROR = 90
#: Runs inside bubblewrap: limits first, then the program from standard input.
_BOOT = """\
import resource, sys
program = sys.stdin.read()
for name, value in ((resource.RLIMIT_AS, {memory}), (resource.RLIMIT_FSIZE, {output}), (resource.RLIMIT_NOFILE, 64),
                    (resource.RLIMIT_NPROC, 64), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, {cpu})):
    resource.setrlimit(name, (value, value))
sys.setrecursionlimit({depth})
try:
    program = compile(program, "<program>", "exec")
except SyntaxError as error:
    print("SyntaxError:", error, file=sys.stderr)
    sys.exit({syntax_error})
try:
    exec(program, {{"__name__": "__main__"}})
except Exception as error:
    print(type(error).__name__ + ":", str(error)[:500], file=sys.stderr)
    sys.exit(1)
"""


@dataclass(frozen=True)
class Limits:
    """What a program may use: seconds, MiB of memory, characters of output that are shown."""

    seconds: float = 1.0
    memory: int = 64
    output: int = 1000


@dataclass(frozen=True)
class Execution:
    """What a program did. `error` is one line and empty if it ran to its end; `parsed` is False if it is no Python."""

    output: str
    error: str = ""
    parsed: bool = True


class SandboxUnavailable(Exception):  # noqa: N818 (it says what is the case)
    """The sandbox that was asked for does not work on this machine; the message says why and what to do."""


def run_in_monty(program: str, limits: Limits) -> Execution:
    """Run a program in Monty. Never raises because of the program; raises SandboxUnavailable after a fork."""
    printed = pydantic_monty.CollectString(max_bytes=_OUTPUT_BYTES)
    bounds: pydantic_monty.ResourceLimits = {
        "max_feed_duration_secs": limits.seconds,
        "max_memory": limits.memory << 20,
        "max_recursion_depth": _DEPTH,
        "max_suspensions": 100,
    }
    try:
        with _pool().checkout(limits=bounds, os_policy=_STILL) as session:
            try:
                session.feed_run(program + _NO_VALUE, print_callback=printed)
            except pydantic_monty.MontySyntaxError:
                # Once more, so that the message speaks of the program alone.
                session.feed_run(program, print_callback=printed)
    except pydantic_monty.MontySyntaxError as error:
        return Execution("", _line(error.display("type-msg")), parsed=False)
    except pydantic_monty.MontyRuntimeError as error:
        return _failed(printed.output, error.display("type-msg"), limits)
    except pydantic_monty.MontyCrashedError as error:
        return _failed("", "TimeoutError:" if getattr(error, "timed_out", False) else "MemoryError:", limits)
    except pydantic_monty.MontyError as error:
        return _failed(printed.output, f"{type(error).__name__}: {error}", limits)
    return Execution(_shown(printed.output, limits))


def run_in_bwrap(program: str, limits: Limits) -> Execution:
    """Run a program in full Python inside bubblewrap. Raises SandboxUnavailable where that does not work."""
    if reason := bwrap_refusal():
        raise SandboxUnavailable(reason)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        code = _bwrapped(program, limits, out, err)
        output, error = _read(out), _read(err)
    if code == _SYNTAX_ERROR:
        return Execution("", _line(error), parsed=False)
    if code is None:
        return _failed("", "TimeoutError:", limits)
    if code:
        return _failed(output, error.strip().rpartition("\n")[2] or f"stopped with exit code {code}", limits)
    return Execution(_shown(output, limits))


@functools.cache
def bwrap_refusal() -> str:
    """Why bubblewrap does not work on this machine; empty if it does (tried once)."""
    if sys.platform != "linux" or shutil.which("bwrap") is None:
        return "sandbox 'bwrap' needs the program bwrap (package bubblewrap, Linux only): install it or use 'monty'"
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        code = _bwrapped("print(6 * 7)", Limits(seconds=20, memory=1024), out, err)
        if code == 0 and _read(out) == "42\n":
            return ""
        said = _line(_read(err)) or f"exit code {code}"
    return (
        f"sandbox 'bwrap' does not work here ({said}): allow user namespaces on this machine or use 'monty'"
    )


#: Name -> how a program is run. There is no entry without isolation.
SANDBOXES: dict[str, Callable[[str, Limits], Execution]] = {"monty": run_in_monty, "bwrap": run_in_bwrap}


def _bwrapped(program: str, limits: Limits, out: BinaryIO, err: BinaryIO) -> int | None:
    """The exit code of a program inside bubblewrap; None if its time was up."""
    command = [
        "bwrap",
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--clearenv",
        "--cap-drop",
        "ALL",
    ]
    command += ["--uid", "65534", "--gid", "65534"]
    # In this order, because the interpreter may lie below /tmp itself.
    command += ["--dev", "/dev", "--size", str(limits.memory << 20), "--tmpfs", "/tmp", "--chdir", "/tmp"]
    for path in dict.fromkeys((*_VISIBLE, sys.base_prefix, sys.prefix)):
        command += ["--ro-bind-try", path, path]
    command += ["--remount-ro", "/", sys.executable, "-I", "-B", "-c"]
    boot = _BOOT.format(
        memory=max(limits.memory, 512) << 20,
        output=_OUTPUT_BYTES,
        cpu=int(limits.seconds) + 1,
        depth=_DEPTH,
        syntax_error=_SYNTAX_ERROR,
    )
    text = program.encode("utf-8", "backslashreplace")
    process = subprocess.Popen([*command, boot], stdin=subprocess.PIPE, stdout=out, stderr=err, env={})
    try:
        process.communicate(text, timeout=limits.seconds)
    except subprocess.TimeoutExpired:
        # The first process of the new namespace dies with bwrap, and all others with it.
        process.kill()
        process.communicate()
        return None
    return process.returncode


def _read(file: BinaryIO) -> str:
    file.seek(0)
    return file.read(_OUTPUT_BYTES).decode("utf-8", "replace")


def _failed(output: str, error: str, limits: Limits) -> Execution:
    """An execution whose text does not depend on how fast the machine is."""
    if error.startswith("TimeoutError:"):
        return Execution("", f"TimeoutError: stopped after {limits.seconds:g} seconds")
    if error.startswith("MemoryError:"):
        return Execution(_shown(output, limits), "MemoryError: too much memory or output")
    return Execution(_shown(output, limits), _line(error))


def _shown(output: str, limits: Limits) -> str:
    """The output in ASCII without white space at its end, cut to the limit with a note of what is left out."""
    text = _ascii(output[:_OUTPUT_BYTES]).rstrip()
    if len(text) <= limits.output:
        return text
    return f"{text[: limits.output]}... ({len(text) - limits.output} more characters)"


def _line(error: str) -> str:
    return " ".join(_ascii(error).split())[:200]


def _ascii(text: str) -> str:
    """Printable ASCII: what every tokenizer and terminal can take, and no control characters."""
    text = text.encode("ascii", "backslashreplace").decode()
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


_LOCK = threading.Lock()
#: Monty's pool and the process that made it.
_POOL: list[tuple[pydantic_monty.Monty, int]] = []


def _pool() -> pydantic_monty.Monty:
    # A child made by fork has Monty's state without its threads: a program would never end.
    if _POOL and _POOL[0][1] != os.getpid():
        raise SandboxUnavailable(
            "this process was forked from one that had run programs: start worker processes by 'spawn'"
        )
    with _LOCK:
        if not _POOL:
            pool = pydantic_monty.Monty(max_checkouts_per_worker=_PROGRAMS_PER_WORKER)
            _POOL.append((pool.__enter__(), os.getpid()))
        return _POOL[0][0]
