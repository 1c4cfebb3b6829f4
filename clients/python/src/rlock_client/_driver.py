"""Imported first: what the other modules import of the driver is not in all of its versions."""

import re

from redis import __version__ as version

from ._errors import Unsupported

if [int(number) for number in re.findall(r"\d+", version)[:3]] < [5, 0, 1]:
    raise Unsupported("this redis-py is too old; update it to 5.0.1 or later")
