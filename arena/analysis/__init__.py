"""What the records say: pure functions from frames and DuckDB relations to frames. Never imports torch."""
