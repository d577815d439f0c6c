"""Private regression: how long will a patient stay?

The stays are generated. Place and scale of the target are learned privately. Public bounds may be
given: targets and predictions are clipped to them.
"""

import numpy as np
import pandas as pd

from lumberjack import Domain, LumberjackRegressor

DOMAIN = Domain({"age": (18, 100), "severity": [1, 2, 3, 4, 5], "emergency": [False, True]})
LONGEST = 30  # days; a rule of the hospital, not the longest stay in the table


def make_stays(n, rng):
    """Generate ``n`` stays and their days."""
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 100, n),
            "severity": rng.choice([1, 2, 3, 4, 5], n, p=[0.3, 0.3, 0.2, 0.15, 0.05]),
            "emergency": rng.random(n) < 0.3,
        }
    )
    mean = 1 + 2 * frame["severity"] + 3 * frame["emergency"] + (frame["age"] - 18) / 25
    return frame, rng.gamma(4, mean / 4)


def main(n=30_000, epsilon=1.0):
    """Train, score on other stays, and predict for one patient."""
    rng = np.random.default_rng(0)
    frame, days = make_stays(n, rng)
    model = LumberjackRegressor(epsilon, 1e-6, domain=DOMAIN, y_bounds=(0, LONGEST)).fit(frame, days)
    other, other_days = make_stays(10_000, rng)
    score = model.score(other, other_days)
    print(f"R2 on other stays: {score:.3f}")
    patient = pd.DataFrame({"age": [80], "severity": [4], "emergency": [True]})
    print(f"80 years, severity 4, emergency: {model.predict(patient)[0]:.1f} days")
    print(f"\n{model.guarantee_}")
    return model, score


if __name__ == "__main__":
    main()
