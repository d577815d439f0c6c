"""A private classifier at the end of a scikit-learn pipeline.

The patients are generated. The steps before the forest learn nothing from the data: they compute each
row from that row alone. A ``StandardScaler`` would learn means, and the guarantee would not cover them.
"""

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from lumberjack import Domain, LumberjackClassifier

# What anybody may know about the columns, after the first step. None of it is read off the data.
DOMAIN = Domain(
    {
        "age": (18, 100),
        "bmi": (10, 70),
        "smoker": Domain.categorical(["no", "yes"], missing=True),
        "ward": ["surgery", "medicine", "cardiology"],
    }
)


def make_patients(n, rng):
    """Generate ``n`` patients, and whether they came back within a month."""
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 100, n),
            "height_cm": rng.normal(170, 10, n),
            "weight_kg": rng.normal(78, 15, n),
            "smoker": rng.choice(np.array(["no", "yes", None], dtype=object), n, p=[0.6, 0.3, 0.1]),
            "ward": rng.choice(["surgery", "medicine", "cardiology"], n),
        }
    )
    frame.loc[rng.random(n) < 0.05, "weight_kg"] = np.nan
    bmi = frame["weight_kg"] / (frame["height_cm"] / 100) ** 2
    risk = (frame["age"] > 65) * 1.0 + (bmi > 30) + (frame["smoker"] == "yes") - 1.2
    back = np.where(rng.random(n) < 1 / (1 + np.exp(-3 * risk)), "back", "well")
    return frame, back


def add_bmi(frame):
    """Replace height and weight by the body mass index, row by row."""
    bmi = frame["weight_kg"] / (frame["height_cm"] / 100) ** 2
    return frame.assign(bmi=bmi)[DOMAIN.names]


def main(n=20_000, epsilon=1.0):
    """Train, score on patients that were kept apart, and print the promise."""
    frame, back = make_patients(n, np.random.default_rng(0))
    train, test, y_train, y_test = train_test_split(frame, back, random_state=0)
    forest = LumberjackClassifier(epsilon, 1e-6, domain=DOMAIN, classes=["back", "well"])
    pipeline = make_pipeline(FunctionTransformer(add_bmi), forest).fit(train, y_train)
    accuracy = pipeline.score(test, y_test)
    print(f"accuracy on {len(test):,} other patients: {accuracy:.3f}")
    print(f"always the more frequent answer:       {max(np.mean(y_test == c) for c in set(y_test)):.3f}")
    print(f"\n{forest.guarantee_}")
    return pipeline, accuracy


if __name__ == "__main__":
    main()
