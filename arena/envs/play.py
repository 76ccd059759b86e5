"""`arena env play`: a person plays an environment in the terminal."""

from __future__ import annotations

from collections.abc import Callable

from arena.envs import make_env
from arena.recipe import EnvConfig

#: Keys of the four directions: WASD and what terminals send or people write for the arrow keys. "d" is right,
#: as on every keyboard game; "do" is the shortest prefix of down.
_KEYS = {
    "up": ("w", "\x1b[a", "\x1boa", "↑", "arrow up", "arrowup"),
    "down": ("s", "\x1b[b", "\x1bob", "↓", "arrow down", "arrowdown"),
    "left": ("a", "\x1b[d", "\x1bod", "←", "arrow left", "arrowleft"),
    "right": ("d", "\x1b[c", "\x1boc", "→", "arrow right", "arrowright"),
}
#: More actions than these are listed only when asked for.
_MENU = 12
_DIRECTION = {key: direction for direction, keys in _KEYS.items() for key in keys}


def play(
    config: EnvConfig,
    seed: int,
    read: Callable[[str], str] = input,
    write: Callable[[str], None] = print,
) -> bool | None:
    """Play the task of `seed`, always shown in the `full` style. True if solved, None if the player left.

    The rules come first, without the format that a model has to answer in. `read` takes a prompt and returns a line;
    end of file and an interrupt leave the game.
    """
    env = make_env(config.model_copy(update={"observation": "full"}))
    observation, info = env.reset(seed=seed)
    rules = [part for part in env.instruction.split("\n\n") if "<think>" not in part]
    write("\n\n".join(rules))
    turn, total, ended = 0, 0.0, False
    while not ended:
        write(f"\n{observation}\n")
        progress = f"turn {turn + 1}/{config.max_turns}"
        action = _ask(env.expert_action, info["admissible_actions"], env.open_ended, progress, read, write)
        if action is None:
            write(f"You left after {_turns(turn)} with reward {total:.1f}.")
            return None
        observation, reward, terminated, truncated, info = env.step(action)
        turn, total, ended = turn + 1, total + float(reward), terminated or truncated
        write(f"{action}: reward {reward:+.1f}")
    outcome = "Solved" if info["success"] else "Out of turns" if truncated else "Not solved"
    write(f"\n{observation}\n\n{outcome} after {_turns(turn)}. Reward {total:.1f}.")
    return info["success"]


def match_action(text: str, actions: tuple[str, ...]) -> str | None:
    """The action that a player means: its words, number or key, or a beginning that no other has."""
    typed = " ".join(text.lower().split())
    exact = {action.lower(): action for action in actions}
    if typed in exact:
        return exact[typed]
    if typed in _DIRECTION and _DIRECTION[typed] in exact:
        return exact[_DIRECTION[typed]]
    if typed.isdecimal() and 1 <= int(typed) <= len(actions):
        return actions[int(typed) - 1]
    started = [action for action in actions if typed and action.lower().startswith(typed)]
    return started[0] if len(started) == 1 else None


def _ask(
    hint: Callable[[], str],
    actions: tuple[str, ...],
    open_ended: bool,
    progress: str,
    read: Callable[[str], str],
    write: Callable[[str], None],
) -> str | None:
    """Ask until the answer is an action; None when the player leaves."""
    labels = [_label(number, action) for number, action in enumerate(actions, 1)]
    few = len(actions) <= _MENU and not open_ended
    menu = "  ".join(labels) if few else f"one of {len(actions)} actions, as in '{actions[0]}'  [??] all"
    if open_ended:  # A list could give the solution away, and so could a beginning that is completed.
        menu = "an action in words  [??] some"
    while True:
        try:
            typed = read(f"{progress}  {menu}  [?] hint  [q] quit > ")
        except (EOFError, KeyboardInterrupt):
            return None
        command = typed.strip().lower()
        if command in ("q", "quit"):
            return None
        if command == "?":
            write(f"The expert would play: {hint()}")
            continue
        if command == "??":
            write("\n".join(labels))
            continue
        if command.startswith("!") or (open_ended and command):
            return typed.strip().removeprefix("!").replace("\\n", "\n").strip()
        action = match_action(typed, actions)
        if action is not None:
            return action
        known = f"not one of: {', '.join(actions)}" if few else f"none of the {len(actions)}; ?? lists them"
        write(f"'{typed.strip()}' is {known}. Begin with ! to say it all the same.")


def _label(number: int, action: str) -> str:
    return f"[{_KEYS[action][0]}] {action}" if action in _KEYS else f"[{number}] {action}"


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count} turns"
