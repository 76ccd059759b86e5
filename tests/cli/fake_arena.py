"""`python -m tests.cli.fake_arena ARGS` is `arena ARGS` with fake jobs in place of training."""

from functools import partial

from arena.cli import main, run

if __name__ == "__main__":
    run.Setup = partial(run.Setup, execute="tests.launch.fake_jobs:run")
    main()
