"""The Parquet contract between training and everything that reads it. Never imports torch."""
