"""Checks the version of redis-py, before other modules import names that older versions lack."""

import re

from redis import __version__ as version

from ._errors import Unsupported

if [int(number) for number in re.findall(r"\d+", version)[:3]] < [5, 0, 1]:
    raise Unsupported("this redis-py is too old; update it to 5.0.1 or later")
