"""Types of files by their first bytes: compressed text, and files that are not text."""

from __future__ import annotations

import re
from typing import NamedTuple

from streaml1.core.named_options import by_caller, named_options

__all__ = [
    "CODEC_OF_SUFFIX",
    "HEAD_SIZE",
    "MARK_SIZE",
    "ForeignType",
    "codec_of",
    "foreign_type",
    "format_hint",
    "format_of_line",
    "likely_format",
    "may_be_compressed",
    "may_be_utf16",
    "split_suffix",
    "suffix_of",
    "utf16_of",
]

CODEC_OF_SUFFIX = {
    ".gz": "gzip",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".bz2": "bzip2",
    ".xz": "xz",
}
"""Program that compresses files, by the suffix of their names."""

_BZIP2_BLOCKS = (b"\x31\x41\x59\x26\x53\x59", b"\x17\x72\x45\x38\x50\x90")
"""What follows ``BZh`` and a digit: the magic number of a block, or of the end of the stream."""

_MAGIC = [
    ("gzip", b"\x1f\x8b"),
    ("zstd", b"\x28\xb5\x2f\xfd"),
    # Frames that are skipped: parallel compressors begin with one.
    *(("zstd", bytes([0x50 + k]) + b"\x2a\x4d\x18") for k in range(16)),
    ("xz", b"\xfd7zXZ\x00"),
    *(("bzip2", b"BZh%d%b" % (level, block)) for level in range(1, 10) for block in _BZIP2_BLOCKS),
]

_UTF_16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
"""Byte order marks."""

_UTF_32 = b"\xff\xfe\x00\x00"

MARK_SIZE = len(_UTF_32)
"""Bytes that suffice to recognize a byte order mark."""

HEAD_SIZE = 512
"""Bytes that show the type of a file; that of a tar archive is near the end of them."""


_LINES = [
    ("jsonl", re.compile(rb'\s*\{\s*"')),
    ("svmlight", re.compile(rb"[-+0-9.eE]+( +[0-9]+:[-+0-9.eE]+)+\s*(#|$)")),
    ("vw", re.compile(rb"([-+0-9.eE]+( [0-9.]+)*)?( ?'[^ |]*)? ?\|[^ |]*( |$)")),
]
"""What a line of each format begins with."""

_OBJECTS = re.compile(rb"\s*\[\s*\{\s*\"")
"""The beginning of an array of objects, which may have lines of their own."""

_NAMES = {
    "jsonl": "JSON lines", "svmlight": "svmlight", "vw": "Vowpal Wabbit text", "csv": "CSV",
    "tsv": "TSV",
}  # fmt: skip

_DELIMITERS = {
    b",": {"format": "csv"},
    b"\t": {"format": "tsv"},
    b";": {"format": "csv", "delimiter": ";"},
    b"|": {"format": "csv", "delimiter": "|"},
}


class ForeignType(NamedTuple):
    """A type of files that have none of the formats here."""

    what: str
    """The type with its article."""
    remedy: str
    magic: bytes = b""
    offset: int = 0
    expected: str = "text"
    """What the file should be instead."""
    python: str = ""
    """The remedy in a program, if another one."""

    @property
    def advice(self) -> str:
        """The remedy for the caller."""
        return by_caller(self.remedy, self.python or self.remedy)

    def sentence(self, name: str, codec: str | None) -> str:
        """Return the error about a file of this type, compressed by a program or not."""
        within = "" if codec is None else f" compressed by {codec}"
        return f"{name} is {self.what}{within}, not {self.expected}; {self.advice}"


_EXTRACT = "extract the files in it first"
_UNZIP = f"{_EXTRACT}, or save the workbook as CSV"
_EXPORT = "export it as CSV or JSON lines first"
_R = "export it as CSV, as with write.csv(x, file, row.names = FALSE)"
_COLUMNS = "read it as a data frame in Python, or export it as CSV"
_ARROW = "write all of it to a file whose name ends in .parquet or .arrow"
_DECODE = "convert it to UTF-8 first, as with iconv -f {} -t UTF-8"
_AVRO = "read it with --format avro", 'read it with format="avro"'
_MODEL = "give it to --load, and name a file of examples", "read it by streaml1.load"
_ROWS = "export the rows as CSV, as with psql --csv or mysql --batch"

