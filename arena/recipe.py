"""The recipe: everything that defines one cell, as frozen data.

A tier is a TOML file of defaults, in `arena/tiers/` or the user's own; `resolve` turns a tier, an environment, an
algorithm, a seed and `--set` overrides into a `Recipe`. Nothing outside a recipe may change a cell's records.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo

from arena.errors import UsageError, unknown_name

#: Entry-point group through which installed packages offer methods.
ALGORITHM_ENTRY_POINTS = "arena.algorithms"
#: And environments.
ENV_ENTRY_POINTS = "arena.envs"
#: What a BC start depends on.
START_FIELDS: dict[str, Any] = {
    "env": True,
    "model": True,
    "bc": True,
    "seed": True,
    "eval": {"episodes", "temperature"},
    "rollout": {"max_response_tokens", "layout"},
}
#: Raised when the start that a recipe makes changes: an older one is not taken for it.
START_VERSION = 3
#: Raised, by method or modifier, when the same recipe makes other records: older cells are not taken for these.
#: `actfocus` 2: an action block that is not closed has role action.
METHOD_VERSIONS = {"actfocus": 2, "ppo-actfocus": 2}
#: Fields that `--set` may not touch, and the option of `arena run` that gives them.
GIVEN = {
    "tier": "--tier",
    "algorithm": "--algos",
    "code": "--algos",
    "seed": "--seeds",
    "env.name": "--envs",
    "env.code": "--envs",
}


class Section(BaseModel):
    """Frozen, and refuses unknown fields and values that are merely alike, such as true for 1."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


class EnvConfig(Section):
    """The environment and how it is shown to the model."""

    name: str = Field(description="Name in the environment registry.")
    observation: Literal["compact", "full"] = Field(
        "compact", description="compact: tiny models; full: real language models."
    )
    max_turns: int = Field(15, ge=1, description="Turns after which an episode is cut.")
    history: int = Field(0, ge=0, description="Earlier turns (observation and action) shown in the prompt.")
    options: dict[str, Any] = Field(default_factory=dict, description="Keyword arguments of the environment.")
    code: dict[str, str] = Field(
        default_factory=dict,
        description="Digest of the file, or version of the package, of an environment that is not Arena's own.",
    )

    @property
    def spec(self) -> str:
        """What `--envs` takes: the name, or for an environment that is not Arena's own where it is found."""
        return next(iter(self.code), self.name)

    @model_serializer(mode="wrap")
    def _fields(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without `code` where it says nothing: the hash of a recipe of Arena's own environments knows of none."""
        return {key: value for key, value in serialise(self).items() if key != "code" or value}


class ModelConfig(Section):
    """A small Qwen3-architecture model built from this config, fp32."""

    hidden_size: int = Field(64, ge=8, description="Width.")
    num_layers: int = Field(2, ge=1, description="Decoder layers.")
    num_heads: int = Field(4, ge=1, description="Attention heads.")
    num_kv_heads: int = Field(4, ge=1, description="Key/value heads.")
    intermediate_size: int = Field(128, ge=8, description="Width of the feed-forward layer.")

    @model_validator(mode="after")
    def _shapes(self) -> ModelConfig:
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_heads {self.num_heads} is not a multiple of num_kv_heads {self.num_kv_heads}"
            )
        if self.hidden_size % (2 * self.num_heads):
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of 2 x num_heads {self.num_heads}"
            )
        return self


class BCConfig(Section):
    """Behaviour cloning on the successful episodes of a noisy scripted expert."""

    episodes: int = Field(
        1000, ge=1, description="Expert episodes attempted; the successful ones are cloned."
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="Environment options of the demonstrations, laid on env.options: easier tasks leave room to learn.",
    )
    expert_noise: float = Field(0.4, ge=0, lt=1, description="Share of the expert's actions that are random.")
    steps: int = Field(600, ge=1, description="Optimiser steps.")
    batch_size: int = Field(
        64, ge=1, description="Rows per optimiser step: turns, or episodes in layout trajectory."
    )
    learning_rate: float = Field(6e-3, gt=0, description="Peak learning rate, cosine decay to a tenth.")
    weight_decay: float = Field(0.0, ge=0, description="AdamW weight decay.")


