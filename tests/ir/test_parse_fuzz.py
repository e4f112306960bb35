"""Whatever the text, parse answers with a program or with ``ProgramError``."""

from hypothesis import given, settings
from hypothesis import strategies as st
from ir_samples import TEXTS

from tunesmith.ir import (
    ProgramError,
    canonical,
    format_program,
    parse,
    program_from_json,
    program_to_json,
    verify_program,
    workload_hash,
)

_WORDS = """
( ) [ ] , : = + - * / // % @ ** < <= == := and not if else for in lambda def return import await yield
sum max min mean where pad softmax reshape concat gelu i j k x y a b w 0 1 -1 1e999 1j None True inf nan
.T .foo axis= r=3 *x **x ... () [] {} [i] [i,j] f32 f64 const f16 # ~ ` $ ? \\ \'\'\'
"""
_ODD = ("\n", "\n    ", "\t", "\x00", "\x0c", "\r", "\ud800", "é", "0x" + "f" * 5000, "9" * 5000, "(" * 300)
_TOKENS = st.sampled_from([*_WORDS.split(), *_ODD])


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = start + draw(st.sampled_from([0, 0, 1, 1, 3, 12]))
        text = text[:start] + draw(_TOKENS | st.just("")) + text[end:]
    return text


@settings(max_examples=300, deadline=None)
@given(mutated())
def test_mutated_programs(text: str) -> None:
    try:
        program = parse(text)
    except ProgramError as e:
        str(e).encode()
        return
    verify_program(program)
    assert workload_hash(parse(format_program(program))) == workload_hash(program)
    verify_program(canonical(program))
    program_from_json(program_to_json(program))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    for candidate in (text, f"def f(x: f32[4]):\n    return {text}\n"):
        try:
            verify_program(parse(candidate))
        except ProgramError as e:
            str(e).encode()


@settings(max_examples=200, deadline=None)
@given(st.lists(_TOKENS, max_size=12).map(" ".join))
def test_any_tokens(expression: str) -> None:
    try:
        verify_program(parse(f"def f(x: f32[4, 4], y: f64):\n    return {expression}\n"))
    except ProgramError as e:
        str(e).encode()
