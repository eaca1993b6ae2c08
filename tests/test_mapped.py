"""Files that are looked at where the system keeps them give the lines that reading gives."""

import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaml1.streams import chunks, mapped
from streaml1.streams.chunks import Chunks
from streaml1.streams.mapped import PAGE, Mapping, Unmapped
from streaml1.streams.source import SourceError

MOST = 2**26


def windows_to_be_had(folder):
    """Whether this system maps a file of this folder."""
    path = Path(folder) / "probe"
    path.write_bytes(b"1\n" * 2**20)
    with path.open("rb") as file:
        try:
            Mapping(file.fileno(), str(path))
        except Unmapped:
            return False
    return True


@pytest.fixture(autouse=True)
def on_a_disk(tmp_path):
    if not windows_to_be_had(tmp_path):
        pytest.skip("this system has no leases on files of this folder")


@pytest.fixture
def any_size(monkeypatch):
    monkeypatch.setattr(mapped, "LEAST", 1)


def lines_of(path, is_mapped, most=MOST, fit=None):
    """All lines, and how the file was looked at in the end."""
    found = []
    with open(path, "rb") as file:
        one = Chunks(file, str(path), most, None, True, is_mapped)
        for buffer, lo, hi, free in one:
            assert buffer[hi - 1] == 10
            assert lo >= 64 and free >= hi + 64 and len(buffer) >= free + 2 * (hi - lo)
            buffer[free:] = 7  # names go there
            found += buffer[lo:hi].tobytes().split(b"\n")[:-1]
            one.number = len(found)
            if fit is not None:
                one.fit(*fit)
            del buffer
        return found, type(one._part).__name__


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 3 * PAGE), max_size=30),
    ends=st.booleans(),
    first=st.sampled_from([1, 100, PAGE - 1, PAGE, 3 * PAGE]),
    pages=st.booleans(),
    mark=st.booleans(),
)
def test_the_lines_are_those_that_are_read(lengths, ends, first, pages, mark):
    lines = [bytes([97 + k % 26]) * n for k, n in enumerate(lengths)]
    text = b"\xef\xbb\xbf" * mark + b"\n".join(lines) + b"\n" * ends
    if pages:  # so that the last page is full
        text = text.ljust(-(-len(text) // PAGE) * PAGE, b"z")
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        for module, name in ((mapped, "LEAST"), (chunks, "LEAST")):
            patched.setattr(module, name, 1)
        patched.setattr(chunks, "FIRST", first)
        path = Path(folder) / "text"
        path.write_bytes(text)
        seen, how = lines_of(path, True, fit=(first, chunks.FEATURES))
        assert seen == lines_of(path, False)[0]
        assert how == ("_Windows" if text else "_Copies")
        assert path.read_bytes() == text


def test_a_line_may_be_as_long_as_is_allowed_and_no_longer(tmp_path, any_size, monkeypatch):
    monkeypatch.setattr(chunks, "FIRST", 16)
    path = tmp_path / "text"
    path.write_bytes(b"a\n" + b"b" * 999 + b"\nc\n")
    assert lines_of(path, True, most=1000) == ([b"a", b"b" * 999, b"c"], "_Windows")
    path.write_bytes(b"a\n" + b"b" * 1000 + b"\nc\n")
    for is_mapped in (True, False):
        with pytest.raises(SourceError, match="text:2: more than 1000 bytes in a line"):
            lines_of(path, is_mapped, most=1000)


def test_what_may_change_is_read(tmp_path, any_size):
    path = tmp_path / "text"
    path.write_bytes(b"a\nb\n")
    with path.open("ab"):
        assert lines_of(path, True) == ([b"a", b"b"], "_Copies")
    assert lines_of(path, True) == ([b"a", b"b"], "_Windows")


def test_what_is_on_no_disk_is_read(any_size):
    if not Path("/dev/shm").is_dir():
        pytest.skip("this system has no memory that looks like a disk")
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.write(b"a\n")
        file.flush()
        assert lines_of(file.name, True) == ([b"a"], "_Copies")


def test_a_path_that_names_another_file_by_now_is_not_followed(tmp_path, any_size):
    path = tmp_path / "text"
    path.write_bytes(b"a\nb\n")
    with path.open("rb") as file:
        path.rename(tmp_path / "old")
        path.write_bytes(b"another\n")
        with pytest.raises(Unmapped):
            Mapping(file.fileno(), str(path))


def test_a_page_that_cannot_be_brought_is_read(tmp_path, any_size, monkeypatch):
    monkeypatch.setattr(chunks, "FIRST", 4)
    path = tmp_path / "text"
    path.write_bytes(b"a\nb\nc\nd\n")
    calls = []

    def failing(address, file, start, stop):
        calls.append(stop)
        return len(calls) < 2 and system(address, file, start, stop)

    system = mapped._system_map()
    monkeypatch.setattr(mapped, "_system_map", lambda: failing)
    assert lines_of(path, True) == ([b"a", b"b", b"c", b"d"], "_Copies")
    assert calls == [4, 8]


def test_who_keeps_what_was_read_keeps_it_as_it_was(tmp_path, any_size, monkeypatch):
    monkeypatch.setattr(chunks, "FIRST", 4)
    monkeypatch.setattr(chunks, "LEAST", 4)
    path = tmp_path / "text"
    path.write_bytes(b"".join(b"%03d\n" % k for k in range(100)))
    with path.open("rb") as file:
        one = Chunks(file, str(path), MOST, None, True, True)
        kept = []
        for buffer, lo, hi, _ in one:
            kept.append(buffer[lo:hi])
            one.fit(4, chunks.FEATURES)
        assert type(one._part).__name__ == "_Copies"
    assert b"".join(piece.tobytes() for piece in kept) == path.read_bytes()


def test_who_wants_to_write_waits_until_what_is_looked_at_is_done_with(
    tmp_path, any_size, monkeypatch
):
    monkeypatch.setattr(chunks, "FIRST", 4)
    path = tmp_path / "text"
    path.write_bytes(b"a\nb\nc\nd\n")
    cut = threading.Event()

    def cuts():
        with path.open("r+b") as file:
            file.truncate(6)
        cut.set()

    with path.open("rb") as file:
        one = Chunks(file, str(path), MOST, None, True, True)
        found = []
        thread = threading.Thread(target=cuts)
        for buffer, lo, hi, _ in one:
            if not found:
                thread.start()
                assert not cut.wait(0.3)
            found.append(buffer[lo:hi].tobytes())
            del buffer
            if type(one._part).__name__ == "_Copies":
                assert cut.wait(10)
        thread.join(10)
    assert b"".join(found) in (b"a\nb\nc\nd\n", b"a\nb\nc\n")
    assert path.read_bytes() == b"a\nb\nc\n"


def test_a_file_that_is_cut_short_while_it_is_learnt_does_not_end_the_process(tmp_path):
    path, pair = tmp_path / "long.svm", b"1 5:1 7:0.5\n-1 6:1 8:2\n"
    path.write_bytes(pair * 2**19)
    code = f"""
        import streaml1

        model = streaml1.ElasticNetClassifier()
        streaml1.progressive(model, {str(path)!r}, limit=10)
        print("begun", flush=True)
        streaml1.progressive(model, {str(path)!r}, passes=20, bad="skip")
        print("learnt", flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "begun\n"
        while run.poll() is None:
            os.truncate(path, len(pair) * 2**17)
            path.write_bytes(pair * 2**19)
            time.sleep(0.01)
        assert run.stdout.readline() == "learnt\n"
    assert run.returncode == 0
