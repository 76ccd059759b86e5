"""Attacks on the sandboxes: each is refused or stopped within its limit, and the next program runs as before."""

import multiprocessing
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from arena.envs.tir_math import sandbox
from arena.envs.tir_math.sandbox import (
    SANDBOXES,
    Execution,
    Limits,
    SandboxUnavailable,
    bwrap_refusal,
    run_in_bwrap,
    run_in_monty,
)

FAST = Limits(seconds=0.3, memory=32, output=200)
#: Starting Python takes its share of the time.
SLOW = Limits(seconds=5.0, memory=64, output=200)
with_bwrap = pytest.mark.skipif(bool(bwrap_refusal()), reason=bwrap_refusal() or "works")


def test_a_program_prints():
    assert run_in_monty("print(37 * 4 + 12)", FAST) == Execution("160")
    assert run_in_monty("import math; print(math.gcd(36, 24))\nprint(2)", FAST) == Execution("12\n2")
    assert run_in_monty("1 + 1", FAST) == Execution("")


def test_an_error_is_one_line_and_keeps_what_was_printed():
    assert run_in_monty("print(1)\nx", FAST) == Execution("1", "NameError: name 'x' is not defined")


@pytest.mark.parametrize(
    "program",
    ["print(1", "no such action", "x = = 1", "print(\0)", "print('\ud800", "(" * 3000, "if 1:", "√"],
)
def test_what_is_no_python_is_not_run(program):
    execution = run_in_monty(program, FAST)
    assert not execution.parsed
    assert execution.error.startswith("SyntaxError")
    assert "None" not in execution.error


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("print(open('/etc/passwd').read())", "PermissionError"),
        ("open('/tmp/arena-was-here', 'w').write('x')", "PermissionError"),
        ("import pathlib; print(pathlib.Path('/etc/passwd').read_text())", "PermissionError"),
        ("import os; print(os.listdir('/'))", "PermissionError"),
        ("import os; print(os.environ)", "RuntimeError"),
        ("import os; print(os.getenv('HOME'))", "RuntimeError"),
        ("import os; os.system('id')", "AttributeError"),
        ("import os; os.fork()", "AttributeError"),
        ("import socket", "ModuleNotFoundError"),
        ("import urllib.request", "ModuleNotFoundError"),
        ("import subprocess", "ModuleNotFoundError"),
        ("import ctypes", "ModuleNotFoundError"),
        ("import arena", "ModuleNotFoundError"),
        ("__import__('os')", "NameError"),
        ("print([].__class__.__base__.__subclasses__())", "AttributeError"),
        ("input()", "NameError"),
        ("x = [0] * 10**9", "MemoryError"),
        ("s = 'x'\nwhile True: s += s", "MemoryError"),
        ("x = []\nwhile True: x.append(x)", "MemoryError"),
        ("print(9**9**9)", "MemoryError"),
        ("print(10**5000)", "ValueError"),
        ("def f(n): return f(n + 1)\nf(0)", "RecursionError"),
    ],
)
def test_monty_refuses(program, error):
    execution = run_in_monty(program, Limits(seconds=2.0, memory=32))
    assert execution.parsed
    assert execution.output == ""
    assert execution.error.startswith(error)
    assert run_in_monty("print(1)", FAST) == Execution("1")


@pytest.mark.parametrize(
    "program",
    [
        "while True: pass",
        "try:\n  while True: pass\nexcept BaseException: print('caught')",
        "exec('while True: pass')",
        "x = 10**4000\nwhile True: x = x * x % (10**4000 + 1)",
        "print(1)\nwhile True: pass",
    ],
)
def test_monty_stops_what_does_not_end(program):
    start = time.monotonic()
    execution = run_in_monty(program, FAST)
    assert execution == Execution("", "TimeoutError: stopped after 0.3 seconds")
    assert time.monotonic() - start < 5
    assert run_in_monty("print(1)", FAST) == Execution("1")


def test_a_worker_that_dies_is_replaced():
    execution = run_in_monty("x = 10**4000\nfor i in range(100): x = x * x", FAST)
    assert execution.error.split(":")[0] in ("TimeoutError", "MemoryError")
    assert run_in_monty("print(1)", FAST) == Execution("1")


def test_output_is_cut():
    assert run_in_monty("print('x' * 1000)", FAST) == Execution("x" * 200 + "... (800 more characters)")
    flood = run_in_monty("for i in range(10**9): print('x' * 1000)", FAST)
    assert flood.error
    assert len(flood.output) < 300


def test_output_is_printable_ascii():
    assert run_in_monty(r"print('é\x1b[2J\x00')", FAST).output == r"\xe9\x1b[2J\x00"


