"""Properties that are computed once."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:  # noqa: N801 - the name in functools
        """`functools.cached_property` of Python 3.12 and later, which has no lock.

        In Python 3.11 one lock serves all objects of a class. So threads wait for one another, and
        a process forked while another thread computes has a lock that nobody releases. Without it,
        two threads may compute the same property of one object; either value will do.
        """

        def __init__(self, function):
            self.function, self.__doc__ = function, function.__doc__

        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = instance.__dict__[self.name] = self.function(instance)
            return value


__all__ = ["cached_property"]
