"""How much weight thoughts keep under ActFocus, by environment."""

from arena.claims.base import Claim
from arena.claims.contrast import FINAL, Arm, Contrast
from arena.claims.papers.settings import ACTFOCUS, CPU
from arena.claims.published import number

#: The default of `actfocus` is 0.1, and a spec that gives a default is the same method under another name.
_LOW, _HIGH = Arm(("actfocus",)), Arm(("actfocus:alpha=0.3",))

CLAIM = Claim(
    name="actfocus-alpha",
    statement="The best weight of thought tokens under ActFocus (alpha) depends on the environment.",
    source=ACTFOCUS,
    how=(
        "Final success at the alpha that the paper gives for an environment against the one it gives for "
        "the other: 0.1 has to win in Sokoban and 0.3 in WebShop."
    ),
    parts=(
        Contrast("alpha 0.1 ends above 0.3 in sokoban", CPU, _LOW, _HIGH, ("sokoban",), FINAL),
        Contrast("alpha 0.3 ends above 0.1 in webshop", CPU, _HIGH, _LOW, ("webshop",), FINAL),
    ),
    published=tuple(
        number(f"{env} best alpha", "actfocus", "value", setting=env, metric="alpha")
        for env in ("Sokoban", "WebShop")
    ),
)
