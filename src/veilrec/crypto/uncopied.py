"""Objects of which there must be one only: a second one would be a leak."""

from __future__ import annotations

from typing import ClassVar, NoReturn


class Uncopied:
    """Refuses to be pickled or copied; ``why_not_copied`` is what the error says.

    >>> class Ticket(Uncopied):
    ...     why_not_copied = "A ticket cannot be copied: it is valid once."
    >>> import copy
    >>> copy.copy(Ticket())
    Traceback (most recent call last):
        ...
    TypeError: A ticket cannot be copied: it is valid once.
    """

    why_not_copied: ClassVar[str]

    def __reduce__(self) -> NoReturn:
        raise TypeError(self.why_not_copied)
