# SPDX-License-Identifier: GPL-2.0-or-later
"""`python3 -m fscheck DIRECTORY [PREFIX]`: prints what the checks saw there, as JSON."""
import sys

from . import access, data, names, removal, special, xattrs  # noqa: F401: they register checks
from . import core

core.main(sys.argv[1:])
