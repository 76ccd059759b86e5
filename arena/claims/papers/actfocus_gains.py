"""ActFocus against the method that it weights."""

from arena.claims.base import Claim
from arena.claims.contrast import FALL, FINAL, Arm, Contrast
from arena.claims.papers.settings import ACTFOCUS, ACTFOCUS_ENVS, CPU
from arena.claims.published import number

_GAIN = "final-step success gain over uniform (points)"

CLAIM = Claim(
    name="actfocus-gains",
    statement="ActFocus lowers the fall from peak to end and raises final success, over GRPO and over PPO.",
    source=ACTFOCUS,
    how="Both measures, paired with the same method without its weights; all four have to hold.",
    parts=tuple(
        part
        for algo, base in (("actfocus", "grpo"), ("ppo-actfocus", "ppo"))
        for part in (
            Contrast(
                f"{algo} falls less than {base}",
                CPU,
                Arm((algo,)),
                Arm((base,)),
                ACTFOCUS_ENVS,
                FALL,
                "less",
            ),
            Contrast(f"{algo} ends above {base}", CPU, Arm((algo,)), Arm((base,)), ACTFOCUS_ENVS, FINAL),
        )
    ),
    published=tuple(
        number(
            f"Sudoku, {model}, gain over PPO",
            "actfocus",
            "value",
            unit="points",
            setting=f"PPO Sudoku {model}",
            metric=_GAIN,
        )
        for model in ("0.5B", "1.5B")
    ),
)
