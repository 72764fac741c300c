import json

from chronoscale.harness.forecasts import errors


def test_naive_errors_stand_beside_the_models(tmp_path):
    assert errors(tmp_path, "dcrnn") == {}
    (tmp_path / "test.json").write_text("[3.0, 5.0, 0.1]")
    assert errors(tmp_path, "dcrnn") == {"dcrnn": {"mae": 3.0, "rmse": 5.0, "mape": 0.1}}
    (tmp_path / "naive.json").write_text(json.dumps({"last value": {"mae": 2.5}, "mean": [4, 6, 0.2]}))
    assert errors(tmp_path, "dcrnn") == {
        "dcrnn": {"mae": 3.0, "rmse": 5.0, "mape": 0.1},
        "last value": {"mae": 2.5},
        "mean": {"mae": 4.0, "rmse": 6.0, "mape": 0.2},
    }
