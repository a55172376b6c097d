# SPDX-License-Identifier: GPL-2.0-or-later
"""
The table engine × level × feature: ok, or a number that the reason why not is listed under. And man/engines.table, the same
for the manual, which a run's results are held against, cell by cell.
"""
import inspect
import os
import re
import textwrap

LEVELS = ("plain", "sandbox", "vm")
LOCAL = "not in this run: "  # begins the reasons that are not about moat, and not in the manual

MANUAL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../man/engines.table")
COLUMNS = [(engine, level) for engine in ("podman", "docker", "containerd") for level in LEVELS]
COLUMNS[3:3] = [("rootless", "plain"), ("rootless", "vm")]
HEADS = ("podman      rootless docker      containerd",
         "pla sbx vm  pla vm   pla sbx vm  pla sbx vm   feature")
STARTS = (0, 4, 8, 12, 16, 21, 25, 29, 33, 37, 41)  # of the columns
TEXT = 46  # where the feature begins


class Table:
    def __init__(self):
        self.cells = {}  # feature -> {(engine, level): text}
        self.reasons = []
        self.columns = []
        self.families = {}  # column -> that of the engine which it is a version of

    def add(self, test, outcome, reason=""):
        """outcome: ok, FAIL or skip."""
        key = (test.engine_name, test.level)
        self.families[key] = (test.family, test.level)
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
        yield " " * width + "".join("%-13s" % engine for engine, _ in columns)
        yield " " * width + "".join("%-13s" % level for _, level in columns)
        for name, row in self.cells.items():
            yield name.ljust(width) + "".join("%-13s" % row.get(c, "") for c in columns).rstrip()
        for number, reason in enumerate(self.reasons, 1):
            yield "-%d: %s" % (number, reason)

    def results(self):
        """[(feature, column, "ok" or the reason)] of what is told in the manual."""
        for name, row in self.cells.items():
            for column, text in row.items():
                if text.startswith("-"):
                    text = self.reasons[int(text[1:]) - 1]
                if text != "FAIL" and not text.startswith(LOCAL):
                    yield name, column, text

    def differs(self, manual):
        """What the manual says otherwise than this run, or does not know of at all; a line each. Versions are to be alike."""
        for name, column, text in self.results():
            there = column if column in COLUMNS else self.families[column]
            said = manual.get(name, {}).get(there, text if name in manual else "nothing")
            if said != text:
                yield "%s, %s, level %s: %s; the manual: %s" % (name, *column, text, said)


def feature(test):
    """The first line of the test's description, else its name in words."""
    method = getattr(test, test._testMethodName)
    text = inspect.getdoc(method)
    return text.splitlines()[0].rstrip(".") if text else test._testMethodName.removeprefix("test_").replace("_", " ")


def read_manual(path=MANUAL):
    """{feature: {column: "ok" or the reason}}"""
    rows, reasons, letter = {}, {}, None
    with open(path, encoding="utf-8") as f:
        for line in f.read().splitlines()[len(HEADS):]:
            match = re.match(r"([a-z]+)\) (.*)|    (\S.*)", line)
            if match and match.group(1):
                letter = match.group(1)
                reasons[letter] = match.group(2)
            elif match and letter:
                reasons[letter] += " " + match.group(3)
            elif line:
                rows[line[TEXT:]] = {column: line[at:at + 4].strip() for column, at in zip(COLUMNS, STARTS)}
    return {name: {column: reasons.get(text, text) for column, text in row.items() if text not in ("", ".")}
            for name, row in rows.items()}


def write_manual(rows, path=MANUAL):
    reasons = []
    lines = list(HEADS)
    for name, row in rows.items():
        line = ""
        for column, at in zip(COLUMNS, STARTS):
            text = row.get(column, ".")
            if text not in ("ok", "."):
                if text not in reasons:
                    reasons.append(text)
                text = letter(reasons.index(text))
            line = line.ljust(at) + text
        lines.append(line.ljust(TEXT) + name)
    lines.append("")
    for number, reason in enumerate(reasons):
        lines += textwrap.wrap(reason, 96, initial_indent=letter(number) + ") ", subsequent_indent="    ",
                               break_long_words=False, break_on_hyphens=False)
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")


def letter(number):
    """a to z, then aa, ab and so on."""
    return (chr(ord("a") + number // 26 - 1) if number >= 26 else "") + chr(ord("a") + number % 26)


def update_manual(table, tests):
    """Takes a run's results over; what no test has any more goes. The rows are in the order of the tests."""
    rows = read_manual() if os.path.exists(MANUAL) else {}
    for name, column, text in table.results():
        if column in COLUMNS:
            rows.setdefault(name, {})[column] = text
    names = {}
    for test in tests:
        names.setdefault(feature(test), set()).add((test.engine_name, test.level))
    write_manual({name: {column: text for column, text in rows[name].items() if column in columns}
                  for name, columns in names.items() if name in rows})


def stale(manual, tests):
    """Cells of the manual that no test is behind."""
    there = {(feature(test), test.engine_name, test.level) for test in tests}
    for name, row in manual.items():
        for column in row:
            if (name, *column) not in there:
                yield "%s, %s, level %s: no test shows what the manual says" % (name, *column)