class RolloutConfig(Section):
    """How training episodes are sampled."""

    groups: int = Field(16, ge=1, description="Tasks per training step.")
    group_size: int = Field(8, ge=1, description="Episodes per task.")
    temperature: float = Field(1.0, gt=0, description="Sampling temperature; scoring applies the same.")
    max_response_tokens: int = Field(48, ge=1, description="Cap on sampled tokens per turn.")
    layout: Literal["turn", "trajectory"] = Field(
        "turn",
        description="turn: a row is a turn, its prompt the current state; trajectory: a row is an episode, in which "
        "the model sees all that was said before.",
    )

    @property
    def episodes(self) -> int:
        """Episodes of a rollout round."""
        return self.groups * self.group_size


class OptimConfig(Section):
    """The policy update."""

    learning_rate: float = Field(2e-4, gt=0, description="AdamW learning rate, constant after the warm-up.")
    warmup: int = Field(
        0,
        ge=0,
        description="Training steps over which the rate rises: Adam's first updates move every weight by all of it.",
    )
    weight_decay: float = Field(0.0, ge=0, description="AdamW weight decay.")
    max_grad_norm: float = Field(1.0, gt=0, description="Gradient norm clip.")
    epochs: int = Field(1, ge=1, description="Passes over each rollout batch.")
    minibatches: int = Field(4, ge=1, description="Optimiser steps per pass; at most the episodes of a step.")
    sequence: Literal["turn", "trajectory"] = Field(
        "turn", description="What sequence-level ratios, masks and means are taken over."
    )
    micro_rows: int = Field(64, ge=1, description="Rows per forward; does not change the gradient.")


class KLConfig(Section):
    """KL loss to the frozen reference (the BC model), k3 estimator."""

    coef: float = Field(0.01, ge=0, description="Coefficient; 0 turns the term off.")


class FormatConfig(Section):
    """The penalty for a turn whose response is not strictly valid."""

    penalty: float = Field(0.1, ge=0, description="Cost of such a turn.")


class EvalConfig(Section):
    """Evaluation on held-out tasks, at this temperature and at 1; at step 0 also greedy and at 0.5."""

    every: int = Field(10, ge=1, description="Steps between evaluations; the last step always has one.")
    episodes: int = Field(128, ge=1, description="Held-out tasks, the same at each evaluation.")
    temperature: float = Field(0.5, ge=0, description="The recipe's evaluation temperature; 0 is greedy.")


class RecordConfig(Section):
    """What is written beside steps and evals."""

    enabled: bool = Field(True, description="Write episodes, turns and tokens.")
    token_fraction: float = Field(1.0, ge=0, le=1, description="Share of groups whose tokens are written.")
    grad_by_role: bool = Field(
        False, description="Measure the gradient norm by role (two more backward passes a step)."
    )


class CheckpointConfig(Section):
    """Resumable state."""

    every: int = Field(1, ge=1, description="Steps between checkpoints.")


class Recipe(Section):
    """Everything that defines one cell (environment, algorithm, seed)."""

    tier: str = Field(description="Tier the defaults came from: its name, or that of its file.")
    algorithm: str = Field(description="Algorithm spec, e.g. 'grpo' or 'gspo+gigpo:omega=0.5'.")
    seed: int = Field(
        ge=0, description="Seed of the cell; shares its BC start with every method of that seed."
    )
    steps: int = Field(ge=1, description="Training steps.")
    code: dict[str, str] = Field(
        default_factory=dict,
        description="Digest of the file, or version of the package, of the algorithm.",
    )
    env: EnvConfig
    model: ModelConfig = ModelConfig()
    bc: BCConfig = BCConfig()
    rollout: RolloutConfig = RolloutConfig()
    optim: OptimConfig = OptimConfig()
    kl: KLConfig = KLConfig()
    format: FormatConfig = FormatConfig()
    eval: EvalConfig = EvalConfig()
    record: RecordConfig = RecordConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    parts: dict[str, dict[str, bool | int | float | str]] = Field(
        default_factory=dict, description="The tier's defaults for algorithm parts, e.g. sequence_clip."
    )

    @property
    def hash(self) -> str:
        """Twelve hex digits that identify the cell: equal hashes, equal records."""
        fields = self.model_dump(mode="json")
        modifiers = split_spec(self.algorithm)[2]
        parts = {base_of(self.algorithm), *(modifier.split(":")[0] for modifier in modifiers)}
        versions = {name: version for name, version in METHOD_VERSIONS.items() if name in parts}
        return _digest({key: value for key, value in fields.items() if key != "code" or value} | versions)

    @property
    def start_hash(self) -> str:
        """Twelve hex digits that identify the BC start: only what it depends on."""
        return _digest(self.start_fields())

    def start_fields(self) -> dict[str, Any]:
        """The fields that the BC start depends on, as nested mappings."""
        return {**self.model_dump(mode="json", include=START_FIELDS), "version": START_VERSION}


