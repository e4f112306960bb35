"""Where kernels' buffers lie."""

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunesmith.codegen.binary import BufferSpec
from tunesmith.ir.dtypes import DType
from tunesmith.ir.loopnest import Role
from tunesmith.measure.arena import PAGE, GuardedArena, GuardedBuffer, TimingArena, pointer_array

SIZES = st.integers(1, 20000)
ROLES = st.sampled_from([r for r in Role if r is not Role.LOCAL])


def spec(n: int, role: Role = Role.OUTPUT, dtype: DType = DType.F32) -> BufferSpec:
    return BufferSpec(f"b{n}", role, dtype, (n,))


@given(SIZES, ROLES, st.sampled_from(DType))
def test_guarded_buffers_are_aligned_and_end_at_the_guard(n: int, role: Role, dtype: DType) -> None:
    s = spec(n, role, dtype)
    buffer = GuardedArena().take(s)
    slack = -(buffer.address + s.size_bytes) % PAGE
    if role in (Role.PACKED, Role.TEMP):
        assert buffer.address % 64 == 0 and slack < 64
    else:
        assert buffer.address % dtype.size_bytes == 0 and slack == 0
    assert s.size_bytes % 64 or buffer.address % 64 == 0
    assert np.isnan(buffer.view(s)).all()


@pytest.mark.parametrize("offset", [-1, 100])
def test_a_write_beside_the_buffer_shows(offset: int) -> None:
    buffer = GuardedBuffer(100, 64)
    buffer.view(spec(25))[...] = 1
    assert buffer.intact()
    ctypes.memset(buffer.address + offset, 0, 1)
    assert not buffer.intact()


def test_buffers_are_used_again() -> None:
    arena = GuardedArena()
    first = arena.take(spec(1000))
    first.view(spec(1000))[...] = 1
    other = arena.take(spec(1000))
    assert other is not first
    arena.release()
    again = {id(arena.take(spec(1000))) for _ in range(2)}
    assert again == {id(first), id(other)}
    assert np.isnan(first.view(spec(1000))).all()


@given(st.lists(SIZES, max_size=6), st.integers(0, 5))
def test_timed_buffers_do_not_overlap(sizes: list[int], first: int) -> None:
    specs = [spec(n) for n in sizes]
    arena = TimingArena(specs, first)
    assert all(a % 64 == 0 for a in arena.addresses)
    for n, view in enumerate(arena.views):
        view[...] = n
    assert all((view == n).all() for n, view in enumerate(arena.views))
    assert [v.ctypes.data for v in arena.views] == arena.addresses


def test_large_timed_buffers_start_at_different_lines() -> None:
    arena = TimingArena([spec(PAGE)] * 8)
    assert len({a % PAGE for a in arena.addresses}) == 8


def test_pointer_array() -> None:
    assert list(pointer_array([1, 2])) == [1, 2]
