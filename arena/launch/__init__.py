"""Runs grids of cells: plan, worker processes, manifest, progress display.

Imports torch only to check algorithm specs (the catalog does) and inside workers.
"""