def is_start_field(path: str) -> bool:
    """Whether a BC start depends on the field `section.name`."""
    section, _, name = path.partition(".")
    which = START_FIELDS.get(section, ())
    return which is True or name.split(".")[0] in which


def _digest(fields: Mapping[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def tier_names() -> list[str]:
    """Names of the tiers that ship with Arena."""
    return sorted(
        p.name.removesuffix(".toml")
        for p in resources.files("arena.tiers").iterdir()
        if p.name.endswith(".toml")
    )


def load_tier(tier: str) -> dict[str, Any]:
    """The TOML of a tier as nested mappings, laid on that of its `base`: what it says for all environments holds for
    those too for which the base says something else.

    `tier` is a name, or the path of a TOML file. Raises UsageError for an unknown name and an unreadable file.
    """
    tree = read_tier(tier)
    base = tree.pop("base", None)
    if base is None:
        return tree
    if base not in tier_names():
        raise unknown_name("tier", str(base), tier_names(), f"Given as base of '{tier}'.")
    under = load_tier(base)
    under["envs"] = {name: _without(section, tree) for name, section in under.get("envs", {}).items()}
    return merge(under, tree)


def _without(section: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`section` less the values that `over` has too."""
    kept = {}
    for key, value in section.items():
        other = over.get(key)
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            kept[key] = _without(value, other)
        elif key not in over:
            kept[key] = value
    return kept


def read_tier(tier: str) -> dict[str, Any]:
    """A tier's own TOML, its `base` not followed. Raises as `load_tier`."""
    if tier in tier_names():
        return tomllib.loads((resources.files("arena.tiers") / f"{tier}.toml").read_text())
    path = Path(tier)
    if path.suffix != ".toml":
        if len(path.parts) == 1:
            raise unknown_name("tier", tier, tier_names(), "Or the path of a file that ends in .toml.")
        raise UsageError(f"a tier's file ends in .toml; given '{tier}'.")
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"'{tier}' cannot be read ({error.strerror}).") from None
    except ValueError as error:
        raise UsageError(f"'{tier}' is not TOML: {error}.") from None
    for section in [tree, *_tables(tree, "envs", tier).values()]:
        _tables(section, "algos", tier)
    return tree


def _tables(tree: Mapping[str, Any], key: str, tier: str) -> Mapping[str, Mapping[str, Any]]:
    """The tables under `key`, by name. Raises UsageError if it holds anything else."""
    found = tree.get(key, {})
    if not isinstance(found, Mapping) or not all(isinstance(v, Mapping) for v in found.values()):
        example = {"envs": "[envs.sokoban.bc]", "algos": "[algos.cispo.optim]"}[key]
        raise UsageError(f"'{tier}': {key} holds a section for each name, as in {example}; given {found!r}.")
    return found


def method_sections(tree: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """A tier's sections for methods, by environment ("" for all of them) and method."""
    sections = {("", name): section for name, section in tree.get("algos", {}).items()}
    for env, own in tree.get("envs", {}).items():
        sections |= {(env, name): section for name, section in own.get("algos", {}).items()}
    return sections


def field_values(tier: str) -> list[dict[str, Any]]:
    """Every field that `--set` takes: its type as JSON Schema names it, its value in the tier, the environments' own
    where they differ, what the sections for methods say (by "method", or "environment/method"), its meaning."""
    tree = load_tier(tier)
    methods = {f"{env}/{name}".lstrip("/"): own for (env, name), own in method_sections(tree).items()}
    per_env = tree.pop("envs", {})
    trees = {name: merge(tree, own) for name, own in per_env.items()}
    rows = []
    for path, info in _settable():
        default = info.get_default(call_default_factory=True)
        value = look_up(tree, path, default)
        own = {name: look_up(given, path, default) for name, given in trees.items()}
        rows.append(
            {
                "field": path,
                "type": _json_type(info),
                "value": value,
                "environments": {name: v for name, v in own.items() if v != value},
                "algorithms": {
                    name: said
                    for name, section in methods.items()
                    if (said := look_up(section, path)) is not None
                },
                "meaning": info.description or "",
            }
        )
    return rows


def _json_type(info: FieldInfo) -> str:
    assert info.annotation is not None
    return TypeAdapter(info.annotation).json_schema()["type"]


def field_table(tier: str) -> list[dict[str, str]]:
    """`field_values` for people: values as `--set` takes them, in one column."""
    rows = []
    for row in field_values(tier):
        special = row["environments"] | row["algorithms"]
        own = ", ".join(f"{name} {_as_set(value)}" for name, value in special.items())
        value = _as_set(row["value"]) + (f" ({own})" if own else "")
        rows.append({"field": row["field"], "value": value, "meaning": row["meaning"]})
    return rows


def _settable() -> list[tuple[str, FieldInfo]]:
    """The fields that `--set` takes, by their paths."""
    return [(path, info) for path, info in _leaves(Recipe) if path not in GIVEN]


def _leaves(section: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, info in section.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from _leaves(info.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", info


def look_up(tree: Mapping[str, Any], path: str, default: Any = None) -> Any:
    """The value at `section.field` of nested mappings; `default` if there is none."""
    value: Any = tree
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return default
        value = value[part]
    return value


def toml_value(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{toml_key(k)} = {toml_value(v)}" for k, v in value.items())
        return f"{{ {inner} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else str(value)


def toml_key(name: str) -> str:
    """A key as TOML, quoted where it has to be."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _as_set(value: Any) -> str:
    """A value as `--set` takes it."""
    return value if isinstance(value, str) else toml_value(value)


def parse_overrides(pairs: Sequence[str]) -> dict[str, Any]:
    """`["kl.coef=0.02", "steps=5"]` as nested mappings; values are read as TOML, else as text.

    Raises UsageError for what is no pair, and for a field given twice.
    """
    tree: dict[str, Any] = {}
    for pair in pairs:
        key, separator, text = pair.partition("=")
        if not separator or not key:
            raise UsageError(f"--set takes section.key=value, e.g. --set kl.coef=0.02; given '{pair}'.")
        try:
            value = tomllib.loads(f"v = {text}")["v"]
        except tomllib.TOMLDecodeError:
            value = text
        *sections, leaf = key.split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
            if not isinstance(node, dict):
                raise UsageError(f"--set {key}: '{section}' was already given a value.")
        if leaf in node:
            raise UsageError(f"--set {key}: it was already given a value; give it once.")
        node[leaf] = value
    return tree


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` laid on `base`, mapping by mapping."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as `section.field` -> value; an empty mapping is a value."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        path = f"{prefix}{key}"
        flat |= flatten(value, f"{path}.") if isinstance(value, Mapping) and value else {path: value}
    return flat


def resolve(
    tier: str,
    env: str,
    algorithm: str,
    seed: int,
    overrides: Mapping[str, Any] | None = None,
    env_code: Mapping[str, str] | None = None,
) -> Recipe:
    """The recipe of one cell: tier defaults, then the tier's section for the environment, then that for the method (for
    the method in this environment, if the tier has one), then overrides. `env` is the environment's name; `env_code`
    says what one that is not Arena's own is made of (`arena.envs.name_and_code`).

    Raises UsageError, naming the field, what was given and what is allowed.
    """
    tree = load_tier(tier)
    per_env = tree.pop("envs", {})
    tree.pop("description", None)
    tree = merge(tree, per_env.get(env, {}))
    per_method = tree.pop("algos", {})  # the environment's own laid on those for all
    tree = merge(tree, per_method.get(base_of(algorithm), {}))
    tree = merge(tree, overrides or {})
    given = {
        "tier": Path(tier).name,
        "algorithm": algorithm,
        "seed": seed,
        "code": code_of(algorithm),
        "env": {"name": env, "code": dict(env_code or {})},
    }
    tree = merge(tree, given)
    try:
        return Recipe.model_validate(tree)
    except ValidationError as error:
        raise UsageError(_explain(error)) from None


def file_of(spec: str) -> tuple[str, str]:
    """The Python file that a spec like `./mine.py:my_method:width=0.3` names, "" if none, and the rest of the spec."""
    path, found, rest = spec.partition(".py:")
    return (f"{path}.py", rest) if found else ("", spec)


def split_spec(spec: str) -> tuple[str, str, tuple[str, ...]]:
    """A spec as its file ("" if it names none), its method and its modifiers, the last two with their parameters."""
    path, rest = file_of(spec)
    head, *modifiers = re.split(r"\+\s*(?=[A-Za-z])", rest)  # and not within "reinforce++" or "3e+4"
    return path, head.strip(), tuple(modifier.strip() for modifier in modifiers)


def base_of(spec: str) -> str:
    """The method that a spec begins with, without parameters and modifiers: `gspo` of `gspo:clip_low=3e-4+gigpo`."""
    path, head, _ = split_spec(spec)
    name = head.split(":")[0].strip()
    return f"{path}:{name}" if path else name


@cache
def installed(group: str) -> Mapping[str, EntryPoint]:
    """What installed packages offer in a group, by name; looked up once, because it reads every package."""
    return {entry.name: entry for entry in entry_points(group=group)}


def code_of(spec: str) -> dict[str, str]:
    """What a spec's method is made of, if it is not Arena's own: another content is another recipe.

    The digest of the file that it names, or the version of the installed package whose entry point it names.
    """
    path, head, _ = split_spec(spec)
    if path:
        return {path: digest_of(path)}
    name = head.split(":")[0].strip()
    return version_of(name, installed(ALGORITHM_ENTRY_POINTS).get(name))


def check_code(spec: str, planned: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Raise UsageError, with the ways out, if a spec's code is not what the recipe was made with any more."""
    if planned != found:
        raise UsageError(
            f"the code of '{spec}' changed since the run was planned: restore it and run this again; or, to train what "
            "it is now, give another --name (`arena run` also has --reuse, for all that is the same, and --fresh)."
        )


def digest_of(path: str) -> str:
    """Twelve hex digits of a file's content. Raises UsageError if it cannot be read."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read ({error.strerror}); given as path.py:name.") from None


def version_of(name: str, entry: EntryPoint | None) -> dict[str, str]:
    """The package of an entry point and its version, by the entry point's name; empty for what has none."""
    return {name: f"{entry.dist.name}=={entry.dist.version}"} if entry and entry.dist else {}


def package_of(entry: EntryPoint) -> str:
    """For people: the package of an entry point and its version."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value


#: What a field takes, by the beginning of the error's type; others say it themselves.
_TAKES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "dict": "a table, as { key = value }",
}


def _explain(error: ValidationError) -> str:
    lines = []
    for item in error.errors():
        path = ".".join(str(part) for part in item["loc"])
        kind = item["type"].split("_")[0]
        in_part = item["loc"][0] == "parts" and len(item["loc"]) > 3
        if item["type"] == "extra_forbidden":
            allowed = _fields_of(item["loc"][:-1])
            elsewhere = [name for name, _ in _settable()]
            lines.append(str(unknown_name("recipe field", path, allowed, elsewhere=elsewhere)))
        elif item["type"] == "value_error":
            lines.append(f"recipe field {path}: {item['ctx']['error']}.")
        elif item["type"] in ("model_type", "model_attributes_type"):
            fields = ", ".join(_fields_of(item["loc"]))
            lines.append(
                f"recipe field {path} is a section: set its fields {fields}; given {item['input']!r}."
            )
        elif in_part:  # one error for each type allowed, all in one line
            path = ".".join(map(str, item["loc"][:3]))
            takes = "a finite number, a word, or true or false"
            lines.append(f"recipe field {path} takes {takes}; given {item['input']!r}.")
        elif kind in _TAKES:
            lines.append(f"recipe field {path} takes {_TAKES[kind]}; given {item['input']!r}.")
        else:
            lines.append(
                f"recipe field {path}: {item['msg'][0].lower()}{item['msg'][1:]}; given {item['input']!r}."
            )
    return "\n".join(dict.fromkeys(lines))


def _fields_of(path: Sequence[str | int]) -> list[str]:
    """Paths of the fields and sections of the section at `path`, as far as `--set` takes them."""
    section: type[BaseModel] = Recipe
    for part in path:
        section = section.model_fields[str(part)].annotation  # ty: ignore[invalid-assignment]
    paths = (".".join([*map(str, path), name]) for name in section.model_fields)
    return [name for name in paths if name not in GIVEN]
