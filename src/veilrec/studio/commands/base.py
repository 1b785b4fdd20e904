"""What the commands share: errors in one line, output, options, and the reading of small values."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from rich.console import Console

INTERRUPTED = 130
MENDABLE = 1
"""What ends in one line. 2 is wrong usage, by click; 130 an interrupt."""
_T = TypeVar("_T")


class Group(TyperGroup):
    """Turns what a user can mend into one line, and leaves everything else its traceback."""

    def invoke(self, ctx: Any) -> Any:
        debug = ctx.params.get("debug") or os.environ.get("VEILREC_DEBUG", "") not in ("", "0")
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warn
                return super().invoke(ctx)
        except KeyboardInterrupt:
            say("stopped. Give the same command again to go on from where it was.", "yellow")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if debug or not _is_expected(error):
                raise
            say(f"error: {_words(error)}", "red")
            raise typer.Exit(MENDABLE) from None


def _is_expected(error: Exception) -> bool:
    from veilrec.core import CannotFoldIn, MissingExtra, NotFitted

    file = isinstance(error, OSError) and error.filename is not None
    return file or isinstance(error, ValueError | MissingExtra | NotFitted | CannotFoldIn)


def _words(error: Exception) -> str:
    if not isinstance(error, OSError):
        return str(error)
    return f"{error.filename}: {(error.strerror or type(error).__name__).lower()}. Choose another place."


def check_target(flag: str, file: Path | None, *, folder: bool = False) -> None:
    """Refuse a file, or a folder, that cannot be written, before the work whose result it is to hold."""
    from veilrec.core import DataError

    if file is None:
        return
    if file.is_dir() and not folder:
        raise DataError(f"{flag} must be a file, got a folder. Choose another name.", file=file)
    if file.exists() and folder and not file.is_dir():
        raise DataError(f"{flag} must be a folder, got a file. Choose another name.", file=file)
    place = file
    while not place.exists() and place != place.parent:
        place = place.parent
    if place != file and not place.is_dir():
        message = f"{flag} must be in a folder, got {place.name!r}, which is a file. Choose another name."
        raise DataError(message, file=file)
    if not os.access(place, os.W_OK):
        raise DataError(f"{flag} must be where you may write. Choose another place.", file=file)


def _warn(message: Warning | str, *about: Any, **more: Any) -> None:
    say(f"warning: {message}", "yellow")


def say(text: str, style: str = "") -> None:
    """One line on standard error, as it is: no markup, no wrapping."""
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, soft_wrap=True).print(Text(text, style=style))


def console() -> Console:
    from rich.console import Console

    return Console()


def emit(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def examples(*lines: str) -> str:
    """The foot of a help page."""
    return "\n".join(["[bold]Examples[/bold]", *(f"  [cyan]$ {line}[/cyan]" for line in lines)])


# -- options that several commands share ---------------------------------------------------------------

Json = Annotated[
    bool, typer.Option("--json", help="Machine-readable output, and nothing else, on standard output.")
]
Config = Annotated[
    Path | None, typer.Option("--config", help="YAML file; flags and --set go over it.", metavar="FILE")
]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="Override a key, again and again.", metavar="KEY=VALUE")
]
Data = Annotated[
    str | None, typer.Option("--data", help="A name, a file, or synthetic\\[:users,items,interactions].")
]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Folder of the named sets.", metavar="FOLDER")
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder to write to.", metavar="FOLDER")]
Lengths = Annotated[str | None, typer.Option("--k", help="List lengths, such as 5,10,20.", metavar="K,K,...")]
Protocol = Annotated[str | None, typer.Option("--protocol", help="full, sampled or one-positive.")]
Device = Annotated[str | None, typer.Option("--device", help="auto, cpu or cuda.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars and notes.")]


# -- small values --------------------------------------------------------------------------------------


def silent(text: str) -> None:
    pass


def text_of(path: Path | None) -> str | None:
    return None if path is None else str(path)


def short_name(source: str) -> str:
    """A name for a folder: the name of the data without path, size and endings."""
    return Path(source.partition(":")[0]).name.partition(".")[0] or "data"


def words_of(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def list_of(text: str | None) -> list[int] | None:
    if text is None:
        return None
    words = words_of(text)
    if not words or not all(word.isdigit() for word in words):
        raise ValueError(f"--k must be whole numbers by comma, got {text!r}. Write, say, --k 5,10,20.")
    return [int(word) for word in words]


def numbers_of(text: str | None) -> tuple[int, ...] | None:
    found = list_of(text)
    return None if found is None else tuple(found)


def column_of(name: str | None) -> str | bool | None:
    return False if name == "none" else name


def pair_of(flag: str, text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{flag} must be two numbers LOW,HIGH, got {text!r}. Write, say, 1,5.") from None
    return low, high


def named_list_of(text: str) -> tuple[str, list[str]]:
    name, _, words = text.partition("=")
    found = [word.strip() for word in words.split(",")]
    remedy = "Write, say, gender=F,M."
    if not name.strip() or not words:
        raise ValueError(f"--categories must be NAME=A,B,..., got {text!r}. {remedy}")
    if not all(found):
        raise ValueError(f"--categories must be without an empty word, got {text!r}. {remedy}")
    return name.strip(), found


def named_pair_of(text: str) -> tuple[str, tuple[float, float]]:
    name, _, pair = text.partition("=")
    found = pair_of("--attribute-range", pair)
    assert found is not None
    return name.strip(), found


def each_once(flag: str, named: Iterable[tuple[str, _T]]) -> dict[str, _T]:
    """What a flag says of each name; of one name twice, neither is silently the right one."""
    found: dict[str, _T] = {}
    for name, value in named:
        if name in found:
            raise ValueError(f"{flag} must be given once for each name, got {name!r} again. Leave one out.")
        found[name] = value
    return found
