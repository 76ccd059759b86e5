"""`arena claims` as typed; what the numbers are is in tests/claims."""

import json
import shlex

from arena.claims import CLAIMS
from arena.claims.cells import Need
from arena.claims.papers.settings import SEQUENCE_LEVEL, STRESS, STRESS_ENVS, TOLERANT
from arena.records.reader import read_run
from tests.claims.planted import plant

NEED = Need(STRESS, SEQUENCE_LEVEL + TOLERANT, STRESS_ENVS)


def stress_run(runs, name="s", algos=NEED.algos, seeds=range(3)):
    for env in STRESS_ENVS:
        for seed in seeds:
            for algo in algos:
                final = 0.6 if algo in SEQUENCE_LEVEL else 0.05 * seed
                plant(runs / name, NEED, env, algo, seed, 0.5, 0.6, 0.6, final)


def block_of(result):
    """The commands at the end of what was printed."""
    told = "one after another; the last one then answers:\n"
    return [line.strip() for line in result.out.split(told)[1].splitlines()]


def test_a_claim_in_words(arena, runs):
    stress_run(runs)
    result = arena("claims", "--claim", "sequence-clipping")
    assert (result.code, result.err) == (0, "")
    # Lost: none against 100, 91.7 and 83.3 % of a peak of 0.6: mean 91.67, deviation 8.33, half width 20.7.
    assert result.out == (
        f"12 finished cells of {runs}/s\n"
        "\n"
        "Effects are positive in the direction claimed, with Student's 95 % interval over seeds\n"
        "\n"
        "claim              verdict     effect                   at equal tokens          unit           "
        "seeds  explanation\n"
        "sequence-clipping  reproduced  +91.7 [+71.0 to +112.4]  +91.7 [+71.0 to +112.4]  % of the peak  0-2    "
        "share of the peak lost: 0 against 91.67; "
        "collapsed 0 of 6 cells against 0 of 6 cells\n"
        "\n"
        "sequence-clipping: Sequence-level clipping (GSPO, SAMPO) collapses less than tolerant token-level clipping "
        "(CISPO, soft SAPO).\n"
        f"  {CLAIMS['sequence-clipping'].source}. {CLAIMS['sequence-clipping'].how}\n"
        "  Published: gspo final ALFWorld success: 78.61 %; sampo final ALFWorld success: 92.72 %; "
        "cispo final ALFWorld success: 54.42 %; sapo-soft final ALFWorld success: 25.16 %.\n"
        "  - gspo, sampo lose less of their peak than cispo, sapo-soft: reproduced, +91.7 [+71.0 to +112.4] % of "
        "the peak, at equal tokens +91.7 [+71.0 to +112.4]. share of the peak lost: 0 against 91.67; "
        "collapsed 0 of 6 cells against 0 of 6 cells.\n"
    )


def test_all_claims_and_the_commands_of_those_not_run(arena, runs):
    stress_run(runs, seeds=(0,))
    result = arena("claims")
    assert result.code == 0
    table = result.out.split("\n\n")[2].splitlines()
    assert [line.split()[0] for line in table[1:]] == list(CLAIMS)
    assert table[1].split()[1] == "inconclusive"
    assert table[1].endswith("one seed gives no interval; it takes 3")
    assert sum(" not run " in line for line in table) == len(CLAIMS) - 2  # negative-kl-share has cells too
    *made, answers = block_of(result)
    assert len(set(made)) == len(made)
    assert all(line.startswith("arena run --tier cpu") for line in made)
    names = [line.split("--name ")[1].split()[0] for line in made]
    assert names == sorted(names, key=names.index)  # those of one run follow one another
    assert answers == " ".join(["arena claims s", *dict.fromkeys(names)])


def test_the_commands_one_after_another_end_in_an_answer(arena, runs):
    stress_run(runs, seeds=(0,), algos=("gspo",))
    asked = ("--claim", "actfocus-alpha", "--claim", "staleness")
    *made, answers = block_of(arena("claims", "s", *asked))
    assert [line.split("--name ")[1] for line in made[:2]] == ["claims-cpu"] * 2
    for line in made:
        words = shlex.split(line)
        assert arena(*words[1:]).code == 0
        changes = tuple(words[i + 1] for i, word in enumerate(words) if word == "--set")
        run = runs / words[words.index("--name") + 1]
        for cell in read_run(run).cells:
            assert cell.finished
            plant(run, Need(cell.recipe.tier, (), (), changes), cell.env, cell.algo, cell.seed, 0.5, 0.5)
    assert answers.startswith("arena claims s claims-cpu claims-cpu-stress-groups-16")
    found = json.loads(arena(*shlex.split(answers)[1:], "--json").out)
    assert [(c["claim"], c["verdict"], c["seeds"]) for c in found["claims"]] == [
        ("actfocus-alpha", "inconclusive", [0, 1, 2, 3, 4]),
        ("staleness", "inconclusive", [0, 1, 2, 3, 4]),
    ]
    assert found["commands"] == []


def test_the_commands_name_a_runs_folder_that_was_named(arena, runs, tmp_path):
    elsewhere = tmp_path / "of mine"
    stress_run(elsewhere, seeds=(0,), algos=SEQUENCE_LEVEL)
    lines = block_of(arena("claims", "--claim", "sequence-clipping", "--runs-dir", str(elsewhere)))
    assert len(lines) == 2
    assert all(line.endswith(f" --runs-dir '{elsewhere}'") for line in lines)


def test_cells_of_several_runs_are_taken_together(arena, runs):
    stress_run(runs, "one", SEQUENCE_LEVEL)
    stress_run(runs, "two", TOLERANT)
    only = json.loads(arena("claims", "one", "--claim", "sequence-clipping", "--json").out)
    assert only["runs"] == [f"{runs}/one"]
    assert [(c["verdict"], c["effect"]) for c in only["claims"]] == [("not run", None)]
    assert only["claims"][0]["commands"] == [
        "arena run --tier cpu-stress --algos cispo,sapo-soft --envs sokoban --num-seeds 3 "
        f"--name claims-cpu-stress --reuse {runs}/one"
    ]
    both = json.loads(arena("claims", "one", "two", "--claim", "sequence-clipping", "--json").out)
    (row,) = both["claims"]
    assert (row["claim"], row["verdict"], row["seeds"], row["unit"]) == (
        "sequence-clipping",
        "reproduced",
        [0, 1, 2],
        "% of the peak",
    )
    assert row["published"][0] == {
        "label": "gspo final ALFWorld success",
        "unit": "%",
        "value": "78.61",
        "table": "arlarena_table3",
    }


def test_wrong_usage(arena, runs):
    assert arena("claims").code == 2  # no run
    stress_run(runs, seeds=(0,))
    unknown = arena("claims", "--claim", "sequence-cliping")
    assert unknown.code == 2
    assert "unknown claim 'sequence-cliping'. Did you mean 'sequence-clipping'?" in unknown.err
    missing = arena("claims", "t")
    assert (missing.code, "unknown run 't'" in missing.err) == (2, True)


def test_listing(arena):
    listed = json.loads(arena("list", "claims", "--json").out)
    assert [row["name"] for row in listed] == list(CLAIMS)
    assert listed[0]["statement"] == CLAIMS["sequence-clipping"].statement
