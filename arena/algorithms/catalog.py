"""The catalog: each named method is one composition of parts, each modifier one change to a composition.

A spec is `name(:key=value)*(+modifier(:key=value)*)*`, e.g. `gspo+gigpo:omega=0.5+dynamic`. A key sets that field
of whichever part of the name or modifier has it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from typing import Any

from arena.algorithms import user
from arena.algorithms.advantages import (
    EMPG,
    AdvantageRule,
    BatchNorm,
    GiGPO,
    GroupCentre,
    GroupNorm,
    LeaveOneOut,
    TokenGAE,
    TurnGAE,
)
from arena.algorithms.aggregation import Aggregation, FixedLength, SequenceMean, TokenMean
from arena.algorithms.clipping import Clip, GeometricClip, SequenceClip, SoftGate, TokenClip, WeightClip
from arena.algorithms.correction import TruncatedImportance
from arena.algorithms.filtering import DynamicFilter, Filter
from arena.algorithms.masking import Mask, SequenceMask
from arena.algorithms.values import Critic, SharedValue
from arena.algorithms.weighting import ActFocus, Weighting
from arena.errors import UsageError, unknown_name
from arena.recipe import ALGORITHM_ENTRY_POINTS, Recipe, installed, package_of, split_spec


@dataclass(frozen=True)
class Algorithm:
    """A method as a composition of parts. The training loop knows the parts, never the name: methods of equal parts
    are equal."""

    name: str = dataclasses.field(compare=False)
    aggregation: Aggregation
    advantage: AdvantageRule
    clip: Clip
    filter: Filter | None = None
    mask: Mask | None = None
    weighting: Weighting | None = None
    correction: TruncatedImportance | None = None
    value: Critic | SharedValue | None = None
    source: str = dataclasses.field(default="", compare=False)


_ARLARENA = "ARLArena, arXiv 2602.21534"

_GRPO = Algorithm("grpo", TokenMean(), GroupNorm(), TokenClip(), source="GRPO, arXiv 2402.03300")
_GSPO = Algorithm("gspo", SequenceMean(), GroupNorm(), SequenceClip(), source="GSPO, arXiv 2507.18071")
_DAPO = Algorithm(
    "dapo",
    TokenMean(),
    GroupNorm(),
    TokenClip(clip_high=0.28),
    filter=DynamicFilter(on="reward"),
    source="DAPO, arXiv 2503.14476",
)
_PPO = Algorithm("ppo", TokenMean(), TokenGAE(), TokenClip(), value=Critic(), source="PPO, arXiv 1707.06347")

_METHODS = (
    _GRPO,
    replace(_GRPO, name="grpo-st", aggregation=SequenceMean(), source=f"GRPO_ST ({_ARLARENA} Table 1)"),
    replace(_GRPO, name="grpo-sm", mask=SequenceMask(), source=f"GRPO_SM ({_ARLARENA} Table 1)"),
    Algorithm("dr-grpo", FixedLength(), GroupCentre(), TokenClip(), source="Dr. GRPO, arXiv 2503.20783"),
    Algorithm("sapo-soft", TokenMean(), GroupNorm(), SoftGate(), source="SAPO, arXiv 2511.20347"),
    Algorithm("cispo", TokenMean(), GroupNorm(), WeightClip(), source="CISPO, arXiv 2506.13585"),
    _GSPO,
    Algorithm("gmpo", SequenceMean(), GroupNorm(), GeometricClip(), source="GMPO, arXiv 2507.20673"),
    replace(_GRPO, name="gigpo", advantage=GiGPO(), source="GiGPO, arXiv 2505.10978"),
    replace(_GRPO, name="empg", advantage=EMPG(), source="EMPG, arXiv 2509.09265"),
    _DAPO,
    replace(_DAPO, name="dapo-gigpo", advantage=GiGPO(), source=f"DAPO_GiGPO ({_ARLARENA} Table 1)"),
    replace(
        _GSPO, name="sampo", advantage=GiGPO(), filter=DynamicFilter(), source=f"SAMPO ({_ARLARENA} Eq. 8)"
    ),
    Algorithm("rloo", TokenMean(), LeaveOneOut(), TokenClip(), source="RLOO, arXiv 2402.14740"),
    Algorithm("reinforce++", TokenMean(), BatchNorm(), TokenClip(), source="REINFORCE++, arXiv 2501.03262"),
    _PPO,
    replace(
        _PPO, name="ppo-turn", advantage=TurnGAE(), source="PPO with turn-level GAE, as in arXiv 2608.19842"
    ),
    replace(_GRPO, name="actfocus", weighting=ActFocus(), source="ActFocus, arXiv 2605.14558"),
    replace(_PPO, name="ppo-actfocus", weighting=ActFocus(), source="ActFocus on PPO, arXiv 2605.14558"),
    Algorithm(
        "sapo-sr",
        TokenMean(),
        TurnGAE(),
        TokenClip(),
        value=SharedValue(),
        source="SAPO (single rollout), arXiv 2608.19842",
    ),
)

CATALOG: dict[str, Algorithm] = {a.name: a for a in _METHODS}

#: Modifier -> (the field of Algorithm that it sets, the part with its defaults).
MODIFIERS: dict[str, tuple[str, Callable[[], Any]]] = {
    "gigpo": ("advantage", GiGPO),
    "empg": ("advantage", EMPG),
    "dynamic": ("filter", DynamicFilter),
    "seqmask": ("mask", SequenceMask),
    "actfocus": ("weighting", ActFocus),
    "tis": ("correction", TruncatedImportance),
}

#: A sequence mask whose threshold is above this share of the clip's leaves it next to nothing to act on.
_HARDLY = 0.9

_PARTS = tuple(f.name for f in dataclasses.fields(Algorithm) if f.compare)
#: What the method table calls a part, where its name does not do.
_TITLES = {"clip": "ratio and clip"}


def get_algorithm(
    spec: str, parts: Mapping[str, Mapping[str, bool | int | float | str]] | None = None
) -> Algorithm:
    """The algorithm of a spec. `parts` are a tier's defaults by part kind, e.g. {"sequence_clip": {...}}.

    Raises UsageError for unknown names, fields and values.
    """
    _check_kinds(parts or {})
    path, head, modifiers = split_spec(spec)
    name, settings = _split(head, spec)
    name = f"{path}:{name}" if path else name
    if name == "sapo":
        raise UsageError(
            "'sapo' names two different methods: soft adaptive policy optimisation (arXiv 2511.20347) is 'sapo-soft', "
            "single-rollout autoregressive policy optimisation (arXiv 2608.19842) is 'sapo-sr'."
        )
    algorithm = _named(name)
    algorithm = replace(algorithm, **{f: _tier_part(getattr(algorithm, f), parts or {}) for f in _PARTS})
    algorithm = _with_settings(algorithm, _PARTS, settings, name)
    set_by: dict[str, str] = {}
    for text in modifiers:
        modifier, settings = _split(text, spec)
        if modifier not in MODIFIERS:
            raise unknown_name("modifier", modifier, MODIFIERS, f"Given in '{spec}'.")
        field, default = MODIFIERS[modifier]
        if field in set_by:
            raise UsageError(
                f"algorithm '{spec}': '{set_by[field]}' and '{modifier}' both set the {field}; give one of them."
            )
        set_by[field] = modifier
        algorithm = replace(algorithm, **{field: _tier_part(default(), parts or {})})
        algorithm = _with_settings(algorithm, (field,), settings, modifier)
    _check_fit(algorithm, spec)
    return replace(algorithm, name=spec)


def algorithm_of(recipe: Recipe) -> Algorithm:
    """The algorithm of a recipe. Where it has a fixed length of 0, the length is the cap on a sequence's tokens."""
    algorithm = get_algorithm(recipe.algorithm, recipe.parts)
    rule = algorithm.aggregation
    if isinstance(rule, FixedLength) and rule.length == 0:
        turns = recipe.env.max_turns if recipe.optim.sequence == "trajectory" else 1
        rule = replace(rule, length=recipe.rollout.max_response_tokens * turns)
    return replace(algorithm, aggregation=rule)


