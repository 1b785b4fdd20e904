"""What is shown to a person: tables in the terminal, the demo, the report page.

Import from its files: what draws a small table should not wait for what trains models.
"""

__all__: list[str] = []
