"""The data set `stdlib`: size, reproducibility, and no label leakage."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from streaml1.datasets import Stdlib, standard_library, stdlib
from streaml1.sources.source import SOURCES, SourceError

LabelledFunction = standard_library.LabelledFunction

ZEBRA = """Zebra 'zebra' # zebra " \\" zebra
zebra."""


@pytest.fixture(scope="module")
def library() -> Stdlib:
    return stdlib()


def read(root: Path, **files: str) -> list[LabelledFunction]:
    """Write modules with these names and texts; read them as if they were the standard library."""
    for name, text in files.items():
        (root / f"{name}.py").write_text(text, encoding="utf-8")
    return list(standard_library._read.__wrapped__(root))


def unigrams(text: str, root: Path) -> set[str]:
    """Return the unigrams of the only function in a text."""
    [(features, _)] = read(root, os=text)
    return {feature for feature in features if " " not in feature}


def reject(position: str, reason: str) -> None:
    raise AssertionError(f"{position}: {reason}")


# The standard library of the running Python.


def test_size_and_label_balance(library: Stdlib) -> None:
    x, y = zip(*library, strict=True)
    assert len(library) == len(x) >= 12_000
    assert len(set().union(*x)) >= 50_000
    assert 0.3 < sum(y) / len(y) < 0.5
    assert {value for row in x for value in row.values()} == {1.0}
    assert all("def" in row for row in x)


def test_blocks_keep_order_and_line_numbers(library: Stdlib) -> None:
    blocks = list(library.blocks(1000, reject))
    assert [row for block in blocks for row in zip(block.x, block.y, strict=True)] == list(library)
    assert [n for block in blocks for n in block.lines] == list(range(1, len(library) + 1))
    assert {len(block) for block in blocks[:-1]} == {1000}
    assert {(block.name, block.w) for block in blocks} == {("stdlib", None)}
    assert blocks[1].place(0) == "stdlib:1001"


def test_passes_do_not_share_dicts(library: Stdlib) -> None:
    block = next(library.blocks(1, reject))
    before = dict(block.x[0])
    block.x[0].clear()
    assert next(iter(library))[0] == before


def test_seed_sets_only_the_order(library: Stdlib) -> None:
    same_seed, other_seed = stdlib(), stdlib(seed=1)
    assert list(same_seed) == list(library)
    assert same_seed._shuffled != other_seed._shuffled
    assert sorted(same_seed._shuffled) == sorted(other_seed._shuffled)


def functions_of(tree: ast.AST) -> Iterator[standard_library.Function]:
    return (node for node in ast.walk(tree) if isinstance(node, standard_library.Function))


@pytest.mark.parametrize("module", ["json/decoder", "argparse", "typing", "contextlib"])
def test_features_do_not_reveal_docstrings(module: str, tmp_path: Path) -> None:
    tree = ast.parse((stdlib().root / f"{module}.py").read_bytes())
    undocumented = read(tmp_path, os=ast.unparse(tree))
    for function in functions_of(tree):
        if ast.get_docstring(function) is None:
            docstring = ast.Expr(ast.Constant(ZEBRA))
            # A docstring replaces the `pass` of an empty function.
            empty = isinstance(function.body[0], ast.Pass)
            function.body = [docstring, *function.body[empty:]]
    documented = read(tmp_path, os=ast.unparse(ast.fix_missing_locations(tree)))
    assert [features for features, _ in documented] == [features for features, _ in undocumented]
    assert all(label for _, label in documented)


# Small synthetic libraries.


def test_features_are_unigrams_and_bigrams(tmp_path: Path) -> None:
    code = "def _getItem(self):\n    return HTTPServer.two_words + 'a string'\n"
    [(features, label)] = read(tmp_path, os=code)
    expected = ["def", "_", "get", "item", "self", "return", "http", "server", "two", "words"]
    expected += ["a", "string"]
    bigrams = [f"{left} {right}" for left, right in zip(expected, expected[1:], strict=False)]
    assert list(features) == expected + bigrams
    assert label is False


@pytest.mark.parametrize(
    "body",
    [
        '    """Zebra."""\n    return 1\n',
        "    r'''Zebra\n    'zebra' # zebra\n    '''\n    return 1\n",
        "    'zebra' \"zebra\" \\\n    'zebra'\n    return 1\n",
        "    ('zebra'\n     'zebra')\n    return 1\n",
        "    'zebra é \u4e16'; return 1\n",
        "    # zebra 'zebra\n    'zebra'  # zebra\n    return 1  # it's a zebra\n",
        "    return 1\n    'zebra'\n",
        "    'zebra'\n    return 1\n# zebra\n",
    ],
)
def test_docstrings_bare_strings_and_comments_are_removed(body: str, tmp_path: Path) -> None:
    assert unigrams(f"'''Zebra.'''\n# zebra\ndef f():\n{body}", tmp_path) == {"def", "f", "return"}


def test_inner_docstrings_are_removed(tmp_path: Path) -> None:
    code = """
