"""The dashboard and the alert rules: every metric that they name exists, with the labels they ask for."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from hoptrio.control.figures import Figures
from hoptrio.control.metrics import metrics
from tests.control.test_metrics import Board, Told, counted
from tests.support.controlling import controlling

CONTRIB = Path(__file__).resolve().parents[2] / "contrib"
ALERTS = CONTRIB / "prometheus" / "alerts.yml"
DASHBOARD = CONTRIB / "grafana" / "hoptrio.json"
PROMTOOL = shutil.which("promtool")


def named(text):
    return set(re.findall(r"\bhoptrio_[a-z_]+", text))


async def known():
    """Every name that a scrape has."""
    async with controlling() as control:
        control.office.figures = Figures(Board(Told(counted(streams=1), True)))
        text = (await metrics(control.office)).decode()
    return {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}


async def test_every_metric_of_the_alert_rules_exists():
    assert named(ALERTS.read_text()) <= await known()


async def test_every_metric_of_the_dashboard_exists_and_every_metric_is_on_it():
    told, there = named(DASHBOARD.read_text()), await known()
    assert told <= there
    families = {re.sub(r"_(bucket|sum|count|total)$", "", name) for name in there}
    assert {re.sub(r"_(bucket|sum|count|total)$", "", name) for name in told} == families


def test_the_dashboard_has_a_panel_for_each_expression_and_none_overlap():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert all(target["expr"] for panel in panels for target in panel["targets"])
    cells = [
        (x, y)
        for panel in panels
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is Prometheus's own (Debian: package prometheus)")
def test_prometheus_takes_the_alert_rules_and_the_dashboards_expressions(tmp_path):
    checked = subprocess.run([PROMTOOL, "check", "rules", ALERTS], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    expressions = [
        target["expr"].replace("$__rate_interval", "5m")
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for target in panel["targets"]
    ]
    rules = [{"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(expressions)]
    # JSON is YAML.
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    argv = [PROMTOOL, "check", "rules", tmp_path / "rules.yml"]
    checked = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is Prometheus's own (Debian: package prometheus)")
async def test_prometheus_finds_nothing_to_lint_in_a_scrape():
    async with controlling() as control:
        control.office.figures = Figures(Board(Told(counted(streams=1), True)))
        text = await metrics(control.office)
    argv = [str(PROMTOOL), "check", "metrics"]
    checked = await trio.run_process(argv, stdin=text, capture_stdout=True, capture_stderr=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
