"""The operator list of the Ansor paper and its relatives, as named operators of this project."""

from dataclasses import dataclass

__all__ = ["WORKLOADS", "Workload"]


@dataclass(frozen=True)
class Workload:
    """``flops`` is the nominal count by which the field compares, multiplications by padding included."""

    name: str
    operator: str
    flops: int


def _conv(h: int, ci: int, co: int, k: int, stride: int, pad: int, dilation: int = 1) -> str:
    return f"conv2d(n=1,h={h},w={h},ci={ci},co={co},k={k},stride={stride},pad={pad},dilation={dilation})"


def _fused(h: int, ci: int, co: int, k: int, stride: int, pad: int) -> str:
    return f"conv2d_bn_relu(n=1,h={h},w={h},ci={ci},co={co},k={k},stride={stride},pad={pad})"


def _grouped(h: int, ci: int, co: int, k: int, stride: int, pad: int) -> str:
    return f"group_conv2d(n=1,h={h},w={h},ci={ci},co={co},k={k},stride={stride},pad={pad},groups=4)"


def _depthwise(h: int, c: int, stride: int) -> str:
    return f"depthwise_conv2d(n=1,h={h},w={h},c={c},k=3,stride={stride},pad=1)"


def _conv1d(l: int, ci: int, co: int, k: int, stride: int, pad: int) -> str:  # noqa: E741
    return f"conv1d(n=1,l={l},ci={ci},co={co},k={k},stride={stride},pad={pad})"


def _conv3d(h: int, ci: int, co: int, k: int, stride: int, pad: int) -> str:
    return f"conv3d(n=1,d=16,h={h},w={h},ci={ci},co={co},k={k},stride={stride},pad={pad})"


def _transpose(h: int, ci: int, co: int) -> str:
    return f"conv2d_transpose(n=1,h={h},w={h},ci={ci},co={co},k=4,stride=2,pad=1)"


def _capsule(h: int, ci: int, co: int, stride: int) -> str:
    return f"conv2d_capsule(n=1,h={h},w={h},ci={ci},co={co},k=3,stride={stride},pad=1,size=4)"


def _scores(seq: int, heads: int, dim: int) -> str:
    return f"transpose_batch_matmul(batch=1,seq={seq},heads={heads},dim={dim})"


WORKLOADS: tuple[Workload, ...] = (
    Workload("C1D-0", _conv1d(256, 64, 128, 3, 2, 1), 6291456),
    Workload("C1D-1", _conv1d(128, 128, 256, 1, 2, 0), 4194304),
    Workload("C1D-2", _conv1d(64, 256, 256, 5, 1, 2), 41943040),
    Workload("C1D-3", _conv1d(32, 512, 512, 3, 1, 1), 50331648),
    Workload("C2D-0", _conv(224, 3, 64, 7, 2, 3), 236027904),
    Workload("C2D-1", _conv(56, 64, 64, 1, 1, 0), 25690112),
    Workload("C2D-2", _conv(14, 256, 256, 3, 1, 1), 231211008),
    Workload("C2D-3", _conv(7, 512, 512, 3, 1, 1), 231211008),
    Workload("C3D-0", _conv3d(224, 3, 64, 7, 2, 3), 13217562624),
    Workload("C3D-1", _conv3d(56, 64, 64, 1, 1, 0), 411041792),
    Workload("C3D-2", _conv3d(14, 256, 256, 3, 1, 1), 11098128384),
    Workload("C3D-3", _conv3d(7, 512, 512, 3, 1, 1), 11098128384),
    Workload("GMM-0", "matmul(128,128,128)", 4194304),
    Workload("GMM-1", "matmul(512,32,512)", 16777216),
    Workload("GMM-2", "matmul(512,512,512)", 268435456),
    Workload("GMM-3", "matmul(1024,1024,1024)", 2147483648),
    Workload("GRP-0", _grouped(56, 64, 128, 3, 2, 1), 28901376),
    Workload("GRP-1", _grouped(56, 64, 64, 1, 1, 0), 6422528),
    Workload("GRP-2", _grouped(14, 256, 256, 3, 1, 1), 57802752),
    Workload("GRP-3", _grouped(7, 512, 512, 3, 1, 1), 57802752),
    Workload("DIL-0", _conv(224, 3, 64, 7, 2, 3, 2), 223552896),
    Workload("DIL-1", _conv(56, 64, 64, 1, 1, 0, 2), 25690112),
    Workload("DIL-2", _conv(14, 256, 256, 3, 1, 1, 2), 169869312),
    Workload("DIL-3", _conv(7, 512, 512, 3, 1, 1, 2), 117964800),
    Workload("DEP-0", _depthwise(112, 32, 1), 7225344),
    Workload("DEP-1", _depthwise(112, 64, 2), 3612672),
    Workload("DEP-2", _depthwise(14, 512, 2), 451584),
    Workload("DEP-3", _depthwise(7, 1024, 1), 903168),
    Workload("T2D-0", _transpose(4, 512, 256), 268435456),
    Workload("T2D-1", _transpose(8, 256, 128), 268435456),
    Workload("T2D-2", _transpose(16, 128, 64), 268435456),
    Workload("T2D-3", _transpose(32, 64, 3), 25165824),
    Workload("CAP-0", _capsule(16, 32, 32, 2), 75497472),
    Workload("CAP-1", _capsule(8, 32, 32, 1), 75497472),
    Workload("CAP-2", _capsule(16, 8, 16, 2), 9437184),
    Workload("CAP-3", _capsule(8, 16, 16, 1), 18874368),
    Workload("NRM-0", "norm(1,256,256)", 131073),
    Workload("NRM-1", "norm(1,512,512)", 524289),
    Workload("NRM-2", "norm(1,1024,1024)", 2097153),
    Workload("NRM-3", "norm(1,4096,1024)", 8388609),
    Workload("SFM-0", "softmax(256,256)", 4 * 256 * 256),
    Workload("SFM-1", "softmax(512,512)", 4 * 512 * 512),
    Workload("SFM-2", "softmax(1024,1024)", 4 * 1024 * 1024),
    Workload("SFM-3", "softmax(2048,2048)", 4 * 2048 * 2048),
    Workload("CBR-0", _fused(224, 3, 64, 7, 2, 3), 239239168),
    Workload("CBR-1", _fused(56, 64, 128, 3, 2, 1), 116006912),
    Workload("CBR-2", _fused(28, 128, 256, 1, 2, 0), 13045760),
    Workload("CBR-3", _fused(7, 512, 512, 3, 1, 1), 231311360),
    Workload("TBG-0", _scores(128, 12, 64), 25165824),
    Workload("TBG-1", _scores(128, 16, 64), 33554432),
    Workload("TBG-2", _scores(64, 12, 128), 12582912),
    Workload("TBG-3", _scores(128, 12, 128), 50331648),
    Workload("conv-56", _conv(56, 64, 64, 3, 1, 1), 231211008),
    Workload("conv-28", _conv(28, 128, 128, 3, 1, 1), 231211008),
    Workload("conv-56-1x1", _conv(56, 64, 256, 1, 1, 0), 102760448),
    Workload("bmm", "batch_matmul(12,128,128,64)", 25165824),
    Workload("dense", "dense(m=128,n=3072,k=768)", 603979776),
    Workload("layer-norm", "layer_norm(128,768)", 786432),
    Workload("softmax-1536", "softmax(1536,128)", 983040),
    Workload("attention", "attention(h=12,m=128,d=64)", 50331648),
    Workload("prime-251", "matmul(251,251,251)", 31626502),
    Workload("prime-577", "matmul(577,577,577)", 384200066),
)
