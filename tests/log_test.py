"""What a run prints of its metrics."""

from __future__ import annotations

from numjax.runtime import log


def test_a_loss_part_that_a_split_lacks_is_not_printed():
    metrics = {"loss": 1.0, "masked/token": 2.0, "masked/number": float("nan"), "em": float("nan")}
    assert log.format_metrics(metrics) == "loss 1.0000 · masked/token 2.0000 · em nan"


def test_metrics_have_a_line_for_each_stream(capsys):
    names = ("loss", "next/token", "exact", "digits", "exact/add", "digits/add", "exact/add/length 8", "r2/orbit")
    log.say_metrics("test", {name: index / 4 for index, name in enumerate(names)})
    assert capsys.readouterr().err.splitlines() == [
        "test: loss 0.0000 · next/token 0.2500 · exact 0.5000 · digits 0.7500 · exact/add/length 8 1.5000 · "
        "r2/orbit 1.7500",
        "  add: exact 1.0000 · digits 1.2500",
    ]
    nan = float("nan")  # a part that this split lacks
    parts = {"exact/add": nan, "digits/add": nan, "exact/mul": 0.5, "digits/mul": 0.75, "exact/max": nan}
    log.say_metrics("test", {"exact": 0.5, "digits": 0.75} | parts | {"digits/max": 1.0})
    assert capsys.readouterr().err.splitlines() == [
        "test: exact 0.5000 · digits 0.7500 · digits/max 1.0000",
        "  mul: exact 0.5000 · digits 0.7500",
    ]
