"""The operator list of the Ansor paper and its relatives, as named operators of this project."""

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Workload", "selected", "workloads"]


@dataclass(frozen=True)
class Workload:
    """``flops`` is the nominal count by which the field compares, multiplications by padding included."""

    name: str
    operator: str
    flops: int

    @property
    def family(self) -> str:
        """What stands before the number."""
        return self.name.partition("@")[0].rpartition("-")[0]


def workloads(batch: int = 1) -> tuple[Workload, ...]:
    """The list for a batch. Names end in it if it is not 1."""
    end = "" if batch == 1 else f"@{batch}"
    listed = (*_ansor(batch), *_usual(batch))
    return tuple(Workload(w.name + end, w.operator, w.flops * batch) for w in listed) + (
        _ODD if batch == 1 else ()
    )


def selected(names: Iterable[str], batch: int = 1) -> tuple[Workload, ...]:
    """Those that begin with one of the names; all without names."""
    prefixes = tuple(names)
    return tuple(w for w in workloads(batch) if not prefixes or w.name.startswith(prefixes))


def _conv(b: int, h: int, ci: int, co: int, k: int, stride: int, pad: int, dilation: int = 1) -> str:
    return f"conv2d(n={b},h={h},w={h},ci={ci},co={co},k={k},stride={stride},pad={pad},dilation={dilation})"


def _fused(b: int, h: int, ci: int, co: int, k: int, stride: int, pad: int) -> str:
    return f"conv2d_bn_relu(n={b},h={h},w={h},ci={ci},co={co},k={k},stride={stride},pad={pad})"


def _grouped(b: int, h: int, ci: int, co: int, k: int, stride: int, pad: int) -> str:
    return f"group_conv2d(n={b},h={h},w={h},ci={ci},co={co},k={k},stride={stride},pad={pad},groups=4)"


def _depthwise(b: int, h: int, c: int, stride: int) -> str:
    return f"depthwise_conv2d(n={b},h={h},w={h},c={c},k=3,stride={stride},pad=1)"


def _conv1d(b: int, l: int, ci: int, co: int, k: int, stride: int, pad: int) -> str:  # noqa: E741
    return f"conv1d(n={b},l={l},ci={ci},co={co},k={k},stride={stride},pad={pad})"


def _conv3d(b: int, h: int, ci: int, co: int, k: int, stride: int, pad: int) -> str:
    return f"conv3d(n={b},d=16,h={h},w={h},ci={ci},co={co},k={k},stride={stride},pad={pad})"


def _transposed(b: int, h: int, ci: int, co: int) -> str:
    return f"conv2d_transpose(n={b},h={h},w={h},ci={ci},co={co},k=4,stride=2,pad=1)"


def _capsule(b: int, h: int, ci: int, co: int, stride: int) -> str:
    return f"conv2d_capsule(n={b},h={h},w={h},ci={ci},co={co},k=3,stride={stride},pad=1,size=4)"


def _scores(b: int, seq: int, heads: int, dim: int) -> str:
    return f"transpose_batch_matmul(batch={b},seq={seq},heads={heads},dim={dim})"


def _product(b: int, m: int, n: int, k: int) -> str:
    return f"matmul({m},{n},{k})" if b == 1 else f"batch_matmul({b},{m},{n},{k})"


