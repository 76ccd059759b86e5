"""The writer keeps to the schema, and leaves an old file or a new one, never something between."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arena.records.files import JobStatus, read_status, write_atomic, write_json, write_status
from arena.records.schema import ROLES, SCHEMA_VERSION, TABLES
from arena.records.writer import role_column, step_file, write_columns, write_rows

ROW = {"step": 1, "temperature": 0.5, "episode": 0, "task_seed": 2**40, "success": True, "reward": -0.5}


def token_columns(n):
    """Columns of `tokens` as a trainer makes them: numpy arrays of its own types."""
    columns = {}
    for column in TABLES["tokens"].columns:
        if column.name == "role":
            columns["role"] = role_column(np.arange(n) % len(ROLES))
        elif column.type == pa.bool_():
            columns[column.name] = np.arange(n) % 2 == 0
        elif column.type == pa.float32():
            columns[column.name] = np.linspace(-3, 3, n, dtype=np.float32)
        else:
            columns[column.name] = np.arange(n) % 100
    return columns


def test_rows_come_back_with_types_version_and_nulls(tmp_path):
    path = tmp_path / "a/b/evals.parquet"
    assert write_rows(path, "evals", [ROW, {**ROW, "episode": 1, "reward": None}]) == 0
    table = pq.read_table(path)
    assert table.schema.equals(TABLES["evals"].schema, check_metadata=True)
    assert table.schema.metadata == {b"schema_version": str(SCHEMA_VERSION).encode()}
    first, second = table.to_pylist()
    assert first == {**dict.fromkeys(table.column_names), **ROW}
    # Absent and None are null, never 0.
    assert second["reward"] is None
    assert second["turns"] is None


def test_non_finite_values_are_null_and_counted(tmp_path):
    path = tmp_path / "steps.parquet"
    rows = [{"loss": float("nan"), "ratio_max": float("inf"), "ratio_min": -float("inf"), "entropy": None}]
    rows += [{"loss": 0.0, "ratio_max": 1e300, "updates": 3}]
    assert write_rows(path, "steps", rows) == 3
    first, second = pq.read_table(path).to_pylist()
    assert {first[k] for k in ("loss", "ratio_max", "ratio_min", "entropy")} == {None}
    assert (second["loss"], second["ratio_max"], second["updates"]) == (0.0, 1e300, 3)


def test_nan_in_a_column_of_whole_numbers_is_null(tmp_path):
    columns = token_columns(3)
    columns["advantage_sign"] = np.array([-1.0, np.nan, 1.0])
    path = tmp_path / "step-00001.parquet"
    assert write_columns(path, "tokens", columns) == 0
    assert pq.read_table(path)["advantage_sign"].to_pylist() == [-1, None, 1]


def test_arrays_are_checked_like_lists(tmp_path):
    columns = token_columns(6)
    columns["logprob"] = np.array([0, np.nan, np.inf, -np.inf, -1, -2], dtype=np.float32)
    # Finite in double precision and not in single: what is stored counts.
    columns["energy"] = [1e300, None, float("nan"), 1.0, 2.0, 3.0]
    with np.errstate(over="ignore"):
        assert write_columns(tmp_path / "t.parquet", "tokens", columns) == 3 + 2
    table = pq.read_table(tmp_path / "t.parquet")
    assert table["logprob"].to_pylist() == [0.0, None, None, None, -1.0, -2.0]
    assert table["energy"].to_pylist() == [None, None, None, 1.0, 2.0, 3.0]


def test_token_files_are_one_group_of_rows_with_names_of_roles(tmp_path):
    path = step_file(tmp_path, "tokens", 12)
    assert path == tmp_path / "tokens/step-00012.parquet"
    write_columns(path, "tokens", token_columns(1000))
    file = pq.ParquetFile(path)
    assert file.num_row_groups == 1
    table = file.read()
    assert table.schema.equals(TABLES["tokens"].schema, check_metadata=True)
    assert table["role"].to_pylist()[:6] == list(ROLES)
    assert table["logprob"].to_pylist() == np.linspace(-3, 3, 1000, dtype=np.float32).tolist()
    group = file.metadata.row_group(0)
    chunks = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert {chunk.compression for chunk in chunks.values()} == {"ZSTD"}
    assert "BYTE_STREAM_SPLIT" in chunks["logprob"].encodings
    assert any("DICTIONARY" in encoding for encoding in chunks["advantage"].encodings)


@pytest.mark.parametrize("table", TABLES)
def test_tables_may_be_empty(tmp_path, table):
    if table == "tokens":
        write_columns(tmp_path / "t.parquet", table, token_columns(0))
    else:
        write_rows(tmp_path / "t.parquet", table, [])
    assert pq.read_table(tmp_path / "t.parquet").schema.equals(TABLES[table].schema, check_metadata=True)


def test_columns_must_be_the_tables(tmp_path):
    path = tmp_path / "t.parquet"
    with pytest.raises(KeyError, match=r"evals: no such columns \['sucess'\]"):
        write_rows(path, "evals", [{"step": 1}, {"sucess": True}])
    columns = token_columns(3)
    del columns["weight"]
    columns["wieght"] = np.ones(3)
    with pytest.raises(KeyError, match=r"tokens: columns differ from the schema: \['weight', 'wieght'\]"):
        write_columns(path, "tokens", columns)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bad", [{"step": "one"}, {"success": "yes"}, {"step": 2**40}])
def test_values_of_another_type_leave_the_old_file(tmp_path, bad):
    path = tmp_path / "evals.parquet"
    write_rows(path, "evals", [ROW])
    before = path.read_bytes()
    with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError)):
        write_rows(path, "evals", [{**ROW, **bad}])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


class WriteError(Exception):
    """What goes wrong while writing."""


@pytest.mark.parametrize("error", [WriteError, KeyboardInterrupt, SystemExit])
def test_a_failing_write_leaves_the_old_file_and_nothing_beside_it(tmp_path, error):
    path = tmp_path / "file"
    path.write_text("old")

    def write(temporary: Path) -> None:
        temporary.write_text("half of the n")
        raise error

    with pytest.raises(error):
        write_atomic(path, write)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_readers_see_the_old_file_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "deep/file"

    def write(temporary: Path) -> None:
        assert not path.exists()
        assert temporary.parent == path.parent  # a rename is atomic within one file system only
        assert temporary.name.startswith(".")
        temporary.write_text("new")

    write_atomic(path, write)
    assert path.read_text() == "new"
    assert list(path.parent.iterdir()) == [path]


FULL = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from arena.records.writer import write_columns
from tests.records.test_writer import token_columns
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1])
write_columns(path, "tokens", token_columns(10))
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
columns = token_columns(50_000)
columns["energy"] = np.random.default_rng(0).random(50_000, dtype=np.float32)
try:
    write_columns(path, "tokens", columns)
except OSError as error:
    print("OSError", error.errno)
"""


def test_a_full_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "t.parquet"
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("OSError")
    assert len(pq.read_table(path)) == 10
    assert list(tmp_path.iterdir()) == [path]


def test_status_round_trip(tmp_path):
    assert read_status(tmp_path) is None
    status = JobStatus("running", "abc", 3, 40, 0.25)
    write_status(tmp_path, status)
    assert read_status(tmp_path) == status


def test_json_has_no_nan(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"b": 1, "a": [0.5, None]})
    assert path.read_text() == '{\n "b": 1,\n "a": [\n  0.5,\n  null\n ]\n}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"b": float("nan")})
    assert '"b": 1' in path.read_text()
    assert list(tmp_path.iterdir()) == [path]
