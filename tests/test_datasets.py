"""Data sets: public domains, and the way from a local folder over the cache to a stand-in server."""

import hashlib
import io
import json
import struct
import threading
import time
import warnings
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest

from lumberjack.datasets import (
    SampleWarning,
    acs,
    fetch_acs,
    fetch_adult,
    fetch_california_housing,
    make_toy,
    store,
)
from lumberjack.datasets.codebooks import ADULT, HOUSING, STATES, acs_domain
from lumberjack.kinds import Categorical


class Server:
    """Answers from a table of pages; a page may fail in a named way, for a number of visits."""

    def __init__(self):
        outer = self
        self.pages, self.visits, self.manners, self.sick = {}, [], {}, {}

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                outer.visits.append(self.path)
                body = outer.pages.get(self.path)
                if body is None:
                    self.send_error(404)
                    return
                manner = outer.manners.get(self.path, "well")
                if outer.sick.get(self.path, 10**9) < outer.visits.count(self.path):
                    manner = "well"
                if manner == "busy":
                    self.send_error(503)
                    return
                self.send_response(200)
                if manner != "no length":
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if manner in ("well", "no length"):
                    self.wfile.write(body)
                elif manner == "cut short":
                    self.wfile.write(body[: len(body) // 2])
                elif manner == "silent":
                    time.sleep(1.0)
                elif manner == "reset":
                    self.wfile.write(body[:10])
                    self.wfile.flush()
                    # SO_LINGER 0: the connection ends with a reset instead of a goodbye
                    self.connection.setsockopt(1, 13, struct.pack("ii", 1, 0))
                    self.connection.close()
                elif manner == "trickle":
                    for byte in body:
                        try:
                            self.wfile.write(bytes([byte]))
                            self.wfile.flush()
                        except OSError:
                            return
                        time.sleep(0.02)

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.handle_error = lambda *_: None
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def server(monkeypatch, tmp_path):
    served = Server()
    monkeypatch.delenv("LUMBERJACK_DATA", raising=False)
    monkeypatch.setenv("LUMBERJACK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "OPENML", served.url)
    monkeypatch.setattr(acs, "CENSUS", served.url)
    monkeypatch.setattr(store, "PAUSE", 0.0)
    monkeypatch.setattr(store, "TIMEOUT", 0.3)
    yield served
    served.http.shutdown()
    served.http.server_close()


def serve_openml(server, number, arff, md5=None):
    body = arff.encode()
    checksum = md5 or hashlib.md5(body).hexdigest()
    described = {"url": f"{server.url}/file.arff", "md5_checksum": checksum}
    server.pages[f"/{number}"] = json.dumps({"data_set_description": described}).encode()
    server.pages["/file.arff"] = body


def adult_arff(rows=48_842):
    lines = ["% a comment", "@relation adult"]
    for name in ADULT:
        kind = ADULT[name]
        text = isinstance(kind, Categorical)
        lines.append(
            f"@ATTRIBUTE '{name}' " + ("{" + ",".join(kind.categories) + "}" if text else "REAL")
        )
    lines += ["@attribute class {>50K, <=50K}", "@data"]
    one = (
        "39,State-gov,77516,Bachelors,13,Never-married,Adm-clerical,Not-in-family,White,Male,2174,0,40,"
    )
    other = "50, ?, 83311, Bachelors, 13, Divorced, ?, Husband, White, Male, 0, 0, 13, "
    body = [f"{one}United-States,<=50K", f"{other}?, >50K"]
    return "\n".join(lines + body * (rows // 2)) + "\n"


def cached(tmp_path):
    folder = tmp_path / "cache"
    return sorted(p.name for p in folder.rglob("*")) if folder.exists() else []


def test_toy_data_are_the_papers():
    for scale in (1, 10, 1000):
        X, y, domain = make_toy(scale=scale)
        assert X.shape == (10_000, 2)
        assert np.bincount(y).tolist() == [5500, 4000, 500]
        assert (domain["x"].low, domain["x"].high) == (0, 5 * scale)
        assert (domain["y"].low, domain["y"].high) == (0, 4 * scale)
        assert X.min() >= 0
        assert np.all([5 * scale, 4 * scale] >= X)
        centre = X[y == 2].mean(axis=0)
        np.testing.assert_allclose(centre, [5 * scale - 1, 4 * scale - 1], atol=0.05)


def test_adult_comes_from_openml_and_is_cached(server, tmp_path):
    serve_openml(server, 1590, adult_arff())
    X, y, domain = fetch_adult()
    assert X.shape == (48_842, 14)
    assert list(X.columns) == list(domain) == ADULT.names
    assert X["age"].head(2).tolist() == [39, 50]
    assert X["occupation"].head(2).tolist() == ["Adm-clerical", "?"]  # "?" is a category of the domain
    assert y.head(2).tolist() == ["<=50K", ">50K"]
    assert cached(tmp_path) == ["adult.parquet"]
    before = len(server.visits)
    again, _, _ = fetch_adult()
    pd.testing.assert_frame_equal(again, X)
    assert len(server.visits) == before


def test_housing_keeps_missing_numbers_and_quoted_categories(server):
    attributes = [f"@attribute {n} {'string' if n == 'ocean_proximity' else 'numeric'}" for n in HOUSING]
    row = '-122.2,37.9,41,880,?,322,126,8.3,"NEAR BAY",452600'
    lines = ["@relation x", *attributes, "@attribute median_house_value integer", "@data"]
    serve_openml(server, 43_939, "\n".join(lines + [row] * 20_640))
    X, y, _ = fetch_california_housing()
    assert X["total_bedrooms"].isna().all()
    assert X["ocean_proximity"].iloc[0] == "NEAR BAY"
    assert y.iloc[-1] == 452_600


def test_the_local_folder_comes_first(server, tmp_path, monkeypatch):
    frame = pd.DataFrame({name: [0] for name in ADULT} | {"income": ["<=50K"]})
    frame.to_parquet(tmp_path / "adult.parquet")
    monkeypatch.setenv("LUMBERJACK_DATA", str(tmp_path))
    X, _, _ = fetch_adult()
    assert len(X) == 1
    assert server.visits == []


@pytest.mark.parametrize(
    ("manner", "message"),
    [
        ("cut short", "was cut short"),
        ("silent", "timed out"),
        ("reset", "reset|cut short"),
        ("busy", "503"),
    ],
)
def test_a_broken_connection_is_tried_again_and_leaves_nothing(server, tmp_path, manner, message):
    serve_openml(server, 1590, adult_arff())
    server.manners["/file.arff"] = manner
    with pytest.raises(FileNotFoundError, match=message) as error:
        fetch_adult()
    assert "LUMBERJACK_DATA" in str(error.value)
    assert server.visits.count("/file.arff") == store.ATTEMPTS
    assert cached(tmp_path) == []
    server.sick["/file.arff"] = store.ATTEMPTS + 1  # fails once more, then works
    assert len(fetch_adult()[0]) == 48_842
    assert server.visits.count("/file.arff") == store.ATTEMPTS + 2


def test_a_slow_download_meets_the_deadline(server, tmp_path, monkeypatch):
    serve_openml(server, 1590, adult_arff())
    server.manners["/file.arff"] = "trickle"
    monkeypatch.setattr(store, "DEADLINE", 0.2)
    with pytest.raises(FileNotFoundError, match=r"took longer than 0\.2 seconds"):
        fetch_adult()
    assert cached(tmp_path) == []


def test_a_wrong_checksum_is_refused(server, tmp_path):
    serve_openml(server, 1590, adult_arff(), md5="0" * 32)
    with pytest.raises(FileNotFoundError, match="does not have the checksum"):
        fetch_adult()
    assert cached(tmp_path) == []


def test_truncation_without_a_length_is_caught_by_the_checksum(server, tmp_path):
    serve_openml(server, 1590, adult_arff())
    server.pages["/file.arff"] = server.pages["/file.arff"][:-100]
    server.manners["/file.arff"] = "no length"
    with pytest.raises(FileNotFoundError, match="does not have the checksum"):
        fetch_adult()
    assert cached(tmp_path) == []


@pytest.mark.parametrize(
    ("arff", "message"),
    [
        (adult_arff(10), "10 rows instead of 48842"),
        ("<html>sorry</html>", "not an ARFF file"),
        (adult_arff(10).replace("'age'", "'years'"), "lacks the columns age"),
    ],
)
def test_a_table_of_the_wrong_shape_is_refused(server, tmp_path, arff, message):
    serve_openml(server, 1590, arff)
    with pytest.raises(FileNotFoundError, match=message):
        fetch_adult()
    assert cached(tmp_path) == []


def test_a_404_is_not_retried(server):
    with pytest.raises(FileNotFoundError, match="404"):
        fetch_adult()
    assert server.visits == ["/1590"]


def test_a_malformed_description_is_refused(server):
    server.pages["/1590"] = b"{}"
    with pytest.raises(FileNotFoundError, match="in an unknown way"):
        fetch_adult()
    described = {"url": "file:///etc/passwd", "md5_checksum": ""}
    server.pages["/1590"] = json.dumps({"data_set_description": described}).encode()
    with pytest.raises(FileNotFoundError, match="not a web address"):
        fetch_adult()


def test_a_damaged_cache_file_is_downloaded_again(server, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "adult.parquet").write_bytes(b"PAR1 half a file")
    serve_openml(server, 1590, adult_arff())
    assert len(fetch_adult()[0]) == 48_842
    assert len(pd.read_parquet(tmp_path / "cache" / "adult.parquet")) == 48_842


def test_a_write_that_fails_leaves_nothing(server, tmp_path, monkeypatch):
    serve_openml(server, 1590, adult_arff())

    def full_disk(frame, file):
        file.write(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", full_disk)
    with pytest.warns(UserWarning, match=r"adult\.parquet is not kept in the cache: No space left"):
        X, _, _ = fetch_adult()
    assert len(X) == 48_842  # what was downloaded is used nevertheless
    assert cached(tmp_path) == []


def test_a_cache_that_cannot_be_written_to_is_no_obstacle(server, tmp_path, monkeypatch):
    serve_openml(server, 1590, adult_arff())
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("LUMBERJACK_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(UserWarning, match="is not kept in the cache"):
        assert len(fetch_adult()[0]) == 48_842


def persons(**columns):
    """Six ordinary persons, except for the given columns; the columns are those of PUMS 2018."""
    names = {n for task in acs.TASKS.values() for n in (*task.features, *task.needs)}
    frame = pd.DataFrame({name: [1.0] * 6 for name in sorted(names)})
    frame["AGEP"], frame["PINCP"], frame["ST"] = 30.0, 60_000.0, 6.0
    for name, values in columns.items():
        frame[name] = values
    frame["SERIALNO"] = ["2018GQ0000001"] * 6  # text that is not asked for
    return frame


def serve_census(server, frame, state="ca", year=2018, members=1, damage=False):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for i in range(members):
            archive.writestr(f"psam_p{i}.csv", frame.to_csv(index=False))
        archive.writestr("readme.pdf", b"%PDF")
    body = buffer.getvalue()
    if damage:  # one byte of the CSV, so that its CRC is wrong
        body = body[:500] + bytes([body[500] ^ 1]) + body[501:]
    server.pages[f"/{year}/1-Year/csv_p{state}.zip"] = body


def test_each_task_keeps_and_labels_the_persons_it_should(server, tmp_path):
    nan = np.nan
    frame = persons(
        AGEP=[16, 17, 18, 34, 64, 65],
        PINCP=[nan, 60_000, 50_000, 100, 30_000, 50_001],
        WKHP=[nan, 40, 40, 40, nan, 1],
        ESR=[nan, 1, 1, 6, 1, 1],
        PUBCOV=[1, 1, 2, 1, 1, 1],
        JWMNP=[nan, 20, 21, 30, nan, 200],
        MIG=[1, 1, 3, 2, 1, 1],
        COW=[nan, 1, 2, 3, 4, 5],
    )
    serve_census(server, frame)
    # folktables' definitions, by hand
    expected = {
        "income": ([17, 18, 65], [1, 0, 1]),
        "employment": ([16, 17, 18, 34, 64, 65], [0, 1, 1, 0, 1, 1]),
        "public_coverage": ([34, 64], [1, 1]),
        "travel_time": ([17, 18, 64, 65], [0, 1, 0, 1]),
        "mobility": ([34], [0]),
    }
    for task, (ages, labels) in expected.items():
        X, y, domain = fetch_acs(task)
        assert X["AGEP"].tolist() == ages, task
        assert y.tolist() == labels, task
        assert list(X.columns) == list(domain)
        assert not X.isna().any().any()
    assert server.visits == ["/2018/1-Year/csv_pca.zip"]  # one archive serves all tasks
    X, _, _ = fetch_acs("mobility")
    assert X["COW"].tolist() == [3]
    X, _, _ = fetch_acs("employment")
    assert X["MIG"].tolist() == [1, 1, 3, 2, 1, 1]


def test_the_newer_names_of_columns_are_known(server):
    frame = persons(RELP=25).rename(columns={"RELP": "RELSHIPP", "JWTR": "JWTRNS", "ST": "STATE"})
    serve_census(server, frame, "tx", 2023)
    X, _, domain = fetch_acs("travel_time", "tx", 2023)
    assert X["RELP"].tolist() == [25] * 6
    assert domain["RELP"].categories == tuple(range(20, 39))
    assert domain["ST"].categories == (48,)
    serve_census(server, persons(), "tx", 2018)
    X, _, domain = fetch_acs("travel_time", "TX", [2018, 2023])
    assert len(X) == 12
    assert domain["RELP"].categories == (*range(18), *range(20, 39))


def test_the_whole_country_is_all_states(server):
    for state in STATES:
        serve_census(server, persons(), state.lower())
    X, _, domain = fetch_acs("public_coverage", "US")
    assert len(X) == 0  # nobody here earns little enough
    assert len(domain["ST"].categories) == 52
    assert len(server.visits) == 51
    X, _, _ = fetch_acs("employment", "US")
    assert len(X) == 51 * 6


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"damage": True}, "the archive is damaged"),
        ({"members": 2}, "holds 2 CSV files"),
        ({"frame": persons().drop(columns="COW")}, "lacks the columns COW"),
    ],
)
def test_damaged_archives_are_refused(server, tmp_path, how, message):
    serve_census(server, **({"frame": persons()} | how))
    with pytest.raises(FileNotFoundError, match=message):
        fetch_acs("income")
    assert [n for n in cached(tmp_path) if "income" in n] == []


def test_a_page_instead_of_an_archive_is_refused(server, tmp_path):
    server.pages["/2018/1-Year/csv_pca.zip"] = b"<html>moved</html>"
    with pytest.raises(FileNotFoundError, match="not an archive"):
        fetch_acs()
    assert cached(tmp_path) == []


def test_samples_are_named(server, tmp_path, monkeypatch):
    task = acs.TASKS["income"]
    frame = pd.DataFrame({name: [1] for name in task.features} | {"label": [1]})
    frame.to_parquet(tmp_path / "acs_income_ca_2018_sub.parquet")
    monkeypatch.setenv("LUMBERJACK_DATA", str(tmp_path))
    with pytest.warns(SampleWarning, match="only a sample of ACS income, CA 2018: 46 % sample") as found:
        fetch_acs()
    assert found[0].message.sample == "46 % sample"
    assert found[0].filename == __file__
    frame.to_parquet(tmp_path / "acs_income_ca_2018.parquet")
    with warnings.catch_warnings():  # the whole data set is preferred, and needs no warning
        warnings.simplefilter("error")
        fetch_acs()


def test_years_in_one_file_are_kept_apart(server, tmp_path, monkeypatch):
    task = acs.TASKS["employment"]
    columns = {name: [1, 2] for name in task.features} | {"label": [0, 1], "YEAR": [2015, 2018]}
    pd.DataFrame(columns).to_parquet(tmp_path / "acs_employment_ma_2015_2018.parquet")
    monkeypatch.setenv("LUMBERJACK_DATA", str(tmp_path))
    assert fetch_acs("employment", "MA")[1].tolist() == [1]
    X, y, _ = fetch_acs("employment", "MA", (2015, 2018))
    assert y.tolist() == [0, 1]
    assert "YEAR" not in X.columns


def test_unknown_tasks_states_and_years_are_named():
    with pytest.raises(ValueError, match="task must be one of 'income'"):
        fetch_acs("wealth")
    with pytest.raises(ValueError, match="state must be 'US' or the two letters of a state, got 'XX'"):
        fetch_acs("income", "XX")
    with pytest.raises(ValueError, match="the two letters of a state, got 6"):
        fetch_acs("income", 6)
    for year in (2020, 2013, "2018", 2018.0, (2018, 2020), None):
        with pytest.raises(ValueError, match="year must be a number from 2014 on, and not 2020, got"):
            fetch_acs("income", "CA", year)
    with pytest.raises(ValueError, match="at least one year"):
        fetch_acs("income", "CA", [])


def test_the_domains_count_as_the_paper_does():
    """Features and categorical features of the paper's data-set table."""
    shapes = {
        "income": (10, 4),
        "employment": (16, 10),
        "public_coverage": (19, 10),
        "travel_time": (16, 7),
    }
    for task, shape in shapes.items():
        domain = acs_domain(task, acs.TASKS[task].features, "CA", (2018,))
        categorical = sum(isinstance(kind, Categorical) for kind in domain.kinds)
        assert (len(domain), categorical) == shape
    assert sum(isinstance(kind, Categorical) for kind in ADULT.kinds) == 8
    assert len(ADULT) == 14