def _ansor(b: int) -> tuple[Workload, ...]:
    """The twelve operators of the paper and its subgraphs (L. Zheng et al., OSDI 2020), with the shapes of
    TVM's ``meta_schedule/testing/te_workload.py``; flops of batch 1."""
    return (
        Workload("C1D-0", _conv1d(b, 256, 64, 128, 3, 2, 1), 6291456),
        Workload("C1D-1", _conv1d(b, 128, 128, 256, 1, 2, 0), 4194304),
        Workload("C1D-2", _conv1d(b, 64, 256, 256, 5, 1, 2), 41943040),
        Workload("C1D-3", _conv1d(b, 32, 512, 512, 3, 1, 1), 50331648),
        Workload("C2D-0", _conv(b, 224, 3, 64, 7, 2, 3), 236027904),
        Workload("C2D-1", _conv(b, 56, 64, 64, 1, 1, 0), 25690112),
        Workload("C2D-2", _conv(b, 14, 256, 256, 3, 1, 1), 231211008),
        Workload("C2D-3", _conv(b, 7, 512, 512, 3, 1, 1), 231211008),
        Workload("C3D-0", _conv3d(b, 224, 3, 64, 7, 2, 3), 13217562624),
        Workload("C3D-1", _conv3d(b, 56, 64, 64, 1, 1, 0), 411041792),
        Workload("C3D-2", _conv3d(b, 14, 256, 256, 3, 1, 1), 11098128384),
        Workload("C3D-3", _conv3d(b, 7, 512, 512, 3, 1, 1), 11098128384),
        Workload("GMM-0", _product(b, 128, 128, 128), 4194304),
        Workload("GMM-1", _product(b, 512, 32, 512), 16777216),
        Workload("GMM-2", _product(b, 512, 512, 512), 268435456),
        Workload("GMM-3", _product(b, 1024, 1024, 1024), 2147483648),
        Workload("GRP-0", _grouped(b, 56, 64, 128, 3, 2, 1), 28901376),
        Workload("GRP-1", _grouped(b, 56, 64, 64, 1, 1, 0), 6422528),
        Workload("GRP-2", _grouped(b, 14, 256, 256, 3, 1, 1), 57802752),
        Workload("GRP-3", _grouped(b, 7, 512, 512, 3, 1, 1), 57802752),
        Workload("DIL-0", _conv(b, 224, 3, 64, 7, 2, 3, 2), 223552896),
        Workload("DIL-1", _conv(b, 56, 64, 64, 1, 1, 0, 2), 25690112),
        Workload("DIL-2", _conv(b, 14, 256, 256, 3, 1, 1, 2), 169869312),
        Workload("DIL-3", _conv(b, 7, 512, 512, 3, 1, 1, 2), 117964800),
        Workload("DEP-0", _depthwise(b, 112, 32, 1), 7225344),
        Workload("DEP-1", _depthwise(b, 112, 64, 2), 3612672),
        Workload("DEP-2", _depthwise(b, 14, 512, 2), 451584),
        Workload("DEP-3", _depthwise(b, 7, 1024, 1), 903168),
        Workload("T2D-0", _transposed(b, 4, 512, 256), 268435456),
        Workload("T2D-1", _transposed(b, 8, 256, 128), 268435456),
        Workload("T2D-2", _transposed(b, 16, 128, 64), 268435456),
        Workload("T2D-3", _transposed(b, 32, 64, 3), 25165824),
        Workload("CAP-0", _capsule(b, 16, 32, 32, 2), 75497472),
        Workload("CAP-1", _capsule(b, 8, 32, 32, 1), 75497472),
        Workload("CAP-2", _capsule(b, 16, 8, 16, 2), 9437184),
        Workload("CAP-3", _capsule(b, 8, 16, 16, 1), 18874368),
        Workload("NRM-0", f"norm({b},256,256)", 131073),
        Workload("NRM-1", f"norm({b},512,512)", 524289),
        Workload("NRM-2", f"norm({b},1024,1024)", 2097153),
        Workload("NRM-3", f"norm({b},4096,1024)", 8388609),
        Workload("SFM-0", f"softmax({256 * b},256)", 4 * 256 * 256),
        Workload("SFM-1", f"softmax({512 * b},512)", 4 * 512 * 512),
        Workload("SFM-2", f"softmax({1024 * b},1024)", 4 * 1024 * 1024),
        Workload("SFM-3", f"softmax({2048 * b},2048)", 4 * 2048 * 2048),
        Workload("CBR-0", _fused(b, 224, 3, 64, 7, 2, 3), 239239168),
        Workload("CBR-1", _fused(b, 56, 64, 128, 3, 2, 1), 116006912),
        Workload("CBR-2", _fused(b, 28, 128, 256, 1, 2, 0), 13045760),
        Workload("CBR-3", _fused(b, 7, 512, 512, 3, 1, 1), 231311360),
        Workload("TBG-0", _scores(b, 128, 12, 64), 25165824),
        Workload("TBG-1", _scores(b, 128, 16, 64), 33554432),
        Workload("TBG-2", _scores(b, 64, 12, 128), 12582912),
        Workload("TBG-3", _scores(b, 128, 12, 128), 50331648),
    )


def _usual(b: int) -> tuple[Workload, ...]:
    """What networks are made of besides."""
    nchw = f"conv2d_nchw(n={b},ci=512,h=7,w=7,co=512,k=3,pad=1,bias=True,act='relu')"
    pool = f"max_pool2d(n={b},h=112,w=112,c=64,k=3,stride=2,pad=1)"
    return (
        Workload("conv-56", _conv(b, 56, 64, 64, 3, 1, 1), 231211008),
        Workload("conv-28", _conv(b, 28, 128, 128, 3, 1, 1), 231211008),
        Workload("conv-1x1-56", _conv(b, 56, 64, 256, 1, 1, 0), 102760448),
        Workload("conv-nchw", nchw, 231211008),
        Workload("bmm-12", f"batch_matmul({12 * b},128,128,64)", 25165824),
        Workload("dense-3072", f"dense(m={128 * b},n=3072,k=768)", 603979776),
        Workload("matmul-relu", f"matmul({1024 * b},1024,1024,act='relu')", 2148532224),
        Workload("matmul-add", f"matmul({1024 * b},1024,1024,residual=True)", 2148532224),
        Workload("layer-norm-768", f"layer_norm({128 * b},768)", 786432),
        Workload("softmax-1536", f"softmax({1536 * b},128)", 983040),
        Workload("attention-12", f"attention(h={12 * b},m=128,d=64)", 50331648),
        Workload("moments-768", f"moments({128 * b},768)", 393216),
        Workload("gelu-768", f"activation({128 * b},3072,bias=True)", 3145728),
        Workload("pool-max", pool, 1806336),
        Workload("pool-global", f"global_avg_pool(n={b},h=7,w=7,c=2048)", 100352),
    )


_ODD = (
    Workload("gemv-4096", "gemv(4096,4096)", 33554432),
    Workload("prime-127", "matmul(127,127,127)", 4096766),
    Workload("prime-197", "matmul(197,197,197)", 15290746),
    Workload("prime-251", "matmul(251,251,251)", 31626502),
    Workload("prime-577", "matmul(577,577,577)", 384200066),
)
