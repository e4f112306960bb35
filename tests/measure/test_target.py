"""What this machine is: facts of the system, peaks, and the file that keeps them."""

import json
import os
from pathlib import Path

import pytest

from tunesmith.ir.errors import TunesmithError
from tunesmith.measure import detect_target, reserved_cores, split_cores
from tunesmith.measure import hardware as hw
from tunesmith.measure import target as module
from tunesmith.measure.hardware import allowed_cores, hardware, memory_available, memory_total
from tunesmith.measure.target import vector_unit
from tunesmith.records import Peaks, Target


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def target(folder: Path) -> Target:
    return detect_target(cache_path=folder)


def test_this_machine(target: Target) -> None:
    assert target.model and target.triple and target.cpu
    assert target.features == ",".join(sorted(target.features.split(",")))
    assert "-" not in {f[0] for f in target.features.split(",") if f}
    assert 4096 <= target.l1d_bytes <= target.l2_bytes
    assert target.vector_bytes in (16, 32, 64) and target.vector_registers in (16, 32)
    assert target.cores >= 1 and target.threads == 1


def test_peaks_are_measured(target: Target) -> None:
    peaks = target.peaks
    assert min(peaks.f32_gflops, peaks.f64_gflops) > 0.1
    assert min(peaks.l1_gbs, peaks.l2_gbs, peaks.l3_gbs, peaks.dram_gbs) > 0.1


def test_peaks_are_measured_once(target: Target, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> Target:
        raise AssertionError("measured again")

    monkeypatch.setattr(module, "_measure", never)
    assert detect_target(cache_path=folder) == target
    with pytest.raises(AssertionError, match="measured again"):
        detect_target(cache_path=folder, fresh=True)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"target": {}}', None])
def test_a_broken_file_is_replaced(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    monkeypatch.setattr(module, "_measure", lambda _: target)
    detect_target(cache_path=tmp_path)
    (file,) = tmp_path.iterdir()
    data = json.loads(file.read_text())
    file.write_text(json.dumps({**data, "fingerprint": "other"}) if content is None else content)
    assert detect_target(cache_path=tmp_path) == target
    assert json.loads(file.read_text()) == data
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_that_cannot_be_written_does_not_matter(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_measure", lambda _: target)
    (tmp_path / "file").touch()
    assert detect_target(cache_path=tmp_path / "file" / "folder") == target


def test_threads_are_part_of_the_target(target: Target, folder: Path) -> None:
    with pytest.raises(TunesmithError, match="may use"):
        detect_target(threads=target.cores + 1, cache_path=folder)
    with pytest.raises(TunesmithError):
        detect_target(threads=0, cache_path=folder)
    assert detect_target(threads=target.cores, cache_path=folder).threads == target.cores


@pytest.mark.parametrize(
    ("arch", "features", "unit"),
    [
        ("x86_64", "+avx,+avx2,+avx512f", (64, 32)),
        ("x86_64", "+avx,+avx2", (32, 16)),
        ("x86_64", "+sse4.2", (16, 16)),
        ("aarch64", "+neon", (16, 32)),
        ("riscv64", "+m,+v", (16, 32)),
    ],
)
def test_vector_units(arch: str, features: str, unit: tuple[int, int]) -> None:
    assert vector_unit(arch, features) == unit


def test_cores_are_split() -> None:
    cores = allowed_cores()
    for threads in range(1, len(cores) + 1):
        split = split_cores(threads)
        assert len(split.run) == threads and split.build
        assert threads == len(cores) or not set(split.run) & set(split.build)


@pytest.mark.skipif(len(allowed_cores()) < 2, reason="needs two cores")
def test_cores_are_reserved_for_a_while() -> None:
    before = os.sched_getaffinity(0)
    with reserved_cores(1):
        assert os.sched_getaffinity(0) == set(split_cores(1).build) < before
    assert os.sched_getaffinity(0) == before


def test_memory() -> None:
    assert 0 < memory_available() <= memory_total()


def test_lists_and_sizes_of_the_kernel() -> None:
    assert hw._parse_list("0-2,7") == (0, 1, 2, 7)
    assert hw._parse_list("") == ()
    assert [hw._parse_size(t) for t in ("32K", "1M", "64", "")] == [32 << 10, 1 << 20, 64, 0]


def test_without_sysfs_the_caches_are_guessed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hw, "_CPU", tmp_path)
    assert hw._caches(0)["l1d_bytes"] == 32 << 10


def test_caches_of_a_machine_without_l3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for index, (level, kind, size) in enumerate(
        [("1", "Data", "64K"), ("1", "Instruction", "64K"), ("2", "Unified", "1M")]
    ):
        folder = tmp_path / f"cpu0/cache/index{index}"
        folder.mkdir(parents=True)
        values = {"level": level, "type": kind, "size": size, "coherency_line_size": "128"}
        for name, text in values.items():
            (folder / name).write_text(text + "\n")
    monkeypatch.setattr(hw, "_CPU", tmp_path)
    assert hw._caches(0) == {"l1d_bytes": 64 << 10, "l2_bytes": 1 << 20, "l3_bytes": 0, "line_bytes": 128}


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"mine/cpu.max": "150000 100000"}, 1.5),
        ({"cpu.max": "max 100000"}, float("inf")),
        ({"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, 2.0),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, float("inf")),
        ({}, float("inf")),
    ],
)
def test_quotas_of_control_groups(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, str], quota: float
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    read = hw._read
    own = Path("/proc/self/cgroup")
    monkeypatch.setattr(hw, "_CGROUP", tmp_path)
    monkeypatch.setattr(hw, "_read", lambda p: "0::/mine" if p == own else read(p))
    assert hw._quota() == quota


def test_facts_do_not_change() -> None:
    hardware.cache_clear()
    first = hardware()
    hardware.cache_clear()
    assert hardware() == first


def test_peaks_type(target: Target) -> None:
    assert isinstance(target.peaks, Peaks)
    assert Target.from_json(json.loads(json.dumps(target.to_json()))) == target
