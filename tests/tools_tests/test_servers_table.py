"""The table of servers in the documentation matches the runs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

TOOL = Path(__file__).resolve().parents[2] / "tools/servers/table.py"
RUN = """<testsuites><testsuite>
<testcase name="a"/><testcase name="b"><properties/></testcase>
<testcase name="c"><failure/></testcase><testcase name="d"><error/></testcase>
<testcase name="e"><skipped type="pytest.skip"/></testcase>
<testcase name="f"><skipped type="pytest.xfail"/></testcase>
</testsuite></testsuites>"""


def test_the_page_has_the_table_of_the_runs() -> None:
    ran = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_what_a_list_says_to_fail_is_counted_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "run.xml"
    path.write_text(RUN)
    spec = importlib.util.spec_from_file_location("servers_table", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.counts_of(path) == {"passed": 2, "failed": 2, "listed": 1, "skipped": 1}
