"""Language models: build, load, save, score and sample. Knows nothing of environments or algorithms."""