def _check_fit(algorithm: Algorithm, spec: str) -> None:
    """Raise UsageError for parts that cannot work together, with the reason."""
    rule, value = algorithm.advantage, algorithm.value
    reads = getattr(rule, "reads", None)
    if reads and value is None:
        raise UsageError(
            f"algorithm '{spec}': its advantage ({_summary(rule)}) needs a value source, as 'ppo' and 'sapo-sr' have."
        )
    if value is not None and reads is None:
        raise UsageError(
            f"algorithm '{spec}': its advantage ({_summary(rule)}) does not read values, so its value source "
            f"({_summary(value)}) would have no effect; begin with a method without one, such as grpo."
        )
    if isinstance(value, SharedValue) and reads == "token_value":
        raise UsageError(
            f"algorithm '{spec}': its advantage ({_summary(rule)}) needs a value at every token, its value source "
            f"({_summary(value)}) has two a turn."
        )
    if value is not None and value.single_rollout and getattr(rule, "needs_group", False):
        raise UsageError(
            f"algorithm '{spec}': one trajectory a task has no group, and its advantage ({_summary(rule)}) compares "
            "the episodes of one."
        )
    if value is not None and value.single_rollout and getattr(algorithm.filter, "needs_group", False):
        raise UsageError(
            f"algorithm '{spec}': one trajectory a task has no group whose outcomes differ: the filter would keep none."
        )


