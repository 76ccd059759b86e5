"""Language models: build or load, score, sample. Knows nothing of algorithms, and of environments only the format."""
