"""The libraries that operators are compared with: PyTorch, ONNX Runtime, OpenVINO, NumPy.

Every peer is a function from a workload's arrays to a ``Peer``. Weights are constant for all who can use
that; each library gets the layout it is best at, and inputs are brought into it before the clock starts.
"""

from collections.abc import Callable, Iterable, Mapping

from peers import numpy_peer, onnx_peers, torch_peers
from peers.spec import Arrays, Peer, Spec, spec_of

__all__ = ["PEERS", "Peer", "Spec", "peers_for", "spec_of"]

PEERS: Mapping[str, Callable[[Spec, Arrays], Peer]] = {
    "torch": torch_peers.eager,
    "compile": torch_peers.compiled,
    "onnxruntime": onnx_peers.onnxruntime,
    "openvino": onnx_peers.openvino,
    "numpy": numpy_peer.numpy,
}


def peers_for(spec: Spec, arrays: Arrays, names: Iterable[str] = tuple(PEERS)) -> dict[str, Peer]:
    """Those peers that are installed and have the operator."""
    found = {}
    for name in names:
        try:
            found[name] = PEERS[name](spec, arrays)
        except (ImportError, NotImplementedError):
            continue
    return found
