"""The one exception a user is meant to read: what was given, what is allowed, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UsageError(ValueError):
    """Wrong input from the user. The command line prints it without a traceback and exits with 2."""


def unknown_name(
    kind: str, given: str, allowed: Iterable[str], hint: str = "", elsewhere: Iterable[str] = (), of: str = ""
) -> UsageError:
    """A UsageError for a name that is not in a registry, with the nearest match: among `elsewhere`, too.

    `kind` is what it names, e.g. "tier" or "option", and `of` what that belongs to, e.g. "environment 'sokoban'".
    """
    owner = f" of {of}" if of else ""
    names = sorted(allowed)
    near = difflib.get_close_matches(given.lower(), [*names, *elsewhere], n=1, cutoff=0.5)
    guess = f" Did you mean '{near[0]}'?" if near else ""
    return UsageError(
        f"unknown {kind} '{given}'{owner}.{guess} Allowed: {', '.join(names)}.{' ' + hint if hint else ''}"
    )
