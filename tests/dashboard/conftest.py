"""The browser that the report's tests use."""

from report.conftest import browser

__all__ = ["browser"]
