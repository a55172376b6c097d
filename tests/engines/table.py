# SPDX-License-Identifier: GPL-2.0-or-later
"""The table engine × level × feature: ok, or a number that the reason why not is listed under."""
import inspect

LEVELS = ("plain", "sandbox", "vm")


class Table:
    def __init__(self):
        self.cells = {}  # feature -> {(engine, level): text}
        self.reasons = []
        self.columns = []

    def add(self, test, outcome, reason=""):
        """outcome: ok, FAIL or skip."""
        key = (test.engine_name, test.level)
        if key not in self.columns:
            self.columns.append(key)
        row = self.cells.setdefault(feature(test), {})
        if outcome == "skip":
            if reason not in self.reasons:
                self.reasons.append(reason)
            outcome = "-%d" % (self.reasons.index(reason) + 1)
        if row.get(key) != "FAIL":
            row[key] = outcome

    def lines(self):
        if not self.cells:
            return
        columns = sorted(self.columns, key=lambda c: (c[0], LEVELS.index(c[1])))
        width = max(map(len, self.cells)) + 2
        yield " " * width + "".join("%-11s" % engine for engine, _ in columns)
        yield " " * width + "".join("%-11s" % level for _, level in columns)
        for name, row in self.cells.items():
            yield name.ljust(width) + "".join("%-11s" % row.get(c, "") for c in columns).rstrip()
        for number, reason in enumerate(self.reasons, 1):
            yield "-%d: %s" % (number, reason)


def feature(test):
    """The first line of the test's description, else its name in words."""
    method = getattr(test, test._testMethodName)
    text = inspect.getdoc(method)
    return text.splitlines()[0].rstrip(".") if text else test._testMethodName.removeprefix("test_").replace("_", " ")
