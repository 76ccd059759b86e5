"""Runs grids of cells: plan, worker processes, manifest, progress display. Never imports torch."""