def test_the_value_of_the_last_line_is_not_sent():
    assert run_in_monty("[0] * 100_000", FAST) == Execution("")
    assert run_in_monty("class A:\n  def __repr__(self): return 1 / 0\nA()", FAST) == Execution("")


def test_a_program_has_one_outcome():
    program = "import random, time; print(random.random(), time.time(), {'a', 'b', 'c'}); time.sleep(1000)"
    assert run_in_monty(program, FAST) == run_in_monty(program, FAST)
    assert run_in_monty(program, FAST).error == ""


def test_nothing_is_left_from_the_program_before():
    assert run_in_monty("x = 1\nprint(x)", FAST) == Execution("1")
    assert run_in_monty("print(x)", FAST).error == "NameError: name 'x' is not defined"


def test_monty_works_in_threads():
    outcomes = {}

    def work(number):
        outcomes[number] = run_in_monty(f"print({number} * 2)", FAST)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == {number: Execution(str(number * 2)) for number in range(8)}


def _child(queue):
    try:
        queue.put(run_in_monty("print(2)", FAST))
    except SandboxUnavailable as error:
        queue.put(str(error))


def test_a_fork_of_a_process_that_ran_programs_is_refused():
    assert run_in_monty("print(1)", FAST) == Execution("1")
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    assert "start worker processes by 'spawn'" in queue.get(timeout=30)
    child.join()
    assert run_in_monty("print(3)", FAST) == Execution("3")


def test_there_is_no_way_without_a_sandbox():
    assert set(SANDBOXES) == {"monty", "bwrap"}


def test_bwrap_is_refused_where_it_is_not_installed(monkeypatch):
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    bwrap_refusal.cache_clear()
    try:
        with pytest.raises(SandboxUnavailable, match=r"needs the program bwrap .* install it or use 'monty'"):
            run_in_bwrap("print(1)", SLOW)
    finally:
        bwrap_refusal.cache_clear()


def test_bwrap_is_refused_where_it_does_not_work(monkeypatch, tmp_path):
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    real = sandbox.subprocess.Popen
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: str(fake))
    monkeypatch.setattr(
        sandbox.subprocess, "Popen", lambda command, **rest: real([str(fake), *command[1:]], **rest)
    )
    bwrap_refusal.cache_clear()
    try:
        with pytest.raises(SandboxUnavailable, match=r"does not work here \(bwrap: No permissions"):
            run_in_bwrap("print(1)", SLOW)
    finally:
        bwrap_refusal.cache_clear()


@with_bwrap
def test_bwrap_runs_full_python_with_packages():
    assert run_in_bwrap(
        "import sympy; print(sympy.factorint(360))", Limits(seconds=60, memory=1024)
    ) == Execution("{2: 3, 3: 2, 5: 1}")
    assert run_in_bwrap("print(1", SLOW).parsed is False
    assert run_in_bwrap("print(1)\nx", SLOW) == Execution("1", "NameError: name 'x' is not defined")


@with_bwrap
@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("open('/etc/passwd')", "FileNotFoundError"),
        ("open('/proc/self/environ')", "FileNotFoundError"),
        ("open('/usr/arena-was-here', 'w')", "OSError"),
        ("open('/arena-was-here', 'w')", "OSError"),
        ("open('/tmp/a', 'w').write('x' * 10**8)", "OSError"),
        ("import socket; socket.create_connection(('1.1.1.1', 80), 2)", "OSError"),
        ("x = [0] * 10**9", "MemoryError"),
        ("def f(n): return f(n + 1)\nf(0)", "RecursionError"),
        ("while True: pass", "TimeoutError"),
        ("import os\nos._exit(7)", "stopped with exit code 7"),
    ],
)
def test_bwrap_refuses(program, error):
    assert run_in_bwrap(program, SLOW if "while" not in program else Limits(seconds=1.0)).error.startswith(
        error
    )


@with_bwrap
def test_bwrap_hides_the_machine(monkeypatch):
    monkeypatch.setenv("ARENA_SECRET", "42")
    with tempfile.NamedTemporaryFile(dir="/tmp", prefix="arena-secret") as file:
        program = (
            f"import os; print('ARENA_SECRET' in os.environ, os.getuid(), os.path.exists({file.name!r}))"
        )
        assert run_in_bwrap(program, SLOW) == Execution("False 65534 False")
    # The interpreter itself may be installed there.
    own = {Path(p).parts[2] for p in (sys.prefix, sys.base_prefix) if p.startswith("/tmp/")}
    assert run_in_bwrap("import os; print(sorted(os.listdir('/tmp')))", SLOW).output == str(sorted(own))


@with_bwrap
def test_bwrap_cuts_output():
    flood = run_in_bwrap("for i in range(10**9): print('x' * 1000)", SLOW)
    assert flood.error
    assert len(flood.output) < 300
