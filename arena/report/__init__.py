"""The report of a run: figures, words, HTML and PDF. Reads records, never imports torch."""

from arena.report.build import build_report

__all__ = ["build_report"]