def notices(algorithm: Algorithm) -> list[str]:
    """What a user may not expect of a composition that works."""
    said = _replaced(algorithm)
    mask, clip = algorithm.mask, algorithm.clip
    if isinstance(mask, SequenceMask) and isinstance(clip, SequenceClip) and clip.clip_low < 1:
        limit = -math.log1p(-clip.clip_low)
        if mask.delta > _HARDLY * limit:
            acts = "cannot act" if mask.delta >= limit else "hardly ever acts"
            said.append(
                f"{algorithm.name}: the sequence mask (delta {mask.delta:g}) {acts}: a sequence that it drops "
                f"(`masked` counts them) has a ratio below {math.exp(-mask.delta):.6g}, and below "
                f"{1 - clip.clip_low:g} the clip has removed the gradient already; give seqmask:delta well below "
                f"{limit:.3g}."
            )
    return said


def _replaced(algorithm: Algorithm) -> list[str]:
    """A notice for every modifier that takes the place of what distinguishes the method it is added to."""
    path, head, modifiers = split_spec(algorithm.name)
    if not modifiers:
        return []
    base, said = get_algorithm(f"{path}:{head}" if path else head), []
    for modifier in (text.split(":")[0].strip() for text in modifiers):
        field, _ = MODIFIERS[modifier]
        own, now = getattr(base, field), getattr(algorithm, field)
        if own not in (None, GroupNorm()) and own != now:
            said.append(
                f"{algorithm.name}: '{modifier}' takes the place of {base.name}'s own {field} ({_summary(own)})."
            )
    return said


def _check_kinds(parts: Mapping[str, Mapping[str, bool | int | float | str]]) -> None:
    """Raise UsageError for a kind of part, or a field of one, that no method of the catalog has."""
    held = [getattr(a, f) for a in CATALOG.values() for f in _PARTS] + [
        make() for _, make in MODIFIERS.values()
    ]
    fields = {part.kind: _field_names(part) for part in held if part is not None}
    for kind, settings in parts.items():
        if kind not in fields:
            raise unknown_name("recipe field", f"parts.{kind}", [f"parts.{name}" for name in fields])
        for key in settings:
            if key not in fields[kind]:
                allowed = [f"parts.{kind}.{name}" for name in fields[kind]]
                raise unknown_name("recipe field", f"parts.{kind}.{key}", allowed or ["(none)"])


def _named(name: str) -> Algorithm:
    """An algorithm of the catalog, of a file, or of an installed package."""
    if ".py:" in name:
        return _of_dataclasses(user.load_file(name, Algorithm), name)
    if name.endswith(".py"):
        raise UsageError(f"'{name}': a file needs the method's name, as in './mine.py:my_method'.")
    if name in CATALOG:
        return CATALOG[name]
    others = installed(ALGORITHM_ENTRY_POINTS)
    if name not in others:
        raise unknown_name(
            "algorithm", name, [*CATALOG, *others], f"Modifiers after '+': {', '.join(sorted(MODIFIERS))}."
        )
    return _installed(others[name])


def _installed(entry: EntryPoint) -> Algorithm:
    return _of_dataclasses(user.load_entry_point(entry, Algorithm), entry.name)


def _of_dataclasses(algorithm: Algorithm, name: str) -> Algorithm:
    """The algorithm itself. Raises UsageError for a part whose parameters or kind cannot be read."""
    for field in _PARTS:
        part = getattr(algorithm, field)
        if part is not None and (isinstance(part, type) or not dataclasses.is_dataclass(part)):
            given = f"the class {part.__name__}" if isinstance(part, type) else f"a {type(part).__name__}"
            raise UsageError(f"the {field} of '{name}' must be an instance of a dataclass; given {given}.")
        if part is not None and not isinstance(getattr(part, "kind", None), str):
            raise UsageError(
                f"the {field} of '{name}', a {type(part).__name__}, lacks `kind`: a class attribute, one word that "
                'names the part in tables, as kind = "mine".'
            )
    return algorithm


def table() -> list[dict[str, str]]:
    """One row per named method, ours and installed ones: its parts in words, for `arena list algos` and the docs."""
    others = [
        _installed_row(entry)
        for name, entry in installed(ALGORITHM_ENTRY_POINTS).items()
        if name not in CATALOG
    ]
    return [_row(a.name, a, a.source) for a in CATALOG.values()] + others


