"""Formulas of a page, as MathML: browsers draw it without a script from another host."""

from __future__ import annotations

import re

from latex2mathml.converter import convert

# Code is matched first (fenced and indented blocks, spans): a dollar in it begins no formula.
_CODE_OR_FORMULA = re.compile(
    r"^```.*?^```[^\S\n]*$|(?<=\n\n)(?: {4}.*\n)+|(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)"
    r"|\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^\s$](?:[^$\n]*[^\s$])?)\$(?!\d)",
    re.MULTILINE | re.DOTALL,
)

# Commands that the converter does not know, though GitHub does.
_EQUIVALENTS = {r"\arg": r"\operatorname{arg}", r"\Bigl": r"\left", r"\Bigr": r"\right"}


def with_formulas(text: str) -> str:
    """Replace the formulas of a page in Markdown, `$...$` and `$$...$$`, by MathML.

    Raises
    ------
    ValueError
        If a formula has a command that the converter does not know.
    """
    return _CODE_OR_FORMULA.sub(_replacement, text)


def _replacement(match: re.Match[str]) -> str:
    block, inline = match["block"], match["inline"]
    if block is None and inline is None:
        return match[0]
    formula = " ".join((inline if block is None else block).split())
    for command, known in _EQUIVALENTS.items():
        formula = formula.replace(command, known)
    math = convert(formula, display="inline" if block is None else "block")
    if "\\" in math:
        raise ValueError(f"the formula has a command that the converter does not know: {formula}")
    # Markdown takes a line that begins with <math> for a block. A wide formula scrolls (site.css).
    math = f"<span>{math}</span>" if block is None else f'<span class="formula">{math}</span>'
    # Markdown must not read the underscores and asterisks of names in \text{...}.
    return re.sub(r"[*_]", lambda m: f"&#{ord(m[0])};", math)