def outer():
    'zebra'
    class Inner:
        'zebra'
        def method(self):
            if self:
                'zebra'
            try:
                one
            except two:
                'zebra'; three
            else:
                'zebra'
            finally:
                'zebra'; four
            match self:
                case five:
                    'zebra'
    async def last(): 'zebra'
"""
    unigram_set = unigrams(code, tmp_path)
    assert "zebra" not in unigram_set
    assert {"inner", "method", "one", "two", "three", "four", "five", "last"} <= unigram_set


def test_function_with_only_a_docstring_equals_pass(tmp_path: Path) -> None:
    with_docstring, without = read(tmp_path, os="def f():\n 'Zebra.'\ndef f():\n pass\n")
    assert with_docstring == (without[0], True)
    assert "f pass" in without[0]


@pytest.mark.parametrize("string", ["'#kept'", '"#kept"', "'''#kept'''", "f'#kept'", "'\\'#kept'"])
def test_hash_inside_a_string_is_not_a_comment(string: str, tmp_path: Path) -> None:
    assert unigrams(f"def f():\n    return {string}\n", tmp_path) >= {"kept"}


def test_decorators_are_kept_and_module_code_is_skipped(tmp_path: Path) -> None:
    code = "zebra = 1\nclass Zebra:\n    @property\n    def f(self): return 1\n"
    assert unigrams(code, tmp_path) == {"property", "def", "f", "self", "return"}


def test_inner_functions_belong_to_the_outer_function(tmp_path: Path) -> None:
    [(features, label)] = read(tmp_path, os="def f():\n  def g():\n    'Doc.'\n  return g\n")
    assert label is False
    assert {"f def", "def g", "g pass", "pass return"} <= set(features)


@pytest.mark.parametrize(
    "broken", [b"def broken(:\n", b"# coding: nonesuch\n", b"def f(): '\xff'\n", b"def f(): 0\0\n"]
)
def test_invalid_source_files_are_skipped(broken: bytes, tmp_path: Path) -> None:
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "decoder.py").write_bytes(broken)
    (tmp_path / "abc.py").mkdir()
    assert len(read(tmp_path, os="def f(): return 1\n")) == 1


def test_encoding_declarations_are_respected(tmp_path: Path) -> None:
    code = "# coding: latin-1\ndef f(x='é'): 'é'; return caf\n".encode("latin-1")
    (tmp_path / "os.py").write_bytes(code)
    [(features, _)] = read(tmp_path)
    assert features[:5] == ("def", "f", "x", "return", "caf")


def test_only_library_modules_are_read(tmp_path: Path) -> None:
    for folder in ("json/test", "site-packages/json", "numpy", "tkinter", "unittest"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "os.py").write_text("def f(): pass\n")
    functions = read(tmp_path, re="def g(): pass\n", streaml1="def f(): pass\n")
    assert [features[1] for features, _ in functions] == ["g", "f"]  # re.py, unittest/os.py


def test_order_is_by_file_name_then_line(tmp_path: Path) -> None:
    modules = ["abc", "bisect", "cmd", "dis", "os"]
    random.Random(0).shuffle(modules)
    functions = read(
        tmp_path, **{name: f"def {name}(): pass\ndef last(): pass\n" for name in modules}
    )
    expected = [function for name in sorted(modules) for function in (name, "last")]
    assert [features[1] for features, _ in functions] == expected


def test_root_may_be_any_folder_but_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The cache holds the real library, which takes seconds to read.
    monkeypatch.setattr(standard_library, "_read", standard_library._read.__wrapped__)
    with pytest.raises(SourceError, match="holds no source files of Python's standard library"):
        len(Stdlib(root=tmp_path))
    (tmp_path / "os.py").write_text("def f(): pass\n")
    assert len(Stdlib(root=tmp_path)) == 1


def test_stdlib_is_a_source() -> None:
    source = SOURCES["stdlib"]("stdlib", 7)
    assert source.name == "stdlib"
    assert repr(source) == "stdlib(seed=7)"
    with pytest.raises(SourceError, match="write only stdlib"):
        SOURCES["stdlib"]("stdlib:os", 0)
