"""Public domains: ranges and categories from the code books, never from the data.

In: the name of a table. Out: its ``Domain``. Sources: the description of the UCI Adult data set; the
data dictionaries of the American Community Survey PUMS (US Census Bureau), with the feature sets of
folktables (Ding et al. 2021); the description of the StatLib housing data (Pace and Barry 1997).
"""

from typing import Any

from lumberjack.domain import Domain

__all__ = ["ADULT", "HOUSING", "STATES", "acs_domain"]

ADULT = Domain(
    {
        "age": (17, 90),
        "workclass": [
            "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov",
            "Without-pay", "Never-worked", "?",
        ],
        "fnlwgt": (10_000, 1_500_000),
        "education": [
            "Bachelors", "Some-college", "11th", "HS-grad", "Prof-school", "Assoc-acdm", "Assoc-voc",
            "9th", "7th-8th", "12th", "Masters", "1st-4th", "10th", "Doctorate", "5th-6th", "Preschool",
        ],
        "education-num": (1, 16),
        "marital-status": [
            "Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed",
            "Married-spouse-absent", "Married-AF-spouse",
        ],
        "occupation": [
            "Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial",
            "Prof-specialty", "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical",
            "Farming-fishing", "Transport-moving", "Priv-house-serv", "Protective-serv", "Armed-Forces",
            "?",
        ],
        "relationship": ["Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried"],
        "race": ["White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"],
        "sex": ["Female", "Male"],
        "capital-gain": (0, 99_999),
        "capital-loss": (0, 5_000),
        "hours-per-week": (1, 99),
        "native-country": [
            "United-States", "Cambodia", "England", "Puerto-Rico", "Canada", "Germany",
            "Outlying-US(Guam-USVI-etc)", "India", "Japan", "Greece", "South", "China", "Cuba", "Iran",
            "Honduras", "Philippines", "Italy", "Poland", "Jamaica", "Vietnam", "Mexico", "Portugal",
            "Ireland", "France", "Dominican-Republic", "Laos", "Ecuador", "Taiwan", "Haiti", "Columbia",
            "Hungary", "Guatemala", "Nicaragua", "Scotland", "Thailand", "Yugoslavia", "El-Salvador",
            "Trinadad&Tobago", "Peru", "Hong", "Holand-Netherlands", "?",
        ],
    }
)  # fmt: skip


def _codes(low: int, high: int) -> Any:
    return Domain.categorical(list(range(low, high + 1)))


# 0 is folktables' mark of "not applicable" (a blank in the archives). What the paper counts as
# categorical is categorical here; codes with an order or with very many values are numbers, as there.
_ACS = {
    "AGEP": (0, 99),
    "ANC": _codes(1, 4),
    "CIT": _codes(1, 5),
    "COW": (0, 9),
    "DEAR": _codes(1, 2),
    "DEYE": _codes(1, 2),
    "DIS": _codes(1, 2),
    "DREM": (0, 2),
    "ESP": (0, 8),
    "ESR": (0, 6),
    "FER": (0, 2),
    "GCL": (0, 2),
    "JWMNP": (0, 200),
    "JWTR": (0, 12),
    "MAR": _codes(1, 5),
    "MIG": (0, 3),
    "MIL": (0, 4),
    "NATIVITY": _codes(1, 2),
    "OCCP": (0, 9999),
    "PINCP": (-19_998, 4_209_995),
    "POBP": (1, 554),
    "POVPIP": (0, 501),
    "POWPUMA": (0, 70_301),
    "PUMA": (0, 70_301),
    "RAC1P": _codes(1, 9),
    "RELP": _codes(0, 17),
    "SCHL": (0, 24),
    "SEX": _codes(1, 2),
    "WKHP": (0, 99),
}
_RELSHIPP = _codes(20, 38)  # what RELP became in 2019

# What the tasks' own filters say about their rows.
_FILTERED: dict[str, dict[str, Any]] = {
    "income": {"AGEP": (17, 99), "COW": (1, 9), "WKHP": (1, 99)},
    "employment": {},
    "public_coverage": {"AGEP": (0, 64), "PINCP": (-19_998, 30_000)},
    "travel_time": {"AGEP": (17, 99)},
    "mobility": {"AGEP": (19, 34)},
}

STATES = {
    "AL": 1, "AK": 2, "AZ": 4, "AR": 5, "CA": 6, "CO": 8, "CT": 9, "DE": 10, "DC": 11, "FL": 12,
    "GA": 13, "HI": 15, "ID": 16, "IL": 17, "IN": 18, "IA": 19, "KS": 20, "KY": 21, "LA": 22, "ME": 23,
    "MD": 24, "MA": 25, "MI": 26, "MN": 27, "MS": 28, "MO": 29, "MT": 30, "NE": 31, "NV": 32, "NH": 33,
    "NJ": 34, "NM": 35, "NY": 36, "NC": 37, "ND": 38, "OH": 39, "OK": 40, "OR": 41, "PA": 42, "RI": 44,
    "SC": 45, "SD": 46, "TN": 47, "TX": 48, "UT": 49, "VT": 50, "VA": 51, "WA": 53, "WV": 54, "WI": 55,
    "WY": 56, "PR": 72,
}  # fmt: skip


def acs_domain(task: str, features: list[str], state: str, years: tuple[int, ...]) -> Domain:
    """Domain of a task's features for a state ("US": all) in those years."""
    known = {**_ACS, **_FILTERED[task]}
    known["ST"] = Domain.categorical([STATES[state]] if state in STATES else list(STATES.values()))
    relations = [_ACS["RELP"]] * (min(years) < 2019) + [_RELSHIPP] * (max(years) >= 2019)
    known["RELP"] = Domain.categorical([c for kind in relations for c in kind.categories])
    return Domain({name: known[name] for name in features})


HOUSING = Domain(
    {
        "longitude": (-125.0, -114.0),
        "latitude": (32.0, 42.0),
        "housing_median_age": (1, 52),
        "total_rooms": (0, 40_000),
        "total_bedrooms": (0, 7_000),
        "population": (0, 40_000),
        "households": (0, 7_000),
        "median_income": (0.0, 15.0),
        "ocean_proximity": ["<1H OCEAN", "INLAND", "ISLAND", "NEAR BAY", "NEAR OCEAN"],
    }
)
