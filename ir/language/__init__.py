"""The expression language: a Python subset, parsed with ``ast`` and never executed.

    program    = def NAME(PARAM…): STATEMENT… return EXPR…
    PARAM      = NAME: TYPE | NAME: const[TYPE]          TYPE = f32[N, …] | f64[N, …] | f32 | f64
    STATEMENT  = NAME[AXIS…] = INDEXED                   index form; AXIS = NAME | NAME:EXTENT
               | NAME = ARRAY                            array form, NumPy broadcasting
    INDEXED    = TENSOR[INDEX…] | SCALAR | NUMBER | arithmetic | f(INDEXED…)
               | where(INDEXED < INDEXED, INDEXED, INDEXED) | where(INDEX < INDEX and …, INDEXED, INDEXED)
               | reducer(INDEXED, AXES)                  AXES = NAME | (NAME, …) | NAME=EXTENT keywords
    INDEX      = affine in the axes
    ARRAY      = TENSOR | NUMBER | arithmetic | ARRAY @ ARRAY | f(ARRAY…) | reducer(ARRAY, axis=, keepdims=)

An expression that subscripts a tensor is in index form; the axes of a returned one are its free index
names in order of appearance. Extents come from the accesses unless they are given.
"""

from tunesmith.ir.language.function import program_from_function
from tunesmith.ir.language.parse import parse

__all__ = ["parse", "program_from_function"]
