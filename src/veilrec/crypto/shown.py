"""Words instead of a value in an error message: secrets and long numbers are not quoted."""

from __future__ import annotations


class Shown(str):
    """A string that shows itself without quotes.

    >>> f"got {Shown('another key')!r}"
    'got another key'
    """

    __repr__ = str.__str__
