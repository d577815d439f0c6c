"""Speed of the core, as ratios against a peer measured in the same run.

    python -m benchmarks.core

Noise against NumPy's own (inexact, seedable) normal generator and, where it is installed (extra
'bench'), against OpenDP's exact sampler; calibration in milliseconds; heavy hitters of a million
records in seconds and megabytes.
"""

import resource
import time

import numpy as np

from lumberjack import heavy_hitters
from lumberjack.accounting import (
    NoisySums,
    ThresholdQueries,
    calibrate,
    calibrate_paper,
    queries_per_tree,
)
from lumberjack.noise import Bits, RoundedGaussian, ThresholdCoin

N = 5_000_000
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def best_of(times, function):
    """Shortest of several runs, in seconds; the first, uncounted, compiles."""
    function()
    return min(_seconds(function) for _ in range(times))


def _seconds(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def noise():
    rng = np.random.default_rng(0)
    normal = best_of(3, lambda: rng.normal(0, 10, N))
    print(f"numpy normal (inexact)       {N / normal / 1e6:8.1f} million draws/s")
    for sigma in (10.0, 1e3, 1e5):
        setup = best_of(3, lambda sigma=sigma: RoundedGaussian(sigma))
        gaussian = RoundedGaussian(sigma)
        took = best_of(3, lambda gaussian=gaussian: gaussian.draw(N, Bits()))
        print(
            f"rounded Gaussian {sigma:8g}    {N / took / 1e6:8.1f} million draws/s, "
            f"{took / normal:5.2f} x numpy's time, set-up {1e3 * setup:.1f} ms"
        )
    for sigma in (10.0, 1e5):
        counts = rng.integers(0, int(12 * sigma), N)
        parameters = {"cut": 0, "largest": int(counts.max())}
        setup = best_of(3, lambda s=sigma, p=parameters: ThresholdCoin(s, 6 * s, **p))
        coin = ThresholdCoin(sigma, 6 * sigma, **parameters)
        took = best_of(3, lambda coin=coin, counts=counts: coin.draw(counts, Bits()))
        rate = N / took / 1e6
        print(f"threshold coin   {sigma:8g}    {rate:8.1f} million bits/s, set-up {1e3 * setup:.1f} ms")
    try:
        import opendp.prelude as dp
    except ImportError:
        print("OpenDP is not installed: no comparison with its sampler")
        return
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    theirs = dp.m.make_gaussian(*space, scale=10.0)
    few = [0] * 20_000
    took = best_of(3, lambda: theirs(few))
    print(f"OpenDP discrete Gaussian     {len(few) / took / 1e6:8.3f} million draws/s")


def calibration():
    for epsilon in (0.001, 1.0, 100.0):
        for k, h in ((20, 100), (1000, 100), (10_000, 10**6)):
            m = k * queries_per_tree(h)
            parts = [((ThresholdQueries(m, 1.0, 0.0, 0.0),), 0.5), ((NoisySums(k, 1.0),), 0.5)]
            joint = best_of(3, lambda e=epsilon, parts=parts: calibrate(e, 1e-6, parts))
            paper = best_of(1, lambda e=epsilon, m=m: calibrate_paper(e, 1e-6, m=m))
            print(f"calibration eps={epsilon:<6g} m={m:<7} joint {1e3 * joint:5.1f} ms", end="")
            print(f", Theorem 1 {1e3 * paper:6.1f} ms")


def addresses(n, rng):
    """IPv4-like: Zipf-distributed networks of 20 bits, hosts uniform in them; 32 binary levels."""
    network = (rng.zipf(1.2, n) * 2654435761) % 2**20
    address = network << 12 | rng.integers(0, 2**12, n)
    return (address[:, None] >> np.arange(31, -1, -1) & 1).astype(np.uint8)


def diagnoses(n, rng):
    """ICD-10-like codes such as E11.65: chapter, two digits, then up to three more characters."""
    chapter = rng.choice(list("ABCDEFGHIJKLMNOPQRSTUVXYZ"), n)
    digits = (rng.zipf(1.4, (n, 5)) - 1) % 10
    depth = rng.integers(2, 6, n)
    return [
        (c, *map(int, d[:k])) for c, d, k in zip(chapter.tolist(), digits.tolist(), depth, strict=True)
    ]


def urls(n, rng):
    words = np.array([f"page{i}" for i in range(20_000)])
    parts = words[(rng.zipf(1.4, (n, 6)) - 1) % len(words)]
    return ["/" + "/".join(p[:d]) for p, d in zip(parts.tolist(), rng.integers(1, 7, n), strict=True)]


def prefixes():
    rng = np.random.default_rng(1)
    heavy_hitters(addresses(1000, rng), height=32, **BUDGET)
    for name, make, n, keywords in (
        ("addresses", addresses, 10**6, {"height": 32}),
        ("ICD-10-like codes", diagnoses, 10**5, {"height": 6}),
        ("URL paths", urls, 10**6, {"height": 6, "sep": "/"}),
    ):
        data = make(n, rng)
        begin = time.perf_counter()
        found = heavy_hitters(data, **keywords, **BUDGET)
        took = time.perf_counter() - begin
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{n:9,} {name:18} {took:5.2f} s, {len(found):6,} heavy prefixes", end="")
        print(f", peak of the process {peak:,.0f} MB")


if __name__ == "__main__":
    prefixes()
    noise()
    calibration()
