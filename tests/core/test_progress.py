from __future__ import annotations

from veilrec.core import bar, track


def test_silent_where_there_is_no_terminal(capsys) -> None:
    with bar("work", 3) as ticker:
        ticker.advance(1, note="x")
    assert list(track(iter("ab"), "letters")) == ["a", "b"]
    assert capsys.readouterr() == ("", "")


def test_shown_on_a_terminal(monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with bar("work", 2) as ticker:
        ticker.advance(2, note="loss 1")
    assert capsys.readouterr().out == "", "standard output belongs to results"
