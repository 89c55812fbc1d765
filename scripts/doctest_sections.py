"""For the documentation site: shows an ``Example:`` of a docstring as code.

Griffe, which reads the docstrings, knows the section ``Examples:`` alone.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)


class DoctestSections(griffe.Extension):
    """Renames the sections, in the copy of the docstrings that the site is made of."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rename the section of one class or function."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub("Examples:", obj.docstring.value)
