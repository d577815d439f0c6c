"""Publish a model, and check it as the one who receives it.

Two people: the hospital trains and writes one file; the receiver has that file and nothing else.
"""

import hashlib
import tempfile
from pathlib import Path

import numpy as np
from pipeline import DOMAIN, add_bmi, make_patients

from lumberjack import LumberjackClassifier, load


def hospital(folder, n):
    """Train on patients and publish a file, and its fingerprint elsewhere."""
    frame, back = make_patients(n, np.random.default_rng(0))
    model = LumberjackClassifier(1.0, 1e-6, domain=DOMAIN, classes=["back", "well"])
    model.fit(add_bmi(frame), back)
    path = Path(folder) / "readmission.lumberjack"
    model.save(path)
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


def receiver(path, fingerprint):
    """Check the file and its promise, then use it. Loading runs nothing that is in the file."""
    if hashlib.sha256(path.read_bytes()).hexdigest() != fingerprint:
        raise SystemExit("this is not the file that was published")
    model = load(path)
    promise = model.guarantee_
    recomputed = promise.verify()  # from the record alone, not from what the hospital says
    print(promise)
    print(f"\nrecomputed delta {recomputed:.6g}, promised {promise.delta:g}")
    if recomputed > promise.delta or promise.caveats:
        raise SystemExit("the promise does not hold without reserve")
    return model


def main(n=20_000):
    """Play both parts."""
    with tempfile.TemporaryDirectory() as folder:
        path, fingerprint = hospital(folder, n)
        print(f"published {path.name}: {path.stat().st_size:,} bytes, SHA-256 {fingerprint[:16]}...\n")
        model = receiver(path, fingerprint)
    new, _ = make_patients(3, np.random.default_rng(1))
    print("\nnew patients:", dict(enumerate(model.predict(add_bmi(new)).tolist())))
    return model


if __name__ == "__main__":
    main()
