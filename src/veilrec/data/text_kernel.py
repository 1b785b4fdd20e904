"""The compiled walk over separated text, byte by byte. Imports numba: import it inside functions."""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

WIDEST = 65_536  # columns
RECORDS, WIDTH, BLANK, BREAKS, LF, CRLF, FAULT, LINE, GOT, SIZE, FIRST_QUOTED, FOUND, OFFSET = range(13)
UNCLOSED, AFTER_QUOTE, BAD_ESCAPE, BAD_WIDTH, TOO_WIDE = range(1, 6)
_TAB, _NEW, _CR, _SPACE, _QUOTE, _ZERO, _A, _L, _N, _U, _BACK = 9, 10, 13, 32, 34, 48, 65, 76, 78, 85, 92


@njit(cache=True, nogil=True)
def _at(raw: Any, i: int, sep: Any) -> bool:
    """Whether the separator stands at ``i``."""
    if i + len(sep) > len(raw):
        return False
    for k in range(len(sep)):  # noqa: SIM110
        if raw[i + k] != sep[k]:
            return False
    return True


@njit(cache=True, nogil=True)
def _ends(raw: Any, i: int) -> bool:
    """Whether a line ends at ``i``: LF, CRLF or the end of the text."""
    if i >= len(raw) or raw[i] == _NEW:
        return True
    return bool(raw[i] == _CR and i + 1 < len(raw) and raw[i + 1] == _NEW)


@njit(cache=True, nogil=True)
def _null_word(raw: Any, i: int, end: int) -> bool:
    if end - i == 2:
        return bool(raw[i] == _N and raw[i + 1] == _A)
    return end - i == 4 and raw[i] == _N and raw[i + 1] == _U and raw[i + 2] == _L and raw[i + 3] == _L


@njit(cache=True, nogil=True)
def walk(
    raw: NDArray[np.uint8],
    sep: NDArray[np.uint8],
    quotes: bool,
    doubled: bool,
    escape: int,
    words: bool,
    column: int,
    record: int,
    end: int,
    out: NDArray[np.uint8],
    quoted: NDArray[np.int64],
    bare: NDArray[np.int64],
    first: NDArray[np.int64],
    facts: NDArray[np.int64],
) -> None:
    """Cut ``raw`` into records; ``facts`` holds what was counted, or the first fault and its line.

    ``escape`` is 0 (a backslash is text), 1 (it escapes quotes, backslashes, separators and line ends, and
    ``\\N`` is missing) or 2 (it escapes quotes only). The values of ``column`` (of one record, with
    ``record`` from 0; of all, with -1) go to ``out``, each followed by the byte ``end``. ``quoted`` and
    ``bare`` count the values of each column with and without quotes; ``first`` says where the first record
    has quotes. A line with nothing but white space is blank; between records, a tab that separates is none.
    """
    n, line, i, size = len(raw), 1, 0, 0
    records, width, blank, breaks, lf, crlf = 0, 0, 0, 0, 0, 0
    body, second = 0, 0
    spaces = len(sep) == 1 and sep[0] == _SPACE
    tabs = sep[0] == _TAB
    facts[:] = 0
    facts[FOUND] = -1
    while i < n:
        j = i
        white = records == 0 or not tabs
        while j < n and (raw[j] == _SPACE or raw[j] == _CR or (raw[j] == _TAB and white)):
            j += 1
        if j >= n or raw[j] == _NEW:
            blank += 1
            line += 1
            i = j + 1
            continue
        if spaces:
            while raw[i] == _SPACE:
                i += 1
        began, cells, fault = line, 0, 0
        while True:  # one field after the other
            if cells >= len(quoted):
                fault = TOO_WIDE
                break
            wanted = cells == column and (record < 0 or record == records)
            field = size
            in_quotes = quotes and i < n and raw[i] == _QUOTE
            start = i
            length = 0
            missing = False
            if in_quotes:
                i += 1
                while True:
                    if i >= n:
                        fault = UNCLOSED
                        break
                    byte = raw[i]
                    if byte == _QUOTE:
                        if doubled and i + 1 < n and raw[i + 1] == _QUOTE:
                            i += 1
                        else:
                            i += 1
                            break
                    elif byte == _BACK and escape > 0 and i + 1 < n:
                        after = raw[i + 1]
                        if after == _QUOTE:
                            byte = after
                            i += 1
                        elif escape == 1:
                            i += 1
                            byte = after
                            if after == _ZERO:
                                byte = np.uint8(0)
                            elif after != _BACK and after != sep[0] and after != _NEW and after != _CR:
                                fault = BAD_ESCAPE
                                break
                    if byte == _NEW:
                        line += 1
                        breaks += 1
                    if wanted:
                        out[size] = byte
                        size += 1
                    length += 1
                    i += 1
                if fault == 0 and not _ends(raw, i) and not _at(raw, i, sep):
                    fault = AFTER_QUOTE
            else:
                escapes = 0
                while i < n and not _at(raw, i, sep) and not _ends(raw, i):
                    byte = raw[i]
                    if byte == _BACK and escape == 1:
                        escapes += 1
                        if i + 1 >= n:
                            fault = BAD_ESCAPE
                            break
                        i += 1
                        byte = raw[i]
                        if byte == _N and i - 1 == start and (_ends(raw, i + 1) or _at(raw, i + 1, sep)):
                            missing = True
                            i += 1
                            break
                        if byte == _NEW:
                            line += 1
                            breaks += 1
                        elif byte == _ZERO:
                            byte = np.uint8(0)
                        elif byte != _BACK and byte != sep[0] and byte != _QUOTE and byte != _CR:
                            fault = BAD_ESCAPE
                            break
                    if wanted:
                        out[size] = byte
                        size += 1
                    length += 1
                    i += 1
                if words and escapes == 0 and _null_word(raw, start, i):
                    missing = True
                    size = field
            if fault != 0:
                break
            if records == 0:
                first[cells] = 1 if in_quotes else 0
            elif length > 0 and not missing:
                if in_quotes:
                    quoted[cells] += 1
                else:
                    bare[cells] += 1
            if in_quotes and length > 0 and facts[FIRST_QUOTED] == 0:
                facts[FIRST_QUOTED] = began
            if wanted:
                out[size] = end
                size += 1
            cells += 1
            if _at(raw, i, sep):
                i += len(sep)
                if not spaces:
                    continue
                while i < n and raw[i] == _SPACE:
                    i += 1
                if not _ends(raw, i):
                    continue
            break
        if records == 1:  # the second record sets the width: the first may lack a name
            body, second = cells, began
        elif fault == 0 and records > 1 and cells != body:
            fault = BAD_WIDTH
        if fault != 0:
            facts[FAULT], facts[LINE], facts[GOT] = fault, began, cells
            if fault == BAD_ESCAPE:
                facts[LINE] = line
            break
        ended = i < n
        returned = ended and raw[i] == _CR
        i += 2 if returned else 1
        line += 1
        if returned:
            crlf += 1
        elif ended:
            lf += 1
        if records == 0:
            width = cells
        if records == record:
            facts[FOUND] = began
        records += 1
        if record >= 0 and records > record:
            break
    if body != width and records > 1 and facts[FAULT] in (0, BAD_WIDTH):
        facts[OFFSET] = facts[FAULT] == 0 and body == width + 1
        facts[FAULT], facts[LINE], facts[GOT] = BAD_WIDTH, second, body
    facts[RECORDS], facts[WIDTH], facts[BLANK], facts[BREAKS] = records, width, blank, breaks
    facts[LF], facts[CRLF], facts[SIZE] = lf, crlf, size
