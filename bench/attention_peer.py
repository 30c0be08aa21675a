"""PyTorch's attention on the same GPU, for bench/attention_cuda: JSON lines with the same case names."""
import json
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


def replay_us(launches, repeats=9):
    """Median microseconds of one of the launches, captured as one graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for launch in launches[:2]:
            launch()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for launch in launches:
                launch()
        times = []
        for i in range(repeats + 2):
            begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            if i >= 2:
                times.append(begin.elapsed_time(end) * 1e3 / len(launches))
    return sorted(times)[len(times) // 2]


def report(op, backend, case, us, **more):
    line = {"op": op, "candidate": f"torch {torch.__version__} {backend}", "case": case}
    print(json.dumps(line | {"device": torch.cuda.get_device_name(), "us": round(us, 2)} | more), flush=True)


def prefill(heads, kv_heads, dim, length, backend):
    q = torch.randn(1, heads, length, dim, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn(1, kv_heads, length, dim, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    us = replay_us([lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)] * 4)
    pairs = length * (length + 1) / 2
    tflop_s = 4 * pairs * heads * dim / us / 1e6
    report("attention_prefill", backend, f"{heads}/{kv_heads} x {dim} causal {length}", us, tflop_s=round(tflop_s, 1))


def decode(heads, kv_heads, dim, batch, context, backend):
    """Contiguous keys and values; they rotate through 2.5 GB."""
    size = batch * kv_heads * context * dim * 4
    layers = max(2, min(24, int(2.5e9 / size)))
    q = torch.randn(batch, heads, 1, dim, device="cuda", dtype=torch.bfloat16)
    kv = [torch.randn(2, batch, kv_heads, context, dim, device="cuda", dtype=torch.bfloat16) for _ in range(layers)]
    us = replay_us([lambda x=x: F.scaled_dot_product_attention(q, x[0], x[1], enable_gqa=True) for x in kv])
    case = f"{heads}/{kv_heads} x {dim} bf16 b{batch} {context}"
    report("attention_decode", backend + " contiguous", case, us, gb_s=round(size / us / 1e3))


def main():
    for backend, kind in BACKENDS.items():
        with sdpa_kernel(kind):
            jobs = [(prefill, 32, 8, d, n) for d in (128, 64, 256) for n in (1024, 4096, 16384)]
            jobs += [(decode, 32, 8, 128, b, n) for b, n in ((1, 2048), (1, 8192), (1, 32768), (8, 2048), (8, 8192))]
            jobs += [(decode, 32, 8, 128, b, n) for b, n in ((8, 32768), (32, 2048), (64, 2048), (64, 8192))]
            jobs += [(decode, 32, 8, 64, 1, 2048), (decode, 32, 8, 64, 64, 2048), (decode, 32, 4, 128, 64, 2048)]
            for job, *shape in jobs:
                try:
                    job(*shape, backend)
                except RuntimeError as error:
                    print(f"{backend} {job.__name__} {shape}: {str(error).splitlines()[0]}", file=sys.stderr)


if __name__ == "__main__":
    main()