def _installed_row(entry: EntryPoint) -> dict[str, str]:
    """A method of a package, with the package as its source, and with what is wrong with it."""
    package = package_of(entry)
    try:
        return _row(entry.name, _installed(entry), package)
    except UsageError as error:
        return _row(entry.name, None, f"{package}: {error}")


def _row(name: str, algorithm: Algorithm | None, source: str) -> dict[str, str]:
    given = [getattr(algorithm, part, None) for part in _PARTS]
    parts = {_TITLES.get(part, part): _summary(value) for part, value in zip(_PARTS, given, strict=True)}
    parameters = ":".join(p for part in given if part is not None for p in _parameters(part))
    return {"name": name, **parts, "parameters": parameters or "-", "source": source}


def _summary(part: Any) -> str:
    return "-" if part is None else getattr(part, "summary", part.kind)


def modifier_table() -> list[dict[str, str]]:
    """One row per modifier: the part that it sets, and its parameters' defaults as a spec has them."""
    return [
        {"name": name, "sets": field, "defaults": ":".join(_parameters(default())) or "-"}
        for name, (field, default) in MODIFIERS.items()
    ]


def _parameters(part: Any) -> list[str]:
    values = {f.name: getattr(part, f.name) for f in dataclasses.fields(part)}
    return [f"{key}={_as_text(value)}" for key, value in values.items()]


def _as_text(value: Any) -> str:
    """A value as a spec has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _split(text: str, spec: str) -> tuple[str, dict[str, str]]:
    name, *pairs = text.strip().split(":")
    settings = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key or not value:
            raise UsageError(f"algorithm '{spec}': '{pair}' is not key=value, as in 'gspo:clip_low=3e-4'.")
        if key in settings:
            raise UsageError(f"algorithm '{spec}': {key} is given twice.")
        settings[key] = value
    return name, settings


def _tier_part(part: Any, parts: Mapping[str, Mapping[str, bool | int | float | str]]) -> Any:
    """The part with the tier's defaults for its kind, where it has its class's own: what a method sets stays."""
    if part is None:
        return None
    own = {f.name: f.default for f in dataclasses.fields(part)}
    for key, value in parts.get(part.kind, {}).items():
        if key not in own:
            raise UsageError(
                f"{type(part).__name__} has the kind '{part.kind}' of a part of the catalog, but no {key}, which "
                f"parts.{part.kind}.{key} of the tier sets; give it a kind of its own."
            )
        if getattr(part, key) == own[key]:
            part = _set(part, key, _as_text(value), f"recipe field parts.{part.kind}.{key}")
    return part


def _with_settings(
    algorithm: Algorithm, fields: tuple[str, ...], settings: Mapping[str, str], owner: str
) -> Algorithm:
    for key, text in settings.items():
        holders = [f for f in fields if key in _field_names(getattr(algorithm, f))]
        if not holders:
            allowed = [k for f in fields for k in _field_names(getattr(algorithm, f))]
            raise unknown_name("parameter", key, allowed or ["(none)"], of=f"'{owner}'")
        part = getattr(algorithm, holders[0])
        algorithm = replace(algorithm, **{holders[0]: _set(part, key, text, f"parameter {key} of '{owner}'")})
    return algorithm


def _field_names(part: Any) -> list[str]:
    return [] if part is None else [f.name for f in dataclasses.fields(part)]


#: What a parameter takes whose default is of a type.
_TAKES = {
    bool: "true or false",
    int: "a whole number from 0",
    float: "a finite number from 0",
    str: "a word",
}


def _set(part: Any, key: str, text: str, what: str) -> Any:
    """`part` with another value in its field `key`. Raises UsageError that begins with `what`."""
    kind = type(getattr(part, key))
    if kind not in _TAKES:
        raise UsageError(f"{what} cannot be set: its default is neither a number, a word nor true or false.")
    value = _parse(text, kind)
    if value is None:
        raise UsageError(f"{what} takes {_TAKES[kind]}; given '{text}'.")
    try:
        return replace(part, **{key: value})
    except ValueError as error:
        raise UsageError(f"{what}: {error}.") from None


def _parse(text: str, kind: type) -> bool | int | float | str | None:
    """The value that `text` is, None if it is none of its kind."""
    if kind is bool:
        return {"true": True, "false": False}.get(text)
    try:
        value = kind(text)
    except ValueError:
        return None
    return value if kind is str or 0 <= value < math.inf else None
