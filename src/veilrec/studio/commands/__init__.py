"""The commands, in groups; ``cli.py`` is the table that names them."""

__all__: list[str] = []
