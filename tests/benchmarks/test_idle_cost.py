import os
import subprocess
import sys
import time

import pytest

from benchmarks.idle_cost import Usage, idle_between, pss_mb, total_cpu_s, tree, usage, usages

BUSY_CHILD = """
import subprocess, sys, time
subprocess.run([sys.executable, "-c", "n = 0\\nwhile n < 6_000_000: n += 1"], check=True)
print("rests", flush=True)
time.sleep(60)
"""


def test_counts_what_a_process_and_its_ended_children_have_used():
    before = os.times()
    with subprocess.Popen([sys.executable, "-c", BUSY_CHILD], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        found = usages({"parent": parent.pid})
        assert found[parent.pid].name == "parent"
        assert found[parent.pid].waited_for_s > 0.05
        assert tree(parent.pid) == [parent.pid]
        assert pss_mb(parent.pid) > 1
        parent.kill()
        parent.wait()
    after = os.times()
    spent = after.children_user + after.children_system
    spent -= before.children_user + before.children_system
    assert total_cpu_s(found) == pytest.approx(spent, abs=0.1)


def test_a_child_is_below_its_parent():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        assert child.pid in tree(os.getpid())
        child.kill()


def test_a_share_is_of_one_core_and_counts_a_new_process_from_nothing():
    before = {1: Usage("web", 10.0, 1.0, 100)}
    after = {1: Usage("web", 10.5, 1.5, 300), 2: Usage("worker", 0.2, 0.0, 20)}
    shares = idle_between(before, after, 10.0)
    assert (shares[1].cpu, shares[1].wakeups) == (pytest.approx(0.1), pytest.approx(20))
    assert (shares[2].cpu, shares[2].wakeups) == (pytest.approx(0.02), pytest.approx(2))


def test_waits_are_wakeups():
    before = usage(os.getpid()).switches
    for _ in range(20):
        time.sleep(0.001)
    # A process that is displaced just before it would sleep may find its wait over.
    assert usage(os.getpid()).switches - before >= 10
