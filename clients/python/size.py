"""Counts the lines that hold code: no blank lines, comments and docstrings. Fails above LIMIT, and MACHINE_LIMIT."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path

SKIPPED = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(source: str) -> int:
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in SKIPPED:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            lines.difference_update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return len(lines)


def main(limit: int, machine_limit: int) -> str | None:
    package = Path(__file__).parent / "src/rlock_client"
    sizes = {path.name: code_lines(path.read_text(encoding="utf-8")) for path in sorted(package.glob("*.py"))}
    print(f"{sum(sizes.values())} lines of code, at most {limit}; the machine has {sizes['_machine.py']}")
    too_large = sum(sizes.values()) > limit or sizes["_machine.py"] > machine_limit
    return f"too large: {sizes}; limits are {limit}, and {machine_limit} for the machine" if too_large else None


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
