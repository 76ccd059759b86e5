"""`python -m tests.cli.fake_arena ARGS` is `arena ARGS` with fake jobs in place of training."""

import sys
from functools import partial
from types import SimpleNamespace

from arena.cli import main, run, stress, tune

if __name__ == "__main__":
    # The real catalog imports torch, which takes seconds; with it these processes would be mostly imports.
    catalog = SimpleNamespace(
        CATALOG={},
        get_algorithm=lambda spec, parts: None,
        algorithm_of=lambda recipe: SimpleNamespace(name=recipe.algorithm, value=None, filter=None),
        notices=lambda algorithm: [],
    )
    trial = SimpleNamespace(try_out=lambda algorithm: None)
    sys.modules["arena.algorithms.catalog"] = catalog  # ty: ignore[invalid-assignment]
    sys.modules["arena.algorithms.trial"] = trial  # ty: ignore[invalid-assignment]
    run.Setup = partial(run.Setup, execute="tests.launch.fake_jobs:run")
    tune.Setup = partial(tune.Setup, execute="tests.launch.scored_jobs:run")
    stress.Setup = partial(stress.Setup, execute="tests.launch.stressed_jobs:run")
    main()
