"""The `arena` command: one file per subcommand. They parse, call and print; the work is done elsewhere.

Exit codes: 0 done, 1 the work found or met a failure, 2 wrong usage.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Annotated, Any, NoReturn

import typer

import arena
from arena.cli import claims, compare, env, report, run, stress, tune
from arena.cli import list as listing
from arena.errors import UsageError, unknown_name

#: What typer's parser raises: the root of the one such error that typer publishes.
_COMMAND_LINE_ERROR: type[Exception] = typer.BadParameter.__mro__[2]  # ty: ignore[invalid-assignment]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        print(f"arena {arena.__version__}")
        raise typer.Exit


@app.callback()
def _arena(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, metavar="", help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Is this policy-optimisation method stable on multi-turn language agents, and if it collapses, why?

    Train methods side by side with [bold]arena run[/], read the verdicts with [bold]arena report[/].
    """


app.command("run", epilog=run.EPILOG)(run.run)
app.command("tune", epilog=tune.EPILOG)(tune.tune)
app.command("stress", epilog=stress.EPILOG)(stress.stress)
app.command("report")(report.report)
app.command("compare", epilog=compare.EPILOG)(compare.compare)
app.command("claims", epilog=claims.EPILOG)(claims.claims)
app.add_typer(listing.app, name="list")
app.add_typer(env.app, name="env")


def main() -> NoReturn:
    """Entry point of the `arena` script."""
    code = _guarded()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (
            OSError
        ):  # the reader left: nothing to say, and nothing for the interpreter to flush at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


def _guarded() -> int:
    try:
        return _plain_code(app(prog_name="arena", standalone_mode=False))
    except SystemExit as end:
        return _plain_code(end.code)
    except _COMMAND_LINE_ERROR as error:
        return _explain(error)
    except UsageError as error:
        return _fail(str(error), 2)
    except OSError as error:
        return _fail(str(error), 1)


def _plain_code(code: object) -> int:
    """typer's 130 for an interrupt is a failure here."""
    return _fail("interrupted", 1) if code == 130 else code if isinstance(code, int) else 0


def _explain(error: Any) -> int:
    """Say what the parser refused as all other errors are said; without arguments, show the help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return 2
    path = error.ctx.command_path if error.ctx else "arena"
    known = getattr(error.ctx.command, "commands", {}) if error.ctx else {}
    if known and (unknown := re.match("No such command '([^']*)'", error.format_message())):
        return _fail(f"{unknown_name('command', unknown[1], known)}\nTry '{path} --help'.", 2)
    return _fail(f"{error.format_message()}\nTry '{path} --help'.", 2)


def _fail(message: str, code: int) -> int:
    print(f"arena: error: {message}", file=sys.stderr)
    return code
