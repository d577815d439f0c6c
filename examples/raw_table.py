"""From a raw table to a private model in two lines.

Run it with ``make demo``. The table has text, numbers of very different size, dates and missing values,
and nothing is declared about them: cuts, categories and classes are learned privately, and priced.
"""

import numpy as np
import pandas as pd

from lumberjack import LumberjackClassifier


def make_visits(n, rng):
    """Generate ``n`` hospital visits; "back" says whether the patient came back within a month."""
    days = rng.integers(0, 730, n).astype("timedelta64[D]")
    visits = pd.DataFrame(
        {
            "admitted": np.datetime64("2024-01-01", "s") + days,
            "age": rng.integers(18, 100, n),
            "systolic": np.where(rng.random(n) < 0.1, np.nan, rng.normal(130, 20, n)),
            "bill": rng.lognormal(7, 2, n),
            "ward": rng.choice(["surgery", "medicine", "cardiology"], n, p=[0.5, 0.3, 0.2]),
            "smoker": rng.choice(np.array(["yes", "no", None], dtype=object), n, p=[0.3, 0.6, 0.1]),
        }
    )
    risk = 2.5 * (visits["age"] > 70) + 2.0 * (visits["ward"] == "cardiology") + np.log10(visits["bill"])
    visits["back"] = np.where(risk + rng.logistic(0, 0.5, n) > 5, "yes", "no")
    return visits


def main(n=20_000):
    """Train on a raw table; print the score on other visits, what was learned, and the promise."""
    rng = np.random.default_rng(0)
    visits, others = make_visits(n, rng), make_visits(5000, rng)
    print(f"A raw table, {n:,} visits like these:\n\n{visits.head(3).to_string(index=False)}\n")

    model = LumberjackClassifier(epsilon=1.0)
    model.fit(visits, "back")

    score = model.score(others.drop(columns="back"), others["back"])
    frequent = others["back"].value_counts(normalize=True).max()
    print(f"Accuracy on other visits: {score:.3f} (the more frequent answer alone: {frequent:.3f})\n")
    learned = model.domain_
    print("Learned privately, at a price that is part of the promise:\n")
    print("  wards:", ", ".join(learned["ward"].categories))
    edges = learned["bill"].edges
    print(f"  every fourth of {len(edges)} cuts of bills:", ", ".join(f"{e:,.0f}" for e in edges[3::4]))
    print(f"\nThe promise:\n\n{model.guarantee_}\n")
    return model, score


if __name__ == "__main__":
    main()
