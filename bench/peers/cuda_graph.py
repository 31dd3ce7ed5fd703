"""A call as one CUDA graph: what the host does for it costs nothing then."""

import torch

WARM_UP = 4


class Captured:
    """A call that runs as one CUDA graph. `result` is what it gave; every replay writes there.

    A graph holds addresses, not tensors. Whatever the call reads or updates (parameters, moments, data) has to outlive the
    graph, so the call is kept, and all that it refers to with it.
    """

    def __init__(self, call, forget=lambda: None):
        """`forget` drops what the calls before the capture have left, gradients for example."""
        self.call = call
        # One stream for both: the nodes that add up gradients stay with the stream of their first use.
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                call()
            forget()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.result = call()
        torch.cuda.synchronize()

    def __call__(self):
        self.graph.replay()