_FOREIGN = [
    ForeignType("a zip archive (or an Excel workbook)", _UNZIP, b"PK\x03\x04"),
    ForeignType("an empty zip archive", _EXTRACT, b"PK\x05\x06"),
    ForeignType("a 7z archive", _EXTRACT, b"7z\xbc\xaf\x27\x1c"),
    ForeignType("a RAR archive", _EXTRACT, b"Rar!\x1a\x07"),
    ForeignType("a tar archive", _EXTRACT, b"ustar", 257),
    ForeignType("compressed by lz4", "decompress it first, as with lz4 -d", b"\x04\x22\x4d\x18"),
    ForeignType("compressed by lz4", "decompress it first, as with lz4 -d", b"\x02\x21\x4c\x18"),
    ForeignType("compressed by snappy", "decompress it first", b"\xff\x06\x00\x00sNaPpY"),
    ForeignType("compressed by lzma", "decompress it first, as with xz -d", b"\x5d\x00\x00"),
    ForeignType("compressed by lzip", "decompress it first, as with lzip -d", b"LZIP\x01"),
    ForeignType("compressed by lzop", "decompress it first, as with lzop -d", b"\x89LZO\x00"),
    ForeignType("compressed by compress", "decompress it first, as with gzip -d", b"\x1f\x9d"),
    # The byte after PAR1 begins the header of a page or the footer, both in Thrift.
    ForeignType("a Parquet file", _ARROW, b"PAR1\x15"),
    ForeignType("an encrypted Parquet file", _COLUMNS, b"PARE"),
    ForeignType("an Arrow file", _ARROW, b"ARROW1\x00"),
    ForeignType("an Arrow stream", _COLUMNS, b"\xff\xff\xff\xff"),
    ForeignType("an Avro file", _AVRO[0], b"Obj\x01", python=_AVRO[1]),
    ForeignType("an HDF5 file", _COLUMNS, b"\x89HDF\r\n\x1a\n"),
    ForeignType("a Hadoop sequence file", _EXPORT, b"SEQ\x06"),
    ForeignType("an SQLite database", _EXPORT, b"SQLite format 3\x00"),
    ForeignType("a DuckDB database", "read it as duckdb:FILE?table=NAME", b"DUCK", 8),
    ForeignType("an Excel workbook", _EXPORT, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
    *(
        ForeignType(
            "a model of streaml1", _MODEL[0], b"streaml1" + bytes([version, 0]), python=_MODEL[1]
        )
        for version in range(1, 9)
    ),
    ForeignType("a checkpoint of streaml1", _MODEL[0], b"streamcp", python=_MODEL[1]),
    ForeignType("a PDF document", "export its tables as CSV", b"%PDF-"),
    ForeignType("an RTF document", "save it as plain text", b"{\\rtf"),
    *(ForeignType("a file of R", _R, magic) for magic in (b"RDX2\n", b"RDX3\n", b"X\n\x00\x00")),
    *(ForeignType("a file of SPSS", _COLUMNS, magic) for magic in (b"$FL2@(#)", b"$FL3@(#)")),
    ForeignType("a file of SAS", _COLUMNS, b"HEADER RECORD*******LIBRARY"),
    ForeignType("a NumPy file", "load it in Python", b"\x93NUMPY"),
    *(ForeignType("a Python pickle", "load it in Python", bytes([0x80, k])) for k in range(2, 6)),
    ForeignType("encoded in UTF-32", _DECODE.format("UTF-32"), _UTF_32),
]


_PAGE = ForeignType(
    "an HTML page", "download the file itself, not a page about it", b"<!doctype html"
)

_SQL = (b"insert into ", b"create table ", b"-- mysql dump", b"--\n-- postgresql", b"/*!40")

_FOREIGN_TEXT = [
    _PAGE,
    _PAGE._replace(magic=b"<html"),
    ForeignType("an HTML table", "save it as CSV, as with pandas.read_html", b"<table"),
    ForeignType("an XML file", _EXPORT, b"<?xml"),
    ForeignType("a message of a server about an error", "download the file again", b"<error>"),
    ForeignType("a file of Stata", _COLUMNS, b"<stata_dta>"),
    ForeignType(
        "a pointer of Git LFS", "fetch the file, as with git lfs pull",
        b"version https://git-lfs.github.com/spec/",
    ),
    *(ForeignType("a dump in SQL", _ROWS, magic, expected="a table") for magic in _SQL),
    ForeignType(
        "a file of Weka (ARFF)", "remove the lines up to @data and name the columns by --columns",
        b"@relation", expected="CSV",
        python="remove the lines up to @data and name the columns by column_names=",
    ),
    ForeignType(
        "in the format of fastText",
        r"convert it to Vowpal Wabbit's, as with sed -E 's/:/_/g; s/^__label__([^ ]+)/\1 |/'",
        b"__label__", expected="CSV",
    ),
]  # fmt: skip
"""Types of text that no format here has, in lower case."""

_BINARY = ForeignType("a binary file", _EXPORT)

_ORC = ForeignType(
    "an ORC file", "convert it to Parquet first, as with pyarrow.orc.read_table", b"ORC"
)
"""Text may begin with the same letters."""

_WITH_ZEROS = ForeignType(
    "text with zero bytes", r"remove them first, as with tr -d '\000'", expected="plain text"
)

MAX_ZEROS = 0.25
"""Share of zero bytes up to which a file may be text that was damaged."""

_CONTROLS = re.compile(rb"[\x01-\x08\x0b\x0c\x0e-\x1f]")

MAX_CHARACTER = 3
"""Bytes of an incomplete character at the end of the first bytes."""

WIDE = 16
"""Bytes in which text encoded in UTF-16 without a mark is recognized."""


def utf16_of(head: bytes) -> str | None:
    """Return the encoding of text that begins with a byte order mark of UTF-16; None of other text.

    Examples
    --------
    >>> from streaml1.sources.readers.signatures import utf16_of
    >>> utf16_of("a".encode("utf-16")), utf16_of(b"a")
    ('utf-16-le', None)
    """
    return None if head.startswith(_UTF_32) else _UTF_16.get(head[:2])


def may_be_utf16(head: bytes) -> bool:
    """Return whether some bytes and more of them may begin with a byte order mark of UTF-16."""
    return any(mark.startswith(head[:2]) for mark in _UTF_16)


def codec_of(head: bytes) -> str | None:
    """Return the program that compressed a file, given its first bytes; None for other files.

    Examples
    --------
    >>> from streaml1.sources.readers.signatures import codec_of
    >>> codec_of(bytes.fromhex("28b52ffd 2400")), codec_of(b"1 3:0.5")
    ('zstd', None)
    """
    return next((codec for codec, magic in _MAGIC if head.startswith(magic)), None)


def may_be_compressed(head: bytes) -> str | None:
    """Return a program whose files may begin with some bytes and more of them, or None."""
    return next((codec for codec, magic in _MAGIC if magic.startswith(head)), None)


def foreign_type(head: bytes) -> ForeignType | None:
    """Return the type of a file that has none of the formats here; None if it may have one.

    Examples
    --------
    >>> from streaml1.sources.readers.signatures import foreign_type
    >>> foreign_type(b"7z" + bytes.fromhex("bcaf271c 0004")).what
    'a 7z archive'
    """
    for foreign in _FOREIGN:
        if head.startswith(foreign.magic, foreign.offset):
            return foreign
    text = head.lstrip().lower()
    for foreign in _FOREIGN_TEXT:
        if text.startswith(foreign.magic):
            return foreign
    # Without a mark, every other byte of ASCII text in UTF-16 is zero. iconv would guess the order.
    even, odd = head[:WIDE:2], head[1:WIDE:2]
    for order, first, second in (("UTF-16LE", even, odd), ("UTF-16BE", odd, even)):
        if len(head) >= WIDE and all(first) and not any(second):
            return ForeignType("encoded in UTF-16", _DECODE.format(order))
    if utf16_of(head) is not None or not _is_binary(head):
        return None
    if _is_text_with_zeros(head):
        return _WITH_ZEROS
    return _ORC if head.startswith(_ORC.magic) else _BINARY


def _is_binary(head: bytes) -> bool:
    """Return whether bytes are not text: one is zero, and they are not UTF-8 or have no line."""
    if b"\0" not in head:
        return False
    if b"\0" in head.partition(b"\n")[0]:
        return True
    try:
        head[:-MAX_CHARACTER].decode()
    except UnicodeDecodeError:
        return True
    return False


def _is_text_with_zeros(head: bytes) -> bool:
    """Return whether bytes would be text without some zeros."""
    text = head.replace(b"\0", b"")
    if len(head) - len(text) > MAX_ZEROS * len(head) or _CONTROLS.search(text):
        return False
    try:
        text[:-MAX_CHARACTER].decode()
    except UnicodeDecodeError:
        return False
    return True


def likely_format(head: bytes) -> dict[str, str]:
    """Return the options that the first line of a text looks like; nothing if it is unclear.

    Names such as clicks.txt say nothing about the format.
    """
    if (encoding := utf16_of(head)) is not None:
        head = head[2:].decode(encoding, "replace").encode()
    if _OBJECTS.match(head):
        return {"format": "jsonl"}
    return format_of_line(head.lstrip().partition(b"\n")[0])


def format_of_line(line: bytes) -> dict[str, str]:
    """Return the options of the format that a line looks like.

    Examples
    --------
    >>> from streaml1.sources.readers.signatures import format_of_line
    >>> format_of_line(b"user;age;label"), format_of_line(b"1 3:0.5 7:1")
    ({'format': 'csv', 'delimiter': ';'}, {'format': 'svmlight'})
    """
    for kind, pattern in _LINES:
        if pattern.match(line):
            return {"format": kind}
    delimiter = max(_DELIMITERS, key=lambda delimiter: line.count(delimiter))
    return _DELIMITERS[delimiter] if delimiter in line else {}


def format_hint(line: str, format: str) -> str:
    """Return a clause about the format that an invalid line seems to have; "" if it is unclear.

    Examples
    --------
    >>> from streaml1.sources.readers.signatures import format_hint
    >>> format_hint('{"a": 1}', "svmlight"), format_hint("1 3:0.5", "svmlight")
    ('; if this is JSON lines, use format="jsonl"', '')
    """
    found = format_of_line(line.lstrip().encode(errors="replace"))
    kind = found.get("format", format)
    if kind == format:
        return ""
    return f"; if this is {_NAMES[kind]}, use {named_options(found)}"


def split_suffix(name: str) -> tuple[str, str | None]:
    """Return a lower-case name without the suffix of a compressed file, and the program.

    Examples
    --------
    >>> from streaml1.sources.readers.signatures import split_suffix
    >>> split_suffix("Clicks.svm.ZST"), split_suffix("clicks.svm")
    (('clicks.svm', 'zstd'), ('clicks.svm', None))
    """
    full = name.lower()
    for suffix, codec in CODEC_OF_SUFFIX.items():
        if full.endswith(suffix):
            return full.removesuffix(suffix), codec
    return full, None


def suffix_of(path: str) -> str:
    """Return the suffix of a name, with that of a compressed file.

    Examples
    --------
    >>> from streaml1.sources.readers.signatures import suffix_of
    >>> suffix_of("d/part-0.csv.gz"), suffix_of("d.x/part-0")
    ('.csv.gz', '')
    """
    name = path.rpartition("/")[2]
    plain, _ = split_suffix(name)
    return name[plain.rfind(".") :] if "." in plain else name[len(plain) :]
